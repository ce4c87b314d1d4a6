"""The fold over events: whatever their order, however often they come, wherever it is cut."""

import math
import pickle
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyhole
from keyhole import HIT, MISS
from keyhole.errors import InvalidError, KeyholeError, SnapshotError
from keyhole.feedback import Answer
from keyhole.keyed import (
    Amended,
    Answered,
    Asked,
    Elapsed,
    Event,
    Fold,
    Kind,
    Output,
    Skipped,
    make_fold,
)
from keyhole.keyed import state as states
from keyhole.predictor.progress import Progress
from keyhole.predictor.tally import Tally
from keyhole.scores import LabelSet

KEY = "anna"
LABELS = ["ant", "bee", "cat"]
LIFETIME = 50
_score = st.floats(0.0, 1.0)
_output = st.lists(_score, min_size=3, max_size=3)


def by_name(name: str | None, **more: Any) -> Fold:
    score = keyhole.Probabilities(labels=LABELS)
    return make_fold(name, alpha=0.1, score=score, feedback="full", seed=5, recall=31, **more)


def with_groups(**more: Any) -> Fold:
    return by_name("mvp", groups=["old", "new"], **more)


def with_features(**more: Any) -> Fold:
    return by_name(None, features=["hour", "load"], groups=["old", "new"], **more)


MAKERS: dict[str, Callable[..., Fold]] = {
    "the default, with a few numbers of state": lambda **more: by_name("logit-tracker", **more),
    "a rule that draws, and remembers its weights": lambda **more: by_name(
        "ocp-unlock+", arms=8, **more
    ),
    "a rule that tells groups apart": with_groups,
    "a rule with features and groups": with_features,
}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Draw asks, answers and skips of up to 20 rounds, in any order, some twice, some of no round."""
    events: list[Event] = []
    asked: list[str] = []
    time = 1000
    for number in range(draw(st.integers(1, 20))):
        time += draw(st.integers(-5, 30))
        events.append(
            Asked(
                f"r{number}",
                draw(_output),
                at=time,
                features=(0.1 * number, None),
                groups=draw(st.sampled_from([(), ("new",), (0, 1)])),
            )
        )
        asked.append(f"r{number}")
        for _ in range(draw(st.integers(0, 2))):
            name = draw(st.sampled_from([*asked, "nobody"]))
            at = time + draw(st.integers(-5, 30))
            label = draw(st.sampled_from([*LABELS, "yak"]))
            kinds: list[Event] = [
                Answered(name, label=label, at=at),
                Answered(name, score=0.3, at=at),
                Skipped(name, at=at),
                draw(st.sampled_from(events)),
            ]
            events.append(draw(st.sampled_from(kinds)))
    return events


def fit(fold: Fold, events: list[Event]) -> list[Event]:
    """Leave out of the asks what the learner has no use for."""
    learner = fold.setup.learner
    return [
        one._replace(
            features=one.features if learner.features else None,
            groups=one.groups if learner.groups else (),
        )
        if isinstance(one, Asked)
        else one
        for one in events
    ]


def steps(fold: Fold, events: list[Event]) -> tuple[bytes, list[Output]]:
    """Fold the events, each from the bytes that the one before left."""
    state, said = b"", []
    for event in events:
        state, more = fold.step(KEY, state, event)
        said += more
    return state, said


def beside(fold: Fold, events: list[Event], said: list[Output]) -> keyhole.Predictor[Any]:
    """Play the rounds that the fold counted with a predictor; every set must be the fold's."""
    setup = fold.setup
    names: dict[str, Any] = {kind: known or None for kind, known in setup.names._asdict().items()}
    predictor = keyhole.Predictor(
        setup.learner, score=setup.score, feedback="full", seed=fold.seed_of(KEY), **names
    )
    shown = {}
    of = {one.id: one for one in events if isinstance(one, Asked)}
    for one in said:
        if one.kind is Kind.SHOWN:
            ask = of[one.id]
            shown[one.id] = predictor.predict(ask.output, features=ask.features, groups=ask.groups)
            assert shown[one.id] == one.region
        elif one.kind is Kind.COUNTED:
            answer = next_answer(events, said, one)
            predictor.learn(shown[one.id], **answer)
    return predictor


def next_answer(events: list[Event], said: list[Output], counted: Output) -> dict[str, Any]:
    """Return what the first answer said that counted: later ones to the round were replays."""
    del said
    for event in events:
        if isinstance(event, Answered) and event.id == counted.id:
            if event.score is not None:
                return {"score": event.score}
            return {"label": event.label}
    raise AssertionError(f"{counted} was never answered")


@makers
@given(events=histories())
def test_every_set_is_the_one_that_a_predictor_would_show(
    make: Callable[..., Fold], events: list[Event]
) -> None:
    fold = make()
    events = in_reach(fit(fold, events))
    state, said = steps(fold, events)
    assert len(shown(said)) == len({one.id for one in events if isinstance(one, Asked)})
    predictor = beside(fold, events, said)
    progress = fold.read(state)
    assert fold.setup.learner.pack(progress.state) == fold.setup.learner.pack(predictor._progress.state)
    assert progress.tally.answered == predictor.rounds
    assert progress.tally.misses == predictor._progress.tally.misses
    assert progress.tally.size == predictor._progress.tally.size


def in_reach(events: list[Event]) -> list[Event]:
    """Drop the answers that come before their ask: no round is open for them to count."""
    kept: list[Event] = []
    asked = set()
    for event in events:
        if isinstance(event, Asked):
            asked.add(event.id)
        if isinstance(event, Elapsed) or event.id in asked or event.id == "nobody":
            kept.append(event)
    return kept


@makers
@given(events=histories(), data=st.data())
def test_a_replay_changes_no_byte(
    make: Callable[..., Fold], events: list[Event], data: st.DataObject
) -> None:
    fold = make(lifetime=LIFETIME)
    state, said = steps(fold, fit(fold, events))
    closed = {one.id for one in said if one.kind in (Kind.COUNTED, Kind.SKIPPED, Kind.EXPIRED)}
    known = [
        one
        for one in fit(fold, events)
        if isinstance(one, Asked) or (not isinstance(one, Elapsed) and one.id in closed)
    ]
    again, outputs = fold.step(KEY, state, data.draw(st.sampled_from(known)))
    assert again == state
    assert {one.kind for one in outputs} <= {Kind.REPEATED, Kind.REFUSED}


@makers
@given(events=histories(), cut=st.integers(0, 60))
def test_it_does_not_matter_where_the_events_are_cut_into_batches(
    make: Callable[..., Fold], events: list[Event], cut: int
) -> None:
    fold = make(lifetime=LIFETIME)
    events = fit(fold, events)
    middle, first = fold.run(KEY, b"", events[:cut])
    last, second = fold.run(KEY, middle, events[cut:])
    assert (last, first + second) == steps(fold, events)


@given(events=histories(), places=st.sets(st.integers(0, 40)))
def test_timers_only_say_sooner_what_the_next_event_would(
    events: list[Event], places: set[int]
) -> None:
    fold = by_name("logit-tracker", lifetime=LIFETIME)
    timed: list[Event] = []
    for place, event in enumerate(events):
        if place in places:
            timed.append(Elapsed(event.at))
        timed.append(event)
    state, said = steps(fold, events)
    state_timed, said_timed = steps(fold, timed)
    assert shown(said) == shown(said_timed)
    assert fold.read(state).tally == fold.read(state_timed).tally


def shown(said: list[Output]) -> list[Any]:
    return [one.region for one in said if one.kind is Kind.SHOWN]


@given(events=histories(), limit=st.integers(1, 4))
def test_open_rounds_never_exceed_their_limit(events: list[Event], limit: int) -> None:
    fold = by_name("logit-tracker", open_limit=limit)
    state = b""
    for event in events:
        state, _ = fold.step(KEY, state, event)
        assert len(states.unpack(state, fold.setup.learner).waiting) <= limit


@given(events=histories(), late=st.integers(0, 200))
def test_no_round_outlives_its_lifetime(events: list[Event], late: int) -> None:
    fold = by_name("logit-tracker", lifetime=LIFETIME)
    state, _ = steps(fold, events)
    state, _ = fold.step(KEY, state, Elapsed(1000 + late))
    clock, due = states.unpack(state, fold.setup.learner).clock, fold.next_due(state)
    assert due is None or clock < due <= clock + LIFETIME


@given(events=histories())
def test_every_round_is_closed_once_or_open(events: list[Event]) -> None:
    fold = by_name("logit-tracker", lifetime=LIFETIME, open_limit=3)
    state, said = steps(fold, events)
    closed = [o.id for o in said if o.kind in (Kind.COUNTED, Kind.SKIPPED, Kind.EXPIRED)]
    tally = fold.read(state).tally
    assert len(closed) == len(set(closed)) == tally.answered + tally.expired
    assert tally.predicted == len(shown(said))


@pytest.mark.parametrize(("learner", "bytes_"), [("informed-tracker", 256), ("logit-tracker", 72)])
def test_a_key_takes_few_bytes_with_nothing_open(learner: str, bytes_: int) -> None:
    fold = make_fold(learner, alpha=0.1, lifetime=10**7)
    most = 2**31
    tally = Tally(most, most - 9, most - 9.0, 0.1 * most // 1, most - 1.0, expired=9, unreachable=most)
    here = states.KeyState(Progress(fold.setup.learner.start(), tally), states.LATEST, b"abcdefgh")
    limits = fold.setup.learner.rule.list_limits(fold.setup.learner.settings)
    for name, part in here.progress.state._asdict().items():
        limit: Any = limits.get(name, most)
        part[0] = min(most, limit)
    assert len(states.pack(here, fold.setup.learner)) <= bytes_


def test_intervals_of_the_default_take_at_most_256_bytes() -> None:
    fold = make_fold(alpha=0.1, lifetime=10**7, score=keyhole.scores.BoundedResiduals(bound=1.0))
    state, now = b"", 1_800_000_000_000
    for number in range(40):
        events: list[Event] = [Asked(f"id {number}", 0.1, now + number)]
        if number % 3:
            events.append(Answered(f"id {number}", label=0.123 * number, at=now + number))
        state, _ = fold.run("a key", state, events)
    state, _ = fold.step("a key", state, Elapsed(now + 10**8))
    here = states.unpack(state, fold.setup.learner)
    assert not here.waiting
    assert here.progress.tally.unreachable > 0
    assert here.progress.tally.expired > 0
    assert len(state) <= 256


@pytest.mark.parametrize("chance", [1.0, 0.1])
@pytest.mark.parametrize("judged", [None, HIT])
def test_answers_of_known_chance_and_judges_leave_a_key_below_256_bytes(
    chance: float, judged: Answer | None
) -> None:
    fold, rng, state = make_fold(alpha=0.1, lifetime=10**6), np.random.default_rng(0), b""
    for number in range(600):
        shares = rng.dirichlet([0.5] * 3).tolist()
        state, (shown, *_) = fold.run("a key", state, [Asked(str(number), shares)])
        assert isinstance(shown.region, LabelSet)
        size = len(shown.region)
        told = HIT if size == 3 or (size > 0 and rng.random() < 0.9) else MISS
        verdict = told if judged else None
        answer = Answered(str(number), told, judged=verdict, chance=chance)
        state, _ = fold.run("a key", state, [answer])
        assert len(state) <= 256
    assert fold.read(state).tally.answered == 600
    state, _ = fold.run("a key", state, [Asked("open", [0.5, 0.3, 0.2], 7)])
    assert fold.next_due(state) == 7 + 10**6


@pytest.mark.parametrize("seed", range(5))
def test_intervals_take_at_most_256_bytes_while_their_scale_is_found_too(seed: int) -> None:
    fold = make_fold(alpha=0.1, lifetime=10**7, score=keyhole.ScaledResiduals())
    rng, state, now = np.random.default_rng(seed), b"", 1_800_000_000_000
    for number in range(60):
        label = float(rng.normal() * 10.0 ** rng.integers(-9, 9))  # scattered over all bins
        state, _ = fold.run(
            "a key", state, [Asked(str(number), 0.1, now), Answered(str(number), label=label, at=now)]
        )
        assert len(state) <= 256
        again = make_fold(alpha=0.1, lifetime=10**7, score=keyhole.ScaledResiduals())
        assert states.pack(states.unpack(state, again.setup.learner), again.setup.learner) == state
        assert again.read(state).state == fold.read(state).state
    here = states.unpack(state, fold.setup.learner)
    here.progress.tally.answered += 2**16
    here.packed = None
    longer = states.pack(here, fold.setup.learner)
    assert len(longer) <= 256
    assert states.unpack(longer, fold.setup.learner).progress.state == here.progress.state


@given(
    answered=st.integers(0, 2**40),
    expired=st.integers(0, 2**40),
    misses=st.one_of(st.integers(0, 2**40).map(float), st.floats(0, 1e300)),
    size=st.one_of(st.integers(0, 2**40).map(float), st.floats(0, math.inf)),
    clock=st.integers(-(2**47), 2**47 - 1),
)
def test_a_standing_of_any_size_comes_back_from_its_bytes(
    answered: int, expired: int, misses: float, size: float, clock: int
) -> None:
    learner = keyhole.make("logit-tracker", alpha=0.1)
    tally = Tally(answered + expired, answered, float(answered), misses, size, expired=expired)
    tally.unreachable, tally.weight = expired // 2, float(answered + answered % 3)
    here = states.KeyState(Progress(learner.start(), tally), clock, closed=b"abcdefgh")
    here.progress.state.rounds[0] = answered
    back = states.unpack(states.pack(here, learner), learner)
    assert (back.progress, back.clock, back.closed) == (here.progress, clock, here.closed)


def test_a_late_ask_is_refused_rather_than_opened_again() -> None:
    fold = make_fold(alpha=0.1, lifetime=10, recall=0)
    state, _ = fold.run(KEY, b"", [Asked("a", [0.5], 0), Elapsed(10)])
    again, said = fold.step(KEY, state, Asked("a", [0.5], 0))
    assert (again, said[0].kind) == (state, Kind.REFUSED)


def test_what_is_no_longer_remembered_is_a_new_round() -> None:
    fold = make_fold(alpha=0.1, recall=1)
    events: list[Event] = [
        Asked("a", [0.5]),
        Answered("a", label=0),
        Asked("b", [0.5]),
        Answered("b", label=0),
    ]
    state, _ = fold.run(KEY, b"", events)
    _, said = fold.step(KEY, state, Asked("b", [0.5]))
    assert said[0].kind is Kind.REPEATED
    _, said = fold.step(KEY, state, Asked("a", [0.5]))
    assert said[0].kind is Kind.SHOWN


def test_draws_are_a_function_of_seed_key_and_number() -> None:
    fold = by_name("ocp-unlock+", arms=8)
    asks: list[Event] = [Asked(str(number), [0.5, 0.3, 0.2]) for number in range(30)]

    def thresholds(fold: Fold, key: str) -> list[float]:
        return [o.region.threshold for o in fold.run(key, b"", asks)[1] if o.region is not None]

    other = make_fold(fold.setup.learner, score=fold.setup.score, feedback="full", seed=6)
    assert thresholds(fold, "anna") == thresholds(fold, "anna")
    assert thresholds(fold, "anna") != thresholds(fold, "bert")
    assert thresholds(fold, "anna") != thresholds(other, "anna")


def test_a_judges_word_and_its_checks_count_as_for_a_predictor() -> None:
    predictor = keyhole.Predictor("logit-tracker", alpha=0.1)
    fold, state = make_fold("logit-tracker", alpha=0.1), b""
    for number in range(30):
        shown = predictor.predict([0.6, 0.4])
        judged = keyhole.MISS if number % 4 == 0 or not len(shown) else keyhole.HIT
        truth: Any = {"label": number % 2} if number % 3 == 0 else {}
        predictor.learn(shown, judged=judged, **truth)
        asked, told = Asked(str(number), [0.6, 0.4]), Answered(str(number), judged=judged, **truth)
        state, outputs = fold.run("a key", state, [asked, told])
        assert outputs[0].region == shown
        assert outputs[1].kind == "counted"
    kept, tally = states.unpack(state, fold.setup.learner).progress.tally, predictor._progress.tally
    assert (kept.misses, kept.bias, kept.checks) == (tally.misses, tally.bias, 10)
    state, outputs = fold.run(
        "a key", state, [Asked("x", [0.6, 0.4]), Answered("x", judged=keyhole.MISS, wrong=0.1)]
    )
    assert "give one" in str(outputs[-1].note)


def test_an_answer_of_a_known_chance_counts_as_for_a_predictor() -> None:
    fold = make_fold(alpha=0.1, seed=3)
    predictor = keyhole.Predictor(alpha=0.1, seed=fold.seed_of(KEY))
    state = b""
    for number in range(50):
        prediction = predictor.predict([0.6, 0.4])
        predictor.learn(prediction, label=number % 2, chance=0.3)
        state, said = fold.run(
            KEY,
            state,
            [Asked(str(number), [0.6, 0.4]), Answered(str(number), label=number % 2, chance=0.3)],
        )
        assert said[0].region == prediction


@pytest.mark.parametrize(
    "event",
    [
        Asked("new", [0.2, 1.7]),
        Asked("new", "text"),
        Answered("a", label="yak"),
        Answered("a", score=7.0),
        Answered("a", loss=1.5),
        Answered("a", keyhole.HIT, wrong=0.7),
        Answered("a"),
        Answered("a", label=0, chance=0.0),
        Answered("nobody", label=0),
        Skipped("nobody"),
        Asked(12, [0.2, 0.7]),  # type: ignore[arg-type]
        Answered(None, label=0),  # type: ignore[arg-type]
        Asked("x" * 2**16, [0.2, 0.7]),
        Answered("\ud800", label=0),
        Asked("new", [0.2, 0.7], at=None),  # type: ignore[arg-type]
        Asked("new", [0.2, 0.7], at=1.5),  # type: ignore[arg-type]
        Elapsed(2**47),
        Asked("new", [0.2, 0.7], features=5),  # type: ignore[arg-type]
        Asked("new", [0.2, 0.7], groups=5),  # type: ignore[arg-type]
        Answered("a", label=0, chance="half"),  # type: ignore[arg-type]
    ],
)
def test_an_event_that_cannot_be_used_is_refused_and_changes_nothing(event: Event) -> None:
    fold = make_fold(alpha=0.1)
    state, _ = fold.step(KEY, b"", Asked("a", [0.6, 0.4]))
    again, said = fold.step(KEY, state, event)
    assert again == state
    assert said[0].kind is Kind.REFUSED
    assert said[0].note


def test_scores_of_single_precision_are_shown_as_they_are_kept() -> None:
    import numpy as np

    fold = make_fold(alpha=0.1)
    rough = np.float32(0.5) - np.float32(2**-25)
    state, said = fold.step(KEY, b"", Asked("a", {"x": rough, "y": np.float32(0.9)}))
    _, again = fold.step(KEY, state, Asked("a", {"x": rough, "y": np.float32(0.9)}))
    assert again[0].region == said[0].region


def test_a_key_asks_for_no_timer_when_nothing_is_open() -> None:
    fold = make_fold(alpha=0.1, lifetime=10)
    state, _ = fold.step(KEY, b"", Asked("a", [0.6], 5))
    assert fold.next_due(state) == 15
    state, _ = fold.step(KEY, state, Answered("a", label=0, at=6))
    assert fold.next_due(state) is None
    assert fold.next_due(b"") is None


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"\x00\xf0\x00\x00", SnapshotError),
        (b"\x00", SnapshotError),
        (b"\x00\x10abc", SnapshotError),
    ],
)
def test_bytes_that_are_no_state_are_refused(content: bytes, error: type[KeyholeError]) -> None:
    with pytest.raises(error):
        make_fold(alpha=0.1).step(KEY, content, Elapsed(0))


@pytest.mark.parametrize("given", [{"lifetime": 0}, {"lifetime": 1.5}, {"recall": 32}, {"recall": -1}])
def test_a_fold_that_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        make_fold(alpha=0.1, **given)


@makers
@given(events=histories())
def test_a_fold_that_never_saw_a_key_goes_on_as_the_one_that_did(
    make: Callable[..., Fold], events: list[Event]
) -> None:
    """What a fold keeps of a key between two events, to save reading it, is what the bytes say."""
    same, state, other = make(lifetime=LIFETIME), b"", b""
    for event in events:
        state, said = same.step(KEY, state, event)
        other, told = make(lifetime=LIFETIME).step(KEY, other, event)
        assert (state, said) == (other, told)


def test_an_old_state_can_be_played_again() -> None:
    fold = make_fold(alpha=0.1)
    asked, _ = fold.step(KEY, b"", Asked("a", [0.7, 0.3]))
    answers = [fold.step(KEY, asked, Answered("a", label=label)) for label in (0, 1, 0)]
    assert answers[0] == answers[2] != answers[1]


def test_a_fold_travels_to_another_process() -> None:
    fold = make_fold(alpha=0.1, lifetime=7, recall=3)
    state, _ = fold.step(KEY, b"", Asked("a", [0.7, 0.3]))
    there = pickle.loads(pickle.dumps(fold))  # noqa: S301
    answer = Answered("a", label=0)
    assert there.step(KEY, state, answer) == fold.step(KEY, state, answer)


def test_a_time_that_does_not_fit_is_refused_with_the_remedy() -> None:
    _, said = make_fold(alpha=0.1).step(KEY, b"", Elapsed(2**47))
    assert "milliseconds" in str(said[0].note)


def test_an_id_of_the_most_bytes_is_asked_and_answered() -> None:
    name = "\N{EURO SIGN}" * 21_845  # three bytes each, 65,535 in all
    _, said = make_fold(alpha=0.1).run(KEY, b"", [Asked(name, [0.7, 0.3]), Answered(name, label=0)])
    assert [one.kind for one in said] == [Kind.SHOWN, Kind.COUNTED]


def test_a_time_of_numpy_is_a_time() -> None:
    fold = make_fold(alpha=0.1, lifetime=10)
    state, _ = fold.step(KEY, b"", Asked("a", [0.7, 0.3], at=np.int64(5)))  # type: ignore[arg-type]
    assert state == fold.step(KEY, b"", Asked("a", [0.7, 0.3], at=5))[0]


def test_what_is_no_event_is_refused_by_name() -> None:
    with pytest.raises(InvalidError, match="'ask' is no event"):
        make_fold(alpha=0.1).step(KEY, b"", "ask")  # type: ignore[arg-type]


def test_an_event_refused_for_its_time_is_found_again_by_its_own_id() -> None:
    """Kills: the id as Python writes it, in quotes, which joins with nothing."""
    _, (said,) = make_fold(alpha=0.1).step("shop", b"", Asked("order 1", {"a": 0.7}, at=1.5))  # type: ignore[arg-type]
    assert (said.kind, said.id) == ("refused", "order 1")


@pytest.mark.parametrize("scale", [None, 2.0])
def test_intervals_of_a_key_answered_in_batches_are_those_of_a_predictor(scale: float | None) -> None:
    score = keyhole.ScaledResiduals(scale=scale)
    fold = make_fold("informed-tracker", alpha=0.1, score=score, seed=7)
    predictor = keyhole.Predictor("informed-tracker", alpha=0.1, score=score)
    state, rng = b"", np.random.default_rng(3)
    for batch in range(3):
        truths = rng.normal(size=24).tolist()
        ours = predictor.predict_batch([0.0] * 24)
        names = [f"{batch} {n}" for n in range(24)]
        for name, interval in zip(names, ours, strict=True):
            state, (output,) = fold.step("key", state, Asked(name, 0.0, at=batch))
            assert output.region == interval
        predictor.learn_batch(ours, truths)
        for name, truth in zip(names, truths, strict=True):
            state, _ = fold.step("key", state, Answered(name, label=truth, at=batch))
    assert 2.0 < ours[0].width < 6.0  # The right one is 3.3.
    assert fold.read(state).tally.misses == predictor.miss_rate * 72


HISTORY = [([0.7, 0.2, 0.1], "ant"), ([0.3, 0.6, 0.1], "cat"), ([0.2, 0.2, 0.6], "cat")] * 40


@pytest.mark.parametrize("name", ["logit-tracker", "informed-tracker", "ocp-unlock+"])
def test_a_new_key_starts_where_a_calibrated_predictor_stands(name: str) -> None:
    """Kills: a start that is forgotten, by a pickle too, or that one key changes for the next."""
    more: Any = {"arms": 8} if name == "ocp-unlock+" else {}
    teacher = keyhole.Predictor(
        name, alpha=0.1, score=keyhole.Probabilities(labels=LABELS), feedback="full", **more
    )
    teacher.calibrate([output for output, _ in HISTORY], [label for _, label in HISTORY])
    fold = pickle.loads(pickle.dumps(by_name(name, start=teacher.progress, **more)))  # noqa: S301
    for key in ("anna", "ben"):
        chances = fold.setup.learner.distribution(fold.read(b"").state)
        assert all(map(np.array_equal, chances, teacher.distribution))
        events = [Asked("one", [0.5, 0.3, 0.2], at=1), Answered("one", label="cat", at=2)]
        state, _ = fold.run(key, b"", events)
        assert fold.read(state).tally.answered == 1
        assert fold.read(b"").tally == Tally()


def test_a_start_of_another_learner_or_score_is_refused() -> None:
    teacher = keyhole.Predictor("kt", alpha=0.1)
    scaled = keyhole.Predictor("logit-tracker", alpha=0.1, score=keyhole.ScaledResiduals())
    arms = keyhole.Predictor("ocp-unlock+", alpha=0.1, arms=9, feedback="full")
    for wrong in (teacher.progress, scaled.progress, "kt"):
        with pytest.raises(InvalidError, match="start is not what a predictor with logit-tracker"):
            by_name("logit-tracker", start=wrong)
    with pytest.raises(InvalidError, match="same parameters"):
        by_name("ocp-unlock+", arms=8, start=arms.progress)


def test_the_seed_of_a_key_is_a_keyed_digest_of_its_name() -> None:
    largest = 2**64 - 1
    for seed in (5, largest):
        fold = make_fold(alpha=0.1, score=keyhole.Probabilities(), seed=seed)
        digest = blake2b(b"anna", key=seed.to_bytes(8, "big"), digest_size=8).digest()
        assert fold.seed_of("anna") == int.from_bytes(digest, "big")


def test_what_the_model_says_before_any_answer_is_kept_with_the_key() -> None:
    """Kills: bytes of before the ask, that are taken again though it changed the learner."""
    fold, state = by_name(None), b""
    alone: keyhole.Predictor[Any] = keyhole.Predictor(alpha=0.1)
    for number in range(3):
        output = [0.98, 0.01, 0.01]
        state, (said,) = fold.step(KEY, state, Asked(str(number), output, at=number))
        assert said.region is not None
        assert said.region.threshold == alone.predict(output).threshold


def test_as_many_rounds_of_a_key_stay_open_as_may_and_a_hundred_unless_told() -> None:
    assert make_fold(alpha=0.1, score=keyhole.Probabilities()).setup.open_limit == 100
    fold, state, kinds = by_name(None, open_limit=2), b"", []
    for number in range(3):
        state, said = fold.step(KEY, state, Asked(str(number), [0.5, 0.3, 0.2], at=number))
        kinds += [(one.kind, one.id) for one in said]
    shown, expired = Kind.SHOWN, Kind.EXPIRED
    assert kinds == [(shown, "0"), (shown, "1"), (shown, "2"), (expired, "0")]


def test_a_case_of_unknown_features_is_shown_a_set_and_events_begin_at_time_0() -> None:
    _, (said,) = with_features().step(KEY, b"", Asked("1", [0.5, 0.3, 0.2]))
    assert said.kind is Kind.SHOWN
    assert [event.at for event in (Asked("1", 0.0), Answered("1"), Skipped("1"))] == [0, 0, 0]


@pytest.mark.parametrize("settings", [{}, {"groups": ["new"]}, {"score": keyhole.ScaledResiduals()}])
def test_after_any_number_of_amendments_the_accounts_of_a_key_are_those_of_the_final_truths(
    settings: dict[str, Any],
) -> None:
    """Kills: a change counted twice, without its weight, or by another sign; and a replay of one."""
    fold, rng = make_fold(alpha=0.2, recall=3, **settings), np.random.default_rng(4)
    predictor = keyhole.Predictor(alpha=0.2, amend_limit=100, seed=fold.seed_of("anna"), **settings)
    state, counted, truths = b"", dict[int, Any](), dict[int, float]()
    for n in range(60):
        output = 0.0 if "score" in settings else rng.dirichlet(np.ones(3)).tolist()
        groups = ("new",) if "groups" in settings and n % 3 == 0 else ()
        known = {"groups": groups} if groups else {}
        state, outputs = fold.step("anna", state, Asked(f"r{n}", output, groups=groups))
        shown = predictor.predict(output, **known)
        assert outputs[0].region == shown
        label = float(rng.normal()) if "score" in settings else int(rng.integers(3))
        state, outputs = fold.step("anna", state, Answered(f"r{n}", label=label, chance=0.5))
        predictor.learn(shown, label=label, chance=0.5)
        counted[n], truths[n] = outputs[0].miss, float(label not in shown)
        for m in range(2 if n > 5 else 0):  # The first intervals are the whole line.
            k, miss = int(rng.integers(5, n + 1)), float(rng.integers(2))
            change = Amended(f"r{k}", was=counted[k], miss=miss, chance=0.5, at=2 * n + m)
            if "groups" in settings and k % 3 == 0:
                change = change._replace(groups=("new",))
            state, outputs = fold.step("anna", state, change)
            assert (outputs[0].kind, outputs[0].miss) == ("amended", miss)
            again, outputs = fold.step("anna", state, change)
            assert outputs[0].kind == "repeated"
            assert again == state
            predictor.amend(k, keyhole.MISS if miss else keyhole.HIT)
            counted[k] = truths[k] = miss
    assert fold.read(state).tally.misses == pytest.approx(2.0 * sum(truths.values()), abs=1e-9)
    assert fold.read(state).tally.misses == pytest.approx(predictor.progress.tally.misses, abs=1e-9)
    for ours, its in zip(fold.read(state).state, predictor.progress.state, strict=True):
        np.testing.assert_array_equal(ours, its)


@pytest.mark.parametrize(
    ("learner", "change", "fault"),
    [
        (None, Amended("r", was=0.0, miss=2.0), "2.0"),
        (None, Amended("r", was=math.nan, miss=1.0), "nan"),
        (None, Amended("r", was=0.0, miss=1.0, chance=0.001), "least chance"),
        (None, Amended("r", was=0.0, miss=1.0, groups=("x",)), "group"),
        ("kt", Amended("r", was=0.0, miss=1.0), "kt"),
        ("gate-tracker", Amended("r", was=0.0, miss=1.0), "decisions"),
    ],
)
def test_an_amendment_that_cannot_be_made_is_refused_and_changes_nothing(
    learner: str | None, change: Amended, fault: str
) -> None:
    fold = make_fold(learner, alpha=0.2)
    state, _ = fold.step("anna", b"", Elapsed(5))
    after, (output,) = fold.step("anna", state, change)
    assert (output.kind, after) == ("refused", state)
    assert fault in (output.note or "")


def test_a_round_that_is_open_is_answered_and_not_amended() -> None:
    fold = make_fold(alpha=0.2)
    state, _ = fold.step("anna", b"", Asked("r", [0.6, 0.4]))
    after, (output,) = fold.step("anna", state, Amended("r", was=0.0, miss=1.0))
    assert (output.kind, after) == ("refused", state)
    assert "no answer to amend; answer it" in (output.note or "")


def test_an_amendment_of_several_levels_is_refused_as_it_tells_of_one() -> None:
    fold = make_fold(alpha=[0.1, 0.2])
    state, _ = fold.step("anna", b"", Elapsed(5))
    after, (output,) = fold.step("anna", state, Amended("r", was=0.0, miss=1.0))
    assert (output.kind, after) == ("refused", state)
    assert "one level" in (output.note or "")

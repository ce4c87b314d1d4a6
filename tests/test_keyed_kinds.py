"""Gates, levels, features, groups and calibrated starts by key: the choices of their predictors."""

import pickle
import random
from typing import Any

import pytest

from keyhole import HIT, MISS, Gate, Predictor, ScaledResiduals
from keyhole.errors import FeedbackError, InvalidError, KeyholeError, SnapshotError
from keyhole.keyed import Answered, Asked, Elapsed, Fold, Kind, LevelFold, Skipped, make_fold

KEY, ROUNDS = "anna", 250
SCORES = [0.6, 0.3, 0.1]


def ask(fold: Any, state: bytes, id: str, output: Any, **known: Any) -> tuple[bytes, Any]:
    """Return the next state, read from its bytes alone, and what is shown."""
    state, (shown,) = fold.step(KEY, state, Asked(id, output, **known))
    assert shown.kind is Kind.SHOWN, shown.note
    return bytes(bytearray(state)), shown.region


def tell(fold: Any, state: bytes, id: str, **answer: Any) -> tuple[bytes, Any]:
    state, (counted,) = fold.step(KEY, state, Answered(id, **answer))
    assert counted.kind is Kind.COUNTED, counted.note
    return state, counted


def forget(fold: Fold | LevelFold) -> None:
    """Empty the cache, so that a state is read from its bytes."""
    for one in fold.folds.values() if isinstance(fold, LevelFold) else [fold]:
        one._cache.clear()


def draw_judgement(rng: random.Random, how: str, right: bool) -> dict[str, Any]:  # noqa: FBT001
    if how == "chance":
        return {"right": right, "chance": rng.choice((0.2, 0.5))}
    if how == "wrong":
        return {"right": right ^ (rng.random() < 0.1), "wrong": 0.1}
    if how == "judged":
        check = {"right": right} if rng.random() < 0.2 else {}
        return {"judged": right ^ (rng.random() < 0.1), **check}
    return {"right": right}


@pytest.mark.parametrize("how", ["plain", "chance", "wrong", "judged"])
@pytest.mark.parametrize("feedback", ["accepted", "both"])
@pytest.mark.parametrize("groups", [None, ["new", "large"]])
def test_a_key_with_a_gate_decides_as_that_gate(how: str, feedback: str, groups: Any) -> None:
    """Late judgements, some lost; the state is read from its bytes every third time."""
    fold = make_fold("gate-tracker", alpha=0.1, feedback=feedback, groups=groups, seed=3)
    gate = Gate(alpha=0.1, feedback=feedback, groups=groups, seed=fold.seed_of(KEY))
    rng, state, waiting, accepted = random.Random(5), b"", [], 0  # noqa: S311
    for n in range(ROUNDS):
        score = rng.random()
        known = {"groups": [one for one in groups or () if rng.random() < 0.5]} if groups else {}
        state, shown = ask(fold, state, f"r{n}", score, **known)
        own = gate.decide(score, **known)
        assert shown == own
        accepted += own.accepted
        if own.accepted or feedback == "both":
            waiting.append((f"r{n}", own, score))
        if len(waiting) > 3:
            name, decision, was = waiting.pop(rng.randrange(4))
            if rng.random() < 0.1:
                state, _ = fold.step(KEY, state, Skipped(name))
                gate.skip(decision)
                continue
            answer = draw_judgement(rng, how, rng.random() < 0.9 + 0.1 * was)
            gate.learn(decision, **answer)
            if "judged" in answer:
                answer["judged"] = HIT if answer["judged"] else MISS
            state, counted = tell(fold, state, name, **answer)
            assert counted.number == decision.id
        if n % 3 == 0:
            forget(fold)
    assert accepted > 10
    progress: Any = fold.read(state)
    tally, own_tally = progress.tally, gate._progress.tally
    names = ("predicted", "answered", "accepted", "misses", "weight", "bias", "members", "most_open")
    assert [getattr(tally, name) for name in names] == [getattr(own_tally, name) for name in names]
    packed = gate.learner.pack(progress.state)
    assert packed == gate.learner.pack(gate._progress.state)


def test_a_referred_case_does_not_wait_and_is_recognised_again() -> None:
    fold = make_fold("gate-tracker", alpha=0.1)
    state, shown = ask(fold, b"", "r1", 0.0)
    assert not shown.accepted
    state, (again,) = fold.step(KEY, state, Asked("r1", 0.0))
    assert again.kind is Kind.REPEATED
    state, (refused,) = fold.step(KEY, state, Answered("r2", right=True))
    assert refused.kind is Kind.REFUSED
    state, shown = ask(fold, state, "r3", 1.0)
    assert shown.accepted
    forget(fold)
    state, (again,) = fold.step(KEY, state, Asked("r3", 1.0))
    assert (again.kind, again.region) == (Kind.REPEATED, shown)
    _, (refused,) = fold.step(KEY, state, Answered("r3", label=0))
    assert "neither True nor False" in str(refused.note)


def test_a_gates_decision_expires_at_its_time() -> None:
    fold = make_fold("gate-tracker", alpha=0.1, lifetime=10)
    state, _ = ask(fold, b"", "r1", 1.0, at=5)
    assert fold.next_due(state) == 15
    forget(fold)
    state, (expired,) = fold.step(KEY, state, Elapsed(20))
    assert (expired.kind, expired.id) == (Kind.EXPIRED, "r1")
    assert fold.next_due(state) is None


def test_a_table_of_decisions_is_run_as_one_by_one() -> None:
    fold = make_fold("gate-tracker", alpha=0.1)
    events = {
        "key": ["anna", "bert", "anna", "bert"], "id": ["r1", "r1", "r1", "r1"],
        "output": [1.0, 0.0, None, None], "right": [None, None, False, True],
    }  # fmt: skip
    states, outputs = fold.run_many({}, events)
    kinds = [kind.value for kind in outputs.kind]
    assert kinds == ["shown", "shown", "counted", "repeated"]
    assert outputs.size.tolist()[:2] == [1.0, 0.0]
    assert outputs.miss[2] == 1.0
    alone, _ = fold.run("anna", b"", [Asked("r1", 1.0), Answered("r1", right=False)])
    assert states["anna"] == alone


@pytest.mark.parametrize("groups", [None, ["new"]])
def test_new_keys_with_gates_begin_where_a_calibrated_gate_stands(groups: Any) -> None:
    gate = Gate(alpha=0.1, groups=groups, seed=1)
    known: dict[str, Any] = {"groups": [["new"]] * 200} if groups else {}
    gate.calibrate([0.7, 0.4] * 100, [True] * 200, **known)
    fold = make_fold("gate-tracker", alpha=0.1, groups=groups, start=gate.progress)
    of: dict[str, Any] = {"groups": ["new"]} if groups else {}
    begun = gate.decide(0.8, **of)
    state, shown = ask(fold, b"", "r1", 0.8, **of)
    assert shown.threshold == begun.threshold != make_gate_threshold(groups, of)
    assert fold.read(state).tally.predicted == 1


def make_gate_threshold(groups: Any, of: dict[str, Any]) -> float:
    return Gate(alpha=0.1, groups=groups).decide(0.8, **of).threshold


@pytest.mark.parametrize("score", [None, ScaledResiduals()])
@pytest.mark.parametrize("context", [{}, {"features": ["hour"], "groups": ["new"]}])
def test_a_key_of_several_levels_shows_as_the_predictor_of_these_levels(
    score: Any, context: Any
) -> None:
    """With answers that are late, lost or of known chance; misses are those of what was shown."""
    alphas = [0.2, 0.05, 0.1]
    fold = make_fold(alpha=alphas, seed=3, score=score, **context)
    predictor: Any = Predictor(alpha=alphas, seed=fold.seed_of(KEY), score=score, **context)
    rng, state, waiting = random.Random(7), b"", []  # noqa: S311
    for n in range(ROUNDS):
        known: dict[str, Any] = {}
        if context:
            known = {"features": {"hour": rng.random()}, "groups": ["new"] if n % 3 else []}
        output: Any = SCORES if score is None else rng.gauss(0.0, 1.0)
        state, shown = ask(fold, state, f"r{n}", output, **known)
        own = predictor.predict(output, **known)
        assert shown == own
        label = rng.choice((0, 0, 0, 1, 2)) if score is None else output + rng.gauss(0.0, 1.0)
        waiting.append((f"r{n}", own, label))
        if len(waiting) == 3:
            name, own, label = waiting.pop(rng.randrange(3))
            if rng.random() < 0.1:
                state, _ = fold.step(KEY, state, Skipped(name))
                predictor.skip(own)
                continue
            answer: dict[str, Any] = {"label": label}
            if n % 5 == 0:
                answer["chance"] = 0.5
            predictor.learn(own, **answer)
            state, counted = tell(fold, state, name, **answer)
            assert counted.misses == {alpha: float(label not in one) for alpha, one in own.items()}
            assert counted.miss == counted.misses[0.05]
        if n % 3 == 0:
            forget(fold)
    assert list(fold.read(state)) == [0.05, 0.1, 0.2]
    for alpha, progress in fold.read(state).items():
        learner = predictor[alpha].learner
        assert learner.pack(progress.state) == learner.pack(predictor[alpha]._progress.state)


def test_what_does_not_tell_all_levels_is_refused_and_changes_nothing() -> None:
    fold = make_fold(alpha=[0.1, 0.3])
    state, _ = ask(fold, b"", "r1", SCORES)
    for answer in ({"answer": HIT}, {"judged": MISS}, {"loss": 0.5}, {"label": 0, "wrong": 0.1}):
        after, (refused,) = fold.step(KEY, state, Answered("r1", **answer))
        assert (after, refused.kind) == (state, Kind.REFUSED)
    state, (counted,) = fold.step(KEY, state, Answered("r1", MISS))
    assert counted.misses == {0.1: 1.0, 0.3: 1.0}
    _, (refused,) = fold.step(KEY, b"", Answered("r9", label=0))
    assert refused.kind is Kind.REFUSED
    with pytest.raises(FeedbackError, match="bandit"):
        make_fold(alpha=[0.1, 0.3], feedback="bandit")
    with pytest.raises(InvalidError, match="a gate has one alpha"):
        make_fold("gate-tracker", alpha=[0.1, 0.3])


def test_new_keys_of_levels_begin_where_calibrated_levels_stand() -> None:
    predictor: Any = Predictor(alpha=[0.1, 0.3])
    predictor.calibrate([SCORES] * 100, ([0] * 8 + [1] * 2) * 10)
    start = {alpha: predictor[alpha].progress for alpha in predictor.alpha}
    fold = make_fold(alpha=[0.1, 0.3], start=start)
    _, shown = ask(fold, b"", "r1", SCORES)
    assert shown == predictor.predict(SCORES)
    with pytest.raises(InvalidError, match="start is not of these levels"):
        make_fold(alpha=[0.1, 0.2], start=start)


@pytest.mark.parametrize(
    ("given", "output", "answer"),
    [
        ({"alpha": 0.1, "features": 1, "groups": 1}, SCORES, {"label": 1}),
        ({"alpha": [0.1, 0.3]}, SCORES, {"label": 1}),
        ({"alpha": 0.1, "score": ScaledResiduals()}, 3.0, {"label": 4.0}),
        ({"learner": "gate-tracker", "alpha": 0.1}, 1.0, {"right": True}),
    ],
)
def test_a_new_key_begins_where_its_segment_stands_and_goes_on_by_itself(
    given: Any, output: Any, answer: Any
) -> None:
    """Kills: counts or open rounds that are carried over; a time that the key is behind."""
    fold = make_fold(lifetime=5, **given)
    context: dict[str, Any] = {"features": [0.5], "groups": [0]} if "features" in given else {}
    pool = b""
    for n in range(40):
        pool, _ = fold.run(
            "segment",
            pool,
            [Asked(f"r{n}", output, 1_000, **context), Answered(f"r{n}", at=1_000, **answer)],
        )
    pool, (last,) = fold.step("segment", pool, Asked("open", output, 1_000, **context))
    begun = fold.begin(pool)
    state, (first,) = fold.step(KEY, begun, Asked("r1", output, 7, **context))
    assert (first.kind, first.number) == (Kind.SHOWN, 0)
    thresholds = [
        [one.threshold for one in region.values()] if isinstance(fold, LevelFold) else region.threshold
        for region in (last.region, first.region)
    ]
    fresh, (new,) = fold.step("other", b"", Asked("r1", output, 7, **context))
    assert thresholds[0] == thresholds[1]
    assert new.region != first.region or "score" in given
    assert fold.next_due(state) == fold.next_due(fresh)


@pytest.mark.parametrize(
    ("fold", "output"),
    [
        (make_fold("gate-tracker", alpha=0.1, groups=["new"]), 1.0),
        (make_fold(alpha=[0.1, 0.3]), SCORES),
    ],
)
def test_a_hostile_state_is_refused_by_name_or_played_on(fold: Any, output: Any) -> None:
    """Cut, lengthened, or with bytes changed: no error of Python's own, and no endless wait."""
    groups = {"groups": ["new"]} if not isinstance(fold, LevelFold) else {}
    state, _ = ask(fold, b"", "r1", output, **groups)
    answer = Answered("r1", right=True) if groups else Answered("r1", label=0)
    state, _ = fold.step(KEY, state, answer)
    state, _ = ask(fold, state, "r2", output, **groups)
    rng, refused = random.Random(11), 0  # noqa: S311
    assert pickle.loads(pickle.dumps(fold)).read(state) is not None  # noqa: S301
    for cut in range(0, len(state), 7):
        with pytest.raises(SnapshotError):
            fold.step(KEY, state[:cut] or b"\0", Asked("r3", output))
    for _ in range(300):
        hostile = bytearray(state)
        for _ in range(rng.randrange(1, 4)):
            hostile[rng.randrange(len(hostile))] = rng.randrange(256)
        try:
            fold.run(KEY, bytes(hostile), [Answered("r2", right=True, label=0), Asked("r3", output)])
        except KeyholeError:
            refused += 1
    assert refused > 5


def test_a_state_of_another_kind_of_fold_is_refused() -> None:
    sets, levels, gates = (
        make_fold(alpha=0.1),
        make_fold(alpha=[0.1, 0.3]),
        make_fold("gate-tracker", alpha=0.1),
    )
    outputs: list[tuple[Any, Any]] = [(sets, SCORES), (levels, SCORES), (gates, 0.95)]
    for fold, output in outputs:
        state, _ = ask(fold, b"", "r1", output)
        for other, _ in outputs:
            if other is not fold:
                with pytest.raises(SnapshotError):
                    other.read(state)

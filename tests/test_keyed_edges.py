"""Tables, gates and single keys at every edge: what the last that fits does, and what the next does."""

import copy
import pickle
import struct
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import keyhole
from keyhole import HIT, MISS
from keyhole.errors import InvalidError, SnapshotError
from keyhole.keyed import Amended, Answered, Asked, Elapsed, Event, Kind, Skipped, make_fold
from keyhole.keyed import state as states
from keyhole.keyed.columns import NAMES, join_columns, to_labels, write_columns

KEY, SCORES = "anna", [0.6, 0.3, 0.1]
GATE = "gate-tracker"


# Gates


def make_gate(**given: Any) -> Any:
    return make_fold(GATE, alpha=0.1, groups=["new", "large"], lifetime=10, **given)


def test_the_bytes_of_a_gates_key_are_its_head_its_progress_what_it_remembers_and_what_is_open() -> (
    None
):
    fold = make_gate()
    events: list[Event] = [
        Asked("r1", 1.0, 5, groups=["large"]),
        Asked("r2", 1.0, 7),
        Skipped("r1", 8),
    ]
    state, said = fold.run(KEY, b"", events)
    gate: Any = keyhole.Gate(alpha=0.1, groups=["new", "large"], seed=fold.seed_of(KEY))
    first, second = gate.decide(1.0, groups=["large"]), gate.decide(1.0)
    gate.skip(first)
    assert [one.region for one in said[:2]] == [first, second]
    progress = fold.read(state).pack(fold.setup.learner)
    rule, time = crc32(GATE.encode()) & 0xFF, (8).to_bytes(6, "little")
    head = struct.pack("<BBB6sI", 8, 1, rule, time, len(progress))
    opened = head + progress + crc32(b"r1").to_bytes(4, "little") + struct.pack("<Iq", 1, 17)
    assert state.startswith(opened)
    assert fold.next_due(state) == 17
    length, name, case, due, number, then, threshold, size = struct.unpack_from(
        "<IHIqQQdd", state, len(opened)
    )
    assert len(state) == len(opened) + length
    assert (name, due, number, then, threshold, size) == (2, 17, 1, 0, second.threshold, second.size)
    assert state[len(opened) + 50 :][:2] == b"r2"
    assert state[-case:][:2] == b"\0\0"  # no groups
    assert state[-8:] == struct.pack("<d", 1.0)


def test_an_open_decision_begins_with_its_groups() -> None:
    fold = make_gate()
    state, _ = fold.step(KEY, b"", Asked("r1", 1.0, groups=["new", "large"]))
    groups = state[state.index(b"r1") + 2 :][:6]
    assert groups == struct.pack("<3H", 2, 0, 1)
    spoilt = state.replace(groups, struct.pack("<3H", 2, 0, 2))
    with pytest.raises(SnapshotError, match=r"of groups \(0, 2\), and there are 2"):
        copy.copy(fold).step(KEY, spoilt, Answered("r1", right=True))
    many = state.replace(groups, struct.pack("<3H", 900, 0, 1))
    with pytest.raises(SnapshotError, match="not to be read"):
        copy.copy(fold).step(KEY, many, Answered("r1", right=True))


def test_a_gates_state_of_another_version_or_rule_or_cut_short_is_refused_by_name() -> None:
    fold = make_gate()
    state, _ = fold.run(KEY, b"", [Asked("r1", 1.0), Asked("r2", 1.0), Skipped("r1")])
    cases = [
        (b"\x09" + state[1:], "version 9, this Keyhole reads up to 8; upgrade"),
        (b"\x07" + state[1:], "no format version 7"),
        (state[:2] + bytes([state[2] ^ 1]) + state[3:], f"of another rule than {GATE}"),
        (state[:12], "12 bytes are no key's state"),
        (state[:-1], "bytes are no key's state"),
    ]
    for content, fault in cases:
        with pytest.raises(SnapshotError, match=fault):
            fold.read(content)
    closed, _ = fold.run(KEY, b"", [Asked("r1", 1.0), Skipped("r1")])
    with pytest.raises(SnapshotError, match="cut short; restore a copy"):
        fold.read(closed[:-1])
    assert fold.read(closed).tally.predicted == 1


def test_an_answer_that_was_accepted_where_others_are_judged_needs_its_chance() -> None:
    """With feedback of referred cases an accepted one is judged by audit; 1 says there was none."""
    fold = make_fold(GATE, alpha=0.1, feedback="referred")
    state, (shown,) = fold.step(KEY, b"", Asked("r1", 1.0))
    region: Any = shown.region
    assert region.accepted
    after, (said,) = fold.step(KEY, state, Answered("r1", right=True))
    assert (said.kind, after) == (Kind.REFUSED, state)
    assert "say with what chance" in str(said.note)
    _, (said,) = fold.step(KEY, state, Answered("r1", right=True, chance=0.5))
    assert said.kind is Kind.COUNTED


@pytest.mark.parametrize("feedback", ["accepted", "both", "referred"])
def test_only_a_decision_that_may_be_judged_waits(feedback: str) -> None:
    fold = make_fold(GATE, alpha=0.1, feedback=feedback, recall=2)
    gate = keyhole.Gate(alpha=0.1, feedback=feedback, seed=fold.seed_of(KEY))
    state, waits = b"", {"accepted": [1.0], "both": [0.0, 1.0], "referred": [0.0, 1.0]}[feedback]
    for n, score in enumerate((0.0, 1.0)):
        state, (shown,) = fold.step(KEY, state, Asked(f"r{n}", score))
        own: Any = gate.decide(score)
        assert shown.region == own
        assert own.accepted == bool(score)
        found = copy.copy(fold).step(KEY, state, Asked(f"r{n}", score))[1][0]
        assert found.kind is Kind.REPEATED
        assert (found.region == own) == (score in waits)


def test_a_judge_of_a_gate_says_hit_for_right_and_miss_for_wrong() -> None:
    for word, right in ((HIT, True), (MISS, False)):
        fold = make_fold(GATE, alpha=0.1)
        gate: Any = keyhole.Gate(alpha=0.1, seed=fold.seed_of(KEY))
        state, _ = fold.step(KEY, b"", Asked("r", 1.0))
        state, (counted,) = fold.step(KEY, state, Answered("r", judged=word))
        gate.learn(gate.decide(1.0), judged=right)
        assert counted.miss == float(not right)
        assert fold.read(state).tally.misses == gate.progress.tally.misses == float(not right)


@pytest.mark.parametrize("word", [True, False, "hit", keyhole.feedback.Answer(0.0, 0.5)])
def test_a_judge_of_a_gate_who_says_anything_else_is_refused(word: Any) -> None:
    fold = make_fold(GATE, alpha=0.1)
    state, _ = fold.step(KEY, b"", Asked("r", 1.0))
    after, (refused,) = fold.step(KEY, state, Answered("r", judged=word))
    assert (refused.kind, after) == (Kind.REFUSED, state)
    assert "neither keyhole.HIT nor keyhole.MISS; in an event" in str(refused.note)


@pytest.mark.parametrize(
    ("options", "answers"),
    [
        ({"alpha": 0.1}, [{"answer": HIT}, {"answer": MISS}, {"score": 0.3}, {"loss": 0.3}]),
        ({"alpha": 0.1}, [{"label": 1}, {"judged": HIT}, {"judged": MISS, "label": 1}]),
        ({"alpha": [0.05, 0.2]}, [{"answer": MISS}, {"score": 0.3}, {"label": 1}]),
        ({"learner": GATE, "alpha": 0.1}, [{"right": False}, {"judged": HIT}, {"judged": MISS}]),
    ],
)
def test_an_answer_from_another_process_counts_as_one_from_here(options: Any, answers: Any) -> None:
    fold = make_fold(**options)
    asked = Asked("r", 1.0 if "learner" in options else [0.6, 0.4])
    for answer in answers:
        events = [asked, Answered("r", **answer)]
        here = fold.run(KEY, b"", events)
        assert here[1][1].kind is Kind.COUNTED
        assert fold.run(KEY, b"", pickle.loads(pickle.dumps(events))) == here  # noqa: S301


def test_a_rule_of_gates_is_made_by_its_name_or_as_it_is_and_reads_the_best_score() -> None:
    learner = keyhole.Gate(alpha=0.2).learner
    for fold in (make_fold(GATE, alpha=0.2), make_fold(learner)):
        assert fold.decides
        _, (shown,) = fold.step(KEY, b"", Asked("r", {"x": 0.1, "y": 0.9}))
        region: Any = shown.region
        assert region.score == 0.9
    assert not make_fold(alpha=0.2).decides
    assert not make_fold(make_fold("kt", alpha=0.2).setup.learner).decides


# Tables


def test_a_column_of_an_unknown_name_that_is_near_none_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidError, match=f"no column 'colour'; known are {', '.join(NAMES)}"):
        make_fold(alpha=0.1).run_many({}, {"key": [], "id": [], "colour": []})
    with pytest.raises(InvalidError, match="lack the column 'key'"):
        make_fold(alpha=0.1).run_many({}, {"id": []})


def test_a_table_without_times_is_at_nought() -> None:
    fold = make_fold("logit-tracker", alpha=0.1)
    after, _ = fold.run_many({}, {"key": [KEY], "id": ["r"], "output": [SCORES]})
    assert after == {KEY: fold.step(KEY, b"", Asked("r", SCORES, 0))[0]}


def test_rows_of_keys_in_turn_come_back_in_the_order_of_the_table() -> None:
    """Each key is run by itself; what it says of one row stands together, with its labels."""
    fold = make_fold("logit-tracker", alpha=0.1, open_limit=1)
    rows = [("b", "r1"), ("a", "r1"), ("b", "r2"), ("a", "r2"), ("c", "r1"), ("b", "r3")]
    outputs = [
        [0.9, 0.0, 0.8],
        [0.7, 0.6, 0.0],
        [0.0, 0.0, 0.0],
        [0.6, 0.7, 0.8],
        [0.9, 0.0, 0.0],
        SCORES,
    ]
    table = {"key": [key for key, _ in rows], "id": [name for _, name in rows], "output": outputs}
    _, said = fold.run_many({}, table)
    assert said.row.tolist() == [0, 1, 2, 2, 3, 3, 4, 5, 5]
    assert said.id.tolist() == ["r1", "r1", "r2", "r1", "r2", "r1", "r1", "r3", "r2"]
    assert said.kind.tolist() == [
        "shown", "shown", "shown", "expired", "shown", "expired", "shown", "shown", "expired",
    ]  # fmt: skip
    sets = [said.labels[a:b].tolist() for a, b in zip(said.offsets, said.offsets[1:], strict=False)]
    assert sets == [[0, 2], [0, 1], [], [], [2, 1, 0], [], [0], [0], []]
    assert said.number.tolist() == [0, 0, 1, 0, 1, 0, 0, 2, 1]


def test_parts_of_outputs_are_joined_in_the_order_of_their_rows() -> None:
    fold = make_fold("logit-tracker", alpha=0.1)
    parts = []
    for rows in ([3, 0], [2], [], [1, 4]):
        said = [
            fold.step(KEY, b"", Asked(f"r{row}", [0.9, 0.8 if row % 2 else 0.0]))[1][0] for row in rows
        ]
        parts.append(write_columns(rows, said))
    joined = join_columns(parts)
    assert joined.row.tolist() == list(range(5))
    assert joined.id.tolist() == [f"r{row}" for row in range(5)]
    assert joined.offsets.tolist() == [0, 1, 3, 4, 6, 7]
    assert joined.labels.tolist() == [0, 0, 1, 0, 0, 1, 0]
    alone = join_columns(parts[:1])
    assert (alone.row.tolist(), alone.offsets.tolist(), alone.labels.tolist()) == (
        [0, 3],
        [0, 1, 3],
        [0, 0, 1],
    )
    assert join_columns(parts[1:2]).row.tolist() == [2]
    assert len({alone, joined, parts[0]}) == 3  # columns are themselves, whatever they hold
    assert alone != join_columns(parts[:1])


def test_labels_are_whole_numbers_where_all_are_and_else_as_they_are() -> None:
    assert to_labels([3, 1]).dtype == to_labels([]).dtype == np.int64
    for labels in (["a", 1], [True, 2], [(1, 2), (3, 4)]):
        assert (to_labels(labels).dtype, to_labels(labels).tolist()) == (np.dtype(object), labels)


def test_columns_of_arrow_are_read_as_lists() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = {
        "key": pyarrow.array(["a", "b", "a"]),
        "id": pyarrow.array(["r", "r", "r"]),
        "output": pyarrow.array([SCORES, SCORES, None]),
        "label": pyarrow.array([None, None, 1]),
    }
    fold = make_fold("logit-tracker", alpha=0.1)
    after, said = fold.run_many({}, table)
    assert said.kind.tolist() == ["shown", "shown", "counted"]
    assert after["a"] == fold.run("a", b"", [Asked("r", SCORES), Answered("r", label=1)])[0]


def test_a_table_of_numbers_has_a_row_for_each_event_nothing_where_all_is_nan() -> None:
    """Kills: a row that asks with one score missing, taken for none."""
    fold = make_fold("logit-tracker", alpha=0.1)
    output = np.array([[0.9, 0.2], [np.nan, 0.2], [np.nan, np.nan]])
    table = {"key": ["a", "b", "a"], "id": ["r"] * 3, "output": output, "hit": [None, None, True]}
    _, said = fold.run_many({}, table)
    assert said.kind.tolist() == ["shown", "refused", "counted"]
    assert "nan" in said.note[1]
    whole = {**table, "output": np.array([[1, 0], [0, 1], [1, 0]])}
    assert fold.run_many({}, whole)[1].kind.tolist() == ["shown", "shown", "repeated"]


def test_elapsing_comes_before_skipping_and_that_before_asking() -> None:
    fold = make_fold("logit-tracker", alpha=0.1)
    table = {
        "key": ["a"] * 4, "id": ["r", "s", "r", "r"], "output": [SCORES] * 4,
        "skipped": [False, True, True, True], "elapsed": [False, True, False, 0], "label": [0] * 4,
    }  # fmt: skip
    _, said = fold.run_many({}, table)
    assert said.kind.tolist() == ["shown", "skipped", "repeated"]
    assert said.row.tolist() == [0, 2, 3]


def test_intervals_of_a_table_have_their_ends_and_no_labels() -> None:
    fold = make_fold(alpha=0.1, score=keyhole.ScaledResiduals(scale=2.0))
    _, said = fold.run_many({}, {"key": ["a", "b"], "id": ["r", "r"], "output": [1.0, 5.0]})
    for place, middle in enumerate((1.0, 5.0)):
        _, (shown,) = fold.step("x", b"", Asked("r", middle))
        region: Any = shown.region
        assert (said.lower[place], said.upper[place]) == (region.lower, region.upper)
        assert (said.threshold[place], said.size[place]) == (region.threshold, region.size)
    assert said.offsets.tolist() == [0, 0, 0]
    assert np.isnan(said.miss).all()
    assert len(said) == 2


# One key


@pytest.mark.parametrize(("name", "shown"), [("\ud800", "'\\ud800'"), (7, "7"), (None, "None")])
def test_an_event_without_a_usable_id_is_reported_by_what_can_be_sent(name: Any, shown: str) -> None:
    _, (said,) = make_fold(alpha=0.1).step(KEY, b"", Asked(name, SCORES))
    assert (said.kind, said.id) == (Kind.REFUSED, shown)


def test_an_id_that_is_too_long_says_its_bytes() -> None:
    for name, count in (("x" * 65_536, "65,536"), ("\N{EURO SIGN}" * 21_846, "65,538")):
        _, (said,) = make_fold(alpha=0.1).step(KEY, b"", Asked(name, SCORES))
        assert f"{count} bytes; 65,535 is the most" in str(said.note)
    assert said.id == ascii("\N{EURO SIGN}" * 21_846)


def test_a_digest_that_stands_across_two_others_is_not_that_of_a_closed_round() -> None:
    """The digests of the first two have that of the third between them."""
    fold = make_fold(alpha=0.1)
    for first, second, third in (("r10518", "r68882", "r114990"), ("r63840", "r20307", "r33845")):
        joined = b"".join(crc32(name.encode()).to_bytes(4, "little") for name in (first, second))
        assert crc32(third.encode()).to_bytes(4, "little") in joined
        events: list[Event] = [
            Asked(first, SCORES),
            Asked(second, SCORES),
            Skipped(first),
            Skipped(second),
        ]
        state, _ = fold.run(KEY, b"", events)
        kinds = [
            fold.step(KEY, state, Asked(name, SCORES))[1][0].kind for name in (first, second, third)
        ]
        assert kinds == [Kind.REPEATED, Kind.REPEATED, Kind.SHOWN]


@pytest.mark.parametrize("learner", ["kt", "sf-ogd", "ocp-unlock+", "mvp", None])
def test_an_answer_of_a_known_chance_is_heard_as_often_as_by_a_predictor(learner: str | None) -> None:
    """Rules that take no weights hear it a drawn number of times, by the key's seed and the round."""
    more: Any = {"arms": 8} if learner == "ocp-unlock+" else {}
    more |= {"groups": 1} if learner == "mvp" else {}
    fold = make_fold(learner, alpha=0.1, seed=3, feedback="full", **more)
    predictor: Any = keyhole.Predictor(
        learner, alpha=0.1, seed=fold.seed_of(KEY), feedback="full", **more
    )
    state = b""
    for n in range(40):
        shown, chance = predictor.predict(SCORES), (0.3, 0.7, 1.0)[n % 3]
        predictor.learn(shown, label=n % 3, chance=chance)
        events: list[Event] = [Asked(str(n), SCORES)]
        events.append(Answered(str(n), label=n % 3, chance=chance))
        state, said = fold.run(KEY, state, events)
        assert said[0].region == shown
    assert fold.read(state).tally.weight == predictor.progress.tally.weight != 40.0


@pytest.mark.parametrize(
    "answers",
    [
        [{"label": 0}, {"answer": MISS}, {"answer": HIT}, {"score": 0.3}, {"loss": 0.5}],
        [{"label": 2, "chance": 0.25}, {"loss": 0.25, "chance": 0.5}, {"label": 1}],
        [{"answer": MISS, "wrong": 0.2}, {"label": 0, "wrong": 0.1}, {"label": 0}],
        [{"judged": MISS}, {"judged": HIT, "label": 1}, {"judged": HIT, "chance": 0.5}],
    ],
    ids=["plain", "chance", "wrong", "judged"],
)
@pytest.mark.parametrize(
    ("given", "output"),
    [
        ({}, SCORES),
        ({"score": keyhole.Probabilities(at_least=1)}, SCORES),
        ({"score": keyhole.Probabilities(at_most=2, power=0.5)}, SCORES),
        ({"features": 2, "groups": 2}, SCORES),
    ],
    ids=["plain", "floor", "ceiling", "features"],
)
@pytest.mark.parametrize("late", [0, 3])
def test_a_key_learns_of_any_answer_what_a_predictor_does(
    answers: list[dict[str, Any]], given: dict[str, Any], output: Any, late: int
) -> None:
    """Late and in another order too; every third state is read from its bytes, and so is a table."""
    fold = make_fold(alpha=0.2, seed=4, **given)
    predictor: Any = keyhole.Predictor(alpha=0.2, seed=fold.seed_of(KEY), **given)
    state, table_state, waiting = b"", {KEY: b""}, list[tuple[str, Any]]()
    for n in range(20):
        known: Any = {"features": (0.1 * n, None), "groups": (n % 2,)} if "features" in given else {}
        own = predictor.predict(output, **known)
        state, (shown,) = (fold if n % 3 else copy.copy(fold)).step(
            KEY, state, Asked(f"r{n}", output, n, **known)
        )
        row = {"key": KEY, "id": f"r{n}", "at": n, "output": output, **known}
        table_state, _ = fold.run_many(table_state, {name: [cell] for name, cell in row.items()})
        assert shown.region == own
        waiting.append((f"r{n}", own))
        if len(waiting) <= late:
            continue
        name, own = waiting.pop(n % len(waiting))
        answer = dict(answers[n % len(answers)])
        if answer.get("answer") == HIT and not len(own):
            answer["answer"] = MISS
        predictor.learn(own, **answer)
        state, (counted,) = fold.step(KEY, state, Answered(name, at=n, **answer))
        assert (counted.kind, counted.number) == (Kind.COUNTED, own.id)
        row = {"key": KEY, "id": name, "at": n}
        for word, called in (("answer", "hit"), ("judged", "judged")):
            row |= {called: answer.pop(word) == HIT} if word in answer else {}
        row |= answer
        table_state, _ = fold.run_many(table_state, {one: [cell] for one, cell in row.items()})
        assert table_state == {KEY: state}
    ours, its = fold.read(state), predictor.progress
    assert fold.setup.learner.pack(ours.state) == fold.setup.learner.pack(its.state)
    for name in ("predicted", "answered", "misses", "weight", "size", "bias", "checks", "usual"):
        assert getattr(ours.tally, name) == getattr(its.tally, name), name


def test_an_amendment_at_another_time_or_of_another_round_is_another_one() -> None:
    fold, state = make_fold(alpha=0.1, recall=1), b""
    change = Amended("r", was=0.0, miss=1.0, at=1)
    state, _ = fold.step(KEY, state, change)
    kinds = [
        fold.step(KEY, state, one)[1][0].kind
        for one in (change, change._replace(at=2), change._replace(id="s"), change._replace(was=0.5))
    ]
    assert kinds == [Kind.REPEATED, Kind.AMENDED, Kind.AMENDED, Kind.AMENDED]
    _, (again,) = fold.step(KEY, state, change)
    assert (again.id, again.note) == ("r", "this amendment was made already")
    assert fold.read(state).tally.misses == 1.0


def test_a_fold_caches_256_states_of_at_most_4096_bytes() -> None:
    """Kills: a process that keeps every key it has ever seen."""
    fold = make_fold("logit-tracker", alpha=0.1)
    for n in range(300):
        fold.step(f"k{n}", b"", Elapsed(n))
    assert len(fold._cache) == 256
    empty, _ = fold.step("a", b"", Asked("", [0.5]))
    for size, is_cached in ((4096, True), (4097, False)):
        state, _ = fold.step("a", b"", Asked("x" * (size - len(empty)), [0.5]))
        assert (len(state), state in fold._cache) == (size, is_cached)


def test_a_state_is_read_however_its_bytes_come() -> None:
    fold = make_fold(alpha=0.1)
    state, _ = fold.step(KEY, b"", Asked("r", SCORES))
    expected = fold.step(KEY, state, Answered("r", label=1))
    kept: Any = bytearray(state)
    assert fold.step(KEY, kept, Answered("r", label=1)) == expected


def test_a_state_that_contradicts_itself_is_refused_with_its_key() -> None:
    """Its rounds are there, but the output of the first is no whole number of scores."""
    fold = make_fold("logit-tracker", alpha=0.1)
    state, _ = fold.step(KEY, b"", Asked("r", SCORES))
    begin = len(state) - 24 - 1 - 50
    head = list(struct.unpack_from("<IHIqQQdd", state, begin))
    head[2] = 23
    spoilt = state[:begin] + struct.pack("<IHIqQQdd", *head) + state[begin + 50 :]
    with pytest.raises(SnapshotError, match="restore"):
        copy.copy(fold).step(KEY, spoilt, Answered("r", label=0))
    short = struct.pack("<IHIqQQdd", 49, *head[1:])
    with pytest.raises(SnapshotError, match="an open round has 49 bytes"):
        copy.copy(fold).step(KEY, state[:begin] + short + state[begin + 50 :], Elapsed(0))


@pytest.mark.parametrize(("name", "number"), [("kt", 182), ("aci", 157), ("mvp", 45), ("sf-ogd", 254)])
def test_a_rule_has_the_last_byte_of_the_digest_of_its_name(name: str, number: int) -> None:
    given: Any = {"groups": 1} if name == "mvp" else {}
    state, _ = make_fold(name, alpha=0.1, feedback="full", **given).step(KEY, b"", Elapsed(0))
    assert state[3] == number == crc32(name.encode()) % 256


def test_rounds_of_one_key_are_told_apart_by_their_whole_id() -> None:
    """Kills: an id found at the beginning of another, in its scores, or as long as another."""
    fold = make_fold(alpha=0.1, lifetime=10)
    names = ["ab", "a", "abc", "b", "ba"]
    state, shown = fold.run(KEY, b"", [Asked(name, SCORES, n) for n, name in enumerate(names)])
    for n, name in enumerate(names):
        _, (found,) = copy.copy(fold).step(KEY, state, Asked(name, SCORES, 5))
        assert (found.number, found.region) == (n, shown[n].region)
    for name in ("aa", "c", "abcd", ""):
        _, (found,) = copy.copy(fold).step(KEY, state, Answered(name, label=0, at=5))
        assert found.kind is Kind.REFUSED
    after, _ = copy.copy(fold).step(KEY, state, Skipped("abc", 5))
    assert fold.next_due(after) == 10
    after, _ = copy.copy(fold).step(KEY, after, Skipped("ab", 5))
    assert fold.next_due(after) == 11
    assert len(states.unpack(after, fold.setup.learner).waiting) == 3


def test_what_remembers_numbers_and_has_labels_of_its_own_is_open_beside_others() -> None:
    fold = make_fold("ocp-unlock+", alpha=0.1, arms=8, feedback="full", lifetime=9)
    outputs: list[Any] = [{"x": 0.7, "y": 0.3}, [0.5, 0.5], {1: 0.6, (2, "z"): 0.4}, [0.2] * 80]
    events = [Asked(f"r{n}", output, n) for n, output in enumerate(outputs)]
    state, shown = fold.run(KEY, b"", events)
    for event, was in zip(events, shown, strict=True):
        _, (again,) = copy.copy(fold).step(KEY, state, event)
        assert (again.kind, again.region) == (Kind.REPEATED, was.region)
    for n, label in enumerate(("y", 1, (2, "z"), 79)):
        _, (counted,) = copy.copy(fold).step(KEY, state, Answered(f"r{n}", label=label))
        region: Any = shown[n].region
        assert counted.miss == float(label not in region)
    _, said = copy.copy(fold).step(KEY, state, Elapsed(10))
    assert [one.id for one in said] == ["r0", "r1"]

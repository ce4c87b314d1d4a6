"""Many keys at once, by the loop over all of them: whatever comes, it is what each by itself does.

The loop is played interpreted, so that every line of it runs; each table is held against ``Fold.step``,
event by event, from the bytes that the event before left (which ``test_fold.py`` holds against a
predictor with a clock).
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole.keyed import (
    Answered,
    Asked,
    Elapsed,
    Event,
    Fold,
    OutputColumns,
    Skipped,
    make_fold,
    many,
)
from keyhole.keyed import state as states
from keyhole.keyed.columns import EventColumns
from tests.test_keyed_columns import read_back, run_each

TEXT = ["ant", "bee", "cat"]
NAN = math.nan
Found = list[tuple[str, Event]]


@pytest.fixture(autouse=True)
def by_the_loop() -> Iterator[None]:
    """Play all that the loop can play by it, interpreted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "WORTH", 0)
        patch.setattr(many, "can_compile", lambda: True)
        patch.setattr(many, "compile_for", lambda function, *_: function)
        patch.setattr(many, "_COMPILED", {})
        yield


def find_played(fold: Fold, states: dict[str, bytes], columns: dict[str, Any]) -> str:
    """Return the keys that the loop played, in one word."""
    after, _ = many.play_many(fold, states, EventColumns(columns))
    return "".join(sorted(after))


def write(found: Found) -> dict[str, Any]:
    """Return events as columns of lists, None where a row has nothing."""
    rows: list[dict[str, Any]] = []
    for key, event in found:
        row: dict[str, Any] = {"key": key, "id": getattr(event, "id", ""), "at": event.at}
        if isinstance(event, Asked):
            row["output"] = event.output
        elif isinstance(event, Answered):
            told = {"label": event.label, "score": event.score, "loss": event.loss}
            row |= {name: one for name, one in told.items() if one is not None and _is_told(one)}
            row |= {} if event.answer is None else {"hit": event.answer == keyhole.HIT}
            row |= {"chance": event.chance} if event.chance != 1.0 else {}
        else:
            row["skipped" if isinstance(event, Skipped) else "elapsed"] = True
        rows.append(row)
    names = {name for row in rows for name in row}
    return {name: [row.get(name) for row in rows] for name in sorted(names)}


def _is_told(value: Any) -> bool:
    return value is not Answered("").label


def compare(fold: Fold, before: dict[str, bytes], found: Found, columns: Any = None) -> OutputColumns:
    """Run the table and each event by itself; return the outputs, which must be the same."""
    expected, said = run_each(fold, before, found)
    after, outputs = fold.run_many(before, write(found) if columns is None else columns)
    assert read_back(outputs) == said
    assert after == expected
    before |= after
    return outputs


def make_folds() -> dict[str, Fold]:
    teacher: Any = keyhole.Predictor(alpha=0.2)
    teacher.calibrate([[0.6, 0.3, 0.1]] * 60, [0, 0, 1, 0, 2, 0] * 10)
    text = keyhole.Probabilities(labels=TEXT)
    return {
        "short lives": make_fold(alpha=0.2, lifetime=6, open_limit=2, seed=5),
        "for ever, nothing remembered": make_fold(alpha=0.3, open_limit=4, recall=0),
        "text, one remembered": make_fold(alpha=0.1, score=text, recall=1, lifetime=9),
        "a start": make_fold(alpha=0.2, start=teacher.progress, recall=5, lifetime=20, open_limit=3),
    }


FOLDS = make_folds()
folds = pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS.keys())
# Scores that meet a threshold of 1/2, empty sets, and sums of just 0.9, 1.01 and beside them.
OUTPUTS = [
    [0.5, 0.25, 0.25], [0.5, 0.5, 0.0], [0.1, 0.1, 0.1], [1.0, 0.0, 0.0], [0.2, 0.2, 0.5],
    [0.45, 0.45, 0.0], [0.51, 0.5, 0.0], [0.5, 0.52, 0.0], [0.44, 0.45, 0.0], [1.0, 1.0, 1.0],
    [0.0, 0.0, 0.0], [0.25, 0.25, 0.5], [0.7, 0.2, 0.1], [0.3, 0.3, 0.3], [0.05, 0.05, 0.9],
]  # fmt: skip


def draw(rng: np.random.Generator, fold: Fold, time: int, *, keys: str = "abcd") -> tuple[str, Event]:
    """Return an event of a few keys and ids, whose times and scores often meet a limit."""
    key, name, what = keys[rng.integers(len(keys))], f"r{rng.integers(9)}", rng.random()
    labels: Any = getattr(fold.setup.score, "labels", None) or [0, 1, 2]
    at = time - int(rng.choice([0, 0, 0, 1, 6, 9]))
    if what < 0.45:
        known = OUTPUTS[rng.integers(len(OUTPUTS))]
        output = known if rng.random() < 0.7 else rng.dirichlet(np.ones(3)).tolist()
        return key, Asked(name, output, at)
    if what < 0.75:
        return key, Answered(name, label=labels[rng.integers(3)], at=at)
    if what < 0.83:
        return key, Answered(name, keyhole.MISS, at=at)
    if what < 0.86:
        return key, Answered(name, keyhole.HIT, at=at)
    if what < 0.92:
        return key, Answered(name, score=float(rng.choice([0.0, 0.25, 0.5, 1.0])), at=at)
    return (key, Skipped(name, at)) if what < 0.97 else (key, Elapsed(at))


@folds
@pytest.mark.parametrize("seed", range(3))
def test_odd_tables_one_after_the_other_come_to_what_each_event_by_itself_does(
    fold: Fold, seed: int
) -> None:
    rng, time, before, kinds = np.random.default_rng(seed), 0, dict[str, bytes](), set()
    for rows in (1, 2, 60, 120, 90):
        found: Found = []
        for _ in range(rows):
            time += int(rng.integers(0, 2))
            found.append(draw(rng, fold, time))
        kinds |= set(compare(fold, before, found).kind)
    assert {"shown", "counted", "skipped", "expired", "refused"} <= kinds


@pytest.mark.parametrize("seed", range(4))
def test_a_key_that_answers_long_listens_to_the_model_for_twenty_answers(seed: int) -> None:
    """Prompt answers and late ones; both lanes hear the model's word as long."""
    fold, rng = make_fold(alpha=0.1, seed=seed), np.random.default_rng(seed)
    before: dict[str, bytes] = {}
    found: Found = []
    for n in range(60):
        output = OUTPUTS[rng.integers(len(OUTPUTS))]
        found.append(("a", Asked(f"r{n}", output, n)))
        late = int(rng.integers(0, 3)) if n > 3 and seed else 0
        if len(output) > 1:
            found.append(("a", Answered(f"r{n - late}", label=int(rng.integers(3)), at=n)))
    assert find_played(fold, {}, write(found)) == "a"
    compare(fold, before, found)
    assert fold.read(before["a"]).state.rounds[0] > 20


@pytest.mark.parametrize("predicted", [998, 999, 1000])
def test_the_model_is_heard_in_a_thousand_rounds_at_most(predicted: int) -> None:
    fold = make_fold(alpha=0.1)
    state = stand(fold, expired=predicted)
    before = {"a": state}
    found: Found = [("a", Asked("x", [0.6, 0.3, 0.1])), ("a", Asked("y", [0.6, 0.3, 0.1]))]
    assert find_played(fold, before, write(found)) == "a"
    compare(fold, before, found)
    heard = float(fold.read(before["a"]).state.word[0])
    assert heard == pytest.approx(min(2, 1000 - predicted))


def stand(fold: Fold, *, clock: int = 0, closed: bytes = b"", wide: int = 0, **tally: Any) -> bytes:
    """Return the state of a key that has counted so much."""
    here = states.KeyState(fold.start_progress(), clock, closed)
    for name, value in tally.items():
        setattr(here.progress.tally, name, value)
    here.progress.tally.weight = tally.get("weight", float(here.progress.tally.answered))
    here.progress.state.rounds[0] = wide or here.progress.tally.answered
    return states.pack(here, fold.setup.learner)


PLAYED = [
    {"answered": 2**16 - 2},
    {"answered": 2**16 - 1},
    {"answered": 2**16},
    {"answered": 40, "expired": 3},
    {"answered": 2**16 - 4, "expired": 2},
    {"answered": 2**16 - 5, "expired": 2},
    {"answered": 5, "misses": 2.0, "size": 11.0},
    {"answered": 5, "misses": 0.5},
    {"answered": 5, "misses": -1.0},
    {"answered": 5, "misses": 1.0, "size": 4.5},
    {"answered": 5, "size": 2.0**16 - 2},
    {"answered": 5, "size": -3.0},
    {"answered": 5, "size": 2.0**16 - 1},
    {"answered": 5, "size": 2.0**16},
    {"answered": 5, "misses": 2.0**16 - 1},
    {"answered": 5, "misses": 2.0**16},
    {"answered": 5, "unreachable": 3},
    {"answered": 5, "unreachable": 1},
    {"answered": 5, "expired": 1},
    {"answered": 5, "unreachable": 3, "expired": 2},
    {"answered": 2**17, "size": 2.0**32 - 1, "misses": 2.0**32 - 2},
    {"answered": 2**17, "size": 2.0**32},
    {"answered": 5, "closed": bytes(range(8))},
    {"answered": 5, "closed": b"\xff" * 4},
    {"answered": 5, "clock": -1},
    {"answered": 5, "clock": -(2**47 - 1)},
    {"answered": 5, "clock": 2**33 + 7},
    {"answered": 5, "clock": 127 << 40},
    {"answered": 2**32 - 3, "wide": 9},
    {"answered": 2**32 - 2, "wide": 9},
    {"answered": 2**32, "wide": 9},
    {"answered": 2**32 + 7, "misses": 2.0**40, "size": 2.0**52, "expired": 3, "wide": 9},
]


@pytest.mark.parametrize("counts", PLAYED, ids=str)
def test_a_key_goes_on_from_any_counts_as_it_does_alone(counts: dict[str, Any]) -> None:
    """Kills: a width, a sum, a sign, a time or a remembered round that a table has otherwise."""
    fold = make_fold(alpha=0.1, lifetime=10)
    clock = counts.get("clock", 0)
    before = {"b": stand(fold, **counts), "a": stand(fold, answered=3, misses=1.0, size=4.0)}
    events: list[Event] = [
        Asked("r1", [0.6, 0.3, 0.1], clock), Asked("r2", [0.5, 0.4, 0.3], clock), Skipped("r1", clock),
        Asked("r4", [0.2, 0.7, 0.1], clock + 1), Answered("r2", label=2, at=clock + 2),
        Asked("r3", [0.2, 0.7, 0.1], clock + 3), Answered("r4", label=0, at=clock + 3),
    ]  # fmt: skip
    found: Found = [(key, event) for event in events for key in "bac"]
    kept = dict(before)
    assert find_played(fold, kept, write(found)) == "abc"
    compare(fold, before, found)
    compare(fold, before, [("b", Answered("r3", label=1, at=clock + 13)), ("a", Elapsed(99))])
    compare(fold, kept, found[:3])


@pytest.mark.parametrize(
    "counts",
    [
        {"answered": 5, "weight": 4.5},
        {"answered": 5, "checks": 1},
        {"answered": 5, "wide": 2**32},
    ],
    ids=str,
)
def test_a_key_with_what_is_rare_is_left_and_the_others_are_played(counts: dict[str, Any]) -> None:
    fold = make_fold(alpha=0.1, lifetime=10)
    before = {"b": stand(fold, **counts), "a": stand(fold, answered=3, misses=1.0, size=4.0)}
    events: list[Event] = [Asked("r1", [0.6, 0.3, 0.1]), Answered("r1", label=2)]
    found: Found = [(key, event) for event in events for key in "bac"]
    assert find_played(fold, before, write(found)) == "ac"
    compare(fold, before, found)


def test_a_key_whose_count_becomes_wide_on_the_way_is_left() -> None:
    """Kills: what is said of it twice, once by the loop and once by the fold."""
    fold = make_fold(alpha=0.1)
    before = {key: stand(fold, answered=5, wide=2**32 - 1 - n) for n, key in enumerate("ab")}
    before = {key: fold.step(key, state, Asked("r", [0.7, 0.3]))[0] for key, state in before.items()}
    found: Found = [(key, Answered("r", label=0)) for key in "ab"]
    found.append(("c", Asked("r", [0.7, 0.3])))
    assert find_played(fold, before, write(found)) == "bc"
    assert find_played(fold, before, write([("a", Asked("s", [0.7, 0.3]))])) == "a"
    compare(fold, before, found)


@pytest.mark.parametrize("recall", [0, 1, 2, 31])
def test_as_many_closed_rounds_are_remembered_as_are_to_be(recall: int) -> None:
    fold, before = make_fold(alpha=0.1, recall=recall), dict[str, bytes]()
    found: Found = [("a", Asked(f"r{n}", [0.7, 0.3])) for n in range(40)]
    found += [("a", Skipped(f"r{n}")) for n in range(40)]
    found += [("a", Asked(f"r{n}", [0.7, 0.3])) for n in range(39, 0, -1)]
    outputs = compare(fold, before, found)
    assert (outputs.kind == "repeated").sum() == recall
    assert find_played(fold, before, write(found[:1])) == "a"
    compare(fold, before, [("a", Answered(f"r{n}", label=0)) for n in range(40)])


def test_only_the_key_of_a_fault_is_left() -> None:
    """Each of these events is one that the fold has to speak about, or that is not as common."""
    fold = make_fold(alpha=0.1, lifetime=50)
    odd: list[Event] = [
        Answered("r", label=3),
        Answered("r", label=-1),
        Answered("r", score=1.5),
        Answered("r", score=-0.1),
        Answered("r", label=0, score=0.5),
        Answered("r", keyhole.HIT, label=0),
        Answered("r"),
        Asked("s", [1.1, 0.2]),
        Asked("s", [-0.1, 0.2]),
        Asked("s", [NAN, 0.2]),
        Answered("r", label="ant"),
        Answered("r", keyhole.HIT, label=7),
        Answered("r", keyhole.MISS, score=0.5),
        Answered("r", score=0.5, label=7),
        Answered("r", keyhole.MISS, score=7.0),
        Answered("r", keyhole.MISS, label=0, score=0.5),
    ]
    for one in odd:
        found: Found = [(key, Asked("r", [0.6, 0.4])) for key in "abc"]
        found += [("b", one), ("a", Answered("r", label=1)), ("c", Answered("r", score=1.0))]
        found += [("a", Asked("t", [0.0, 1.0])), ("a", Answered("t", score=0.0))]
        columns = write(found)
        assert find_played(fold, {}, columns) == "ac", one
        if not (isinstance(one, Asked) and math.isnan(one.output[0])):
            outputs = compare(fold, {}, found, columns)
            assert outputs.kind.tolist()[3] == "refused"


def test_a_hit_of_an_empty_set_is_refused_and_one_of_a_set_counts() -> None:
    """The loop leaves the key as it was before its first event."""
    fold = make_fold(alpha=0.1)
    found: Found = [(key, Asked("r", [0.1, 0.1] if key == "b" else [0.5, 0.2])) for key in "abc"]
    found += [(key, Answered("r", keyhole.HIT)) for key in "abc"]
    assert find_played(fold, {}, write(found)) == "ac"
    outputs = compare(fold, {}, found)
    assert outputs.size.tolist()[:3] == [1.0, 0.0, 1.0]
    assert outputs.kind.tolist()[3:] == ["counted", "refused", "counted"]


def test_a_score_that_meets_the_threshold_is_in_the_set_and_is_no_miss() -> None:
    fold = make_fold(alpha=0.1)
    found: Found = [("a", Asked("r", [0.5, 0.2])), ("a", Answered("r", score=0.5))]
    found += [("b", Asked("r", [0.5, 0.2])), ("b", Answered("r", label=0))]
    found += [("c", Asked("r", [0.5, 0.2])), ("c", Answered("r", label=1))]
    outputs = compare(fold, {}, found)
    assert outputs.threshold.tolist()[0] == 0.5
    assert outputs.miss.tolist()[1::2] == [0.0, 0.0, 1.0]
    assert outputs.labels.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("output", "heard"),
    [
        ([0.45, 0.45], True), ([0.45, 0.44], False), ([0.51, 0.5], True), ([0.51, 0.51], False),
        ([0.95], False), ([0.95, 0.0], True),
    ],
)  # fmt: skip
def test_the_model_is_heard_where_its_scores_are_a_distribution(
    output: list[float],
    heard: bool,  # noqa: FBT001
) -> None:
    fold, before = make_fold(alpha=0.1), dict[str, bytes]()
    assert find_played(fold, {}, write([("a", Asked("r", output))])) == "a"
    compare(fold, before, [("a", Asked("r", output))])
    assert (fold.read(before["a"]).state.word[0] > 0) == heard
    predictor: Any = keyhole.Predictor(alpha=0.1)
    predictor.predict(output)
    assert fold.read(before["a"]).state == predictor.progress.state


def test_rounds_end_in_the_very_time_that_they_are_due() -> None:
    """The earliest is not always the oldest; an ask is too late in the very time that it would end."""
    fold, before = make_fold(alpha=0.1, lifetime=10), dict[str, bytes]()
    asks: Found = [
        ("a", Asked(name, [0.6, 0.4], at)) for name, at in zip("pqrs", (5, 3, 4, 9), strict=True)
    ]
    outputs = compare(fold, before, [*asks, ("a", Elapsed(12)), ("a", Elapsed(13))])
    assert outputs.kind.tolist()[4:] == ["expired"]
    assert outputs.row.tolist()[4:] == [5]
    outputs = compare(fold, before, [("a", Elapsed(14)), ("a", Answered("p", label=0, at=14))])
    assert (outputs.id.tolist(), outputs.kind.tolist()) == (["r", "p"], ["expired", "counted"])
    outputs = compare(
        fold, before, [("a", Asked("t", [0.6, 0.4], 4)), ("a", Asked("u", [0.6, 0.4], 5))]
    )
    assert outputs.kind.tolist() == ["refused", "shown"]
    outputs = compare(fold, before, [("a", Skipped("s", 18)), ("a", Elapsed(19))])
    assert (outputs.id.tolist(), outputs.kind.tolist()) == (["u", "s"], ["expired", "skipped"])
    assert fold.next_due(before["a"]) is None


def test_the_oldest_of_too_many_is_pushed_out() -> None:
    fold, before = make_fold(alpha=0.1, open_limit=2), dict[str, bytes]()
    outputs = compare(fold, before, [("a", Asked(f"r{n}", [0.6, 0.4])) for n in range(4)])
    assert outputs.kind.tolist() == ["shown", "shown", "shown", "expired", "shown", "expired"]
    assert outputs.id.tolist()[3::2] == ["r0", "r1"]
    outputs = compare(fold, before, [("a", Asked("r9", [0.6, 0.4])), ("a", Answered("r3", label=1))])
    assert outputs.id.tolist() == ["r9", "r2", "r3"]


def test_labels_of_one_set_come_with_the_highest_scores_first_and_ties_in_their_order() -> None:
    fold = make_fold(alpha=0.1, score=keyhole.Probabilities(labels=["x", "y", "z", ("t", 1)]))
    output = [0.5, 0.9, 0.5, 0.9]
    for key in ("abc", "b"):
        found: Found = [(one, Asked("r", output)) for one in key]
        assert find_played(fold, {}, write(found)) == key
        outputs = compare(fold, {}, found)
        assert outputs.labels.tolist() == ["y", ("t", 1), "x", "z"] * len(key)
        assert outputs.offsets.tolist() == [4 * n for n in range(len(key) + 1)]


def make_table(rng: np.random.Generator, rows: int = 40) -> tuple[Found, dict[str, Any]]:
    fold, time, found = FOLDS["short lives"], 0, []
    for _ in range(rows):
        time += int(rng.integers(0, 2))
        found.append(draw(rng, fold, time, keys="ab"))
    return found, write(found)


def to_rows(cells: list[Any]) -> Any:
    return np.array([[NAN] * 3 if cell is None else cell for cell in cells])


FORMS: dict[str, Any] = {
    "outputs as a table of numbers": {"output": to_rows},
    "outputs of NumPy": {
        "output": lambda cells: [one if one is None else np.array(one) for one in cells]
    },
    "times of NumPy": {"at": np.array},
    "short times": {"at": lambda cells: np.array(cells, np.int16)},
    "hits as numbers": {"hit": lambda cells: [NAN if one is None else float(one) for one in cells]},
    "flags of NumPy": {"skipped": lambda cells: np.array([bool(one) for one in cells])},
    "elapsed or not": {"elapsed": lambda cells: [bool(one) for one in cells]},
    "scores with NaN": {"score": lambda cells: [NAN if one is None else one for one in cells]},
    "scores of NumPy": {
        "score": lambda cells: np.array([NAN if one is None else one for one in cells])
    },
    "labels with NaN": {"label": lambda cells: [NAN if one is None else float(one) for one in cells]},
}


@pytest.mark.parametrize("forms", FORMS.values(), ids=FORMS.keys())
def test_the_form_of_a_column_does_not_matter(forms: dict[str, Any]) -> None:
    fold = FOLDS["short lives"]
    found, columns = make_table(np.random.default_rng(7))
    columns |= {name: form(columns[name]) for name, form in forms.items()}
    assert find_played(fold, {}, columns) == "ab"
    compare(fold, {}, found, columns)


def test_rows_of_whole_numbers_that_are_all_outputs_are_played() -> None:
    fold = make_fold(alpha=0.1)
    found: Found = [("a", Asked("r", [1, 0])), ("b", Asked("r", [0, 0]))]
    for output in ([[1, 0], [0, 0]], np.array([[1, 0], [0, 0]]), np.array([[1, 0], [0, 0]], np.uint8)):
        columns = {**write(found), "output": output}
        assert find_played(fold, {}, columns) == "ab"
        compare(fold, {}, found, columns)


def test_labels_as_whole_numbers_of_numpy_are_places_and_others_are_unknown() -> None:
    """Where a row asks its label is not read."""
    fold = make_fold(alpha=0.1)
    labels = [(key, label) for key, label in zip("abcde", (0, 2, 3, -1, 1), strict=True)]
    found: Found = [(key, Asked("r", [0.5, 0.3, 0.2])) for key, _ in labels]
    found += [(key, Answered("r", label=label)) for key, label in labels]
    columns = write(found) | {"label": np.array([-7, 0, 1, 2, 3, 0, 2, 3, -1, 1])}
    assert find_played(fold, {}, columns) == "abe"
    outputs = compare(fold, {}, found, columns)
    assert outputs.kind.tolist()[5:] == ["counted", "counted", "refused", "refused", "counted"]


def test_a_label_that_cannot_be_one_is_refused_and_its_table_is_left() -> None:
    fold = make_fold(alpha=0.1)
    found: Found = [("a", Asked("r", [0.5, 0.3])), ("a", Answered("r", label=[1]))]
    assert find_played(fold, {}, write(found)) == ""
    assert compare(fold, {}, found).kind.tolist() == ["shown", "refused"]


@pytest.mark.parametrize(
    "output",
    [
        [[0.5, 0.3], [0.5, 0.3, 0.2]],
        [["0.5", "0.3"], ["0.5", "0.3"]],
        [{"x": 0.5}, {"y": 0.5}],
        [[True, False], [True, True]],
        np.array([["a", "b"], ["c", "d"]]),
        np.array([0.5, 0.3]),
        [0.5, 0.3],
    ],
    ids=str,
)
def test_outputs_that_are_no_table_of_numbers_are_left_to_each_key(output: Any) -> None:
    fold = make_fold(alpha=0.1)
    found: Found = [
        (key, Asked("r", one.tolist() if isinstance(one, np.ndarray) else one))
        for key, one in zip("ab", output, strict=True)
    ]
    columns = {**write(found), "output": output}
    assert find_played(fold, {}, columns) == ""
    compare(fold, {}, found, columns)


def test_outputs_of_no_labels_answer_nothing() -> None:
    fold = make_fold(alpha=0.1)
    found: Found = [("a", Answered("r")), ("b", Elapsed(0))]
    columns = {**write(found), "output": np.zeros((2, 0))}
    assert find_played(fold, {}, columns) == ""
    compare(fold, {}, found, columns)


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("score", [None, keyhole.Probabilities(labels=[0, 1])], ids=["places", "known"])
def test_a_table_of_answers_alone_is_played(score: Any, *, empty: bool) -> None:
    """A label that a round did not score is for the fold to refuse, and rounds differ in how many."""
    fold, before = make_fold(alpha=0.1, score=score), dict[str, bytes]()
    compare(fold, before, [(key, Asked("r", [0.5, 0.3])) for key in "abc"])
    if score is None:
        compare(fold, before, [(key, Asked("s", [0.5, 0.3, 0.2])) for key in "ac"])
    found: Found = [("a", Answered("r", label=0)), ("b", Skipped("r")), ("c", Answered("r", label=2))]
    found += [("d", Answered("r", label=1)), ("a", Answered("s", label=2 if score is None else 0))]
    found += [("e", Answered("r", label=-1)), ("f", Answered("r", label=2**16))]
    columns = write(found) | ({"output": [None] * len(found)} if empty else {})
    assert find_played(fold, before, columns) == "abd"
    outputs = compare(fold, before, found, columns)
    third, fifth = ("refused", "counted") if score is None else ("counted", "refused")
    assert outputs.kind.tolist()[:5] == ["counted", "skipped", third, "refused", fifth]


def test_a_table_of_other_labels_than_the_score_has_is_left() -> None:
    fold = FOLDS["text, one remembered"]
    found: Found = [("a", Asked("r", [0.5, 0.3]))]
    assert find_played(fold, {}, write(found)) == ""
    assert compare(fold, {}, found).kind.tolist() == ["refused"]


@pytest.mark.parametrize(
    ("options", "played"),
    [
        ({}, "a"),
        ({"learner": "logit-tracker"}, ""),
        ({"score": keyhole.Probabilities(power=0.5)}, ""),
        ({"score": keyhole.Probabilities(at_least=1)}, ""),
        ({"score": keyhole.Probabilities(at_most=1)}, ""),
        ({"groups": ["new"]}, ""),
    ],
    ids=str,
)
def test_the_loop_plays_the_default_with_sets_of_probabilities_alone(
    options: dict[str, Any], played: str
) -> None:
    fold = make_fold(alpha=0.1, **options)
    found: Found = [("a", Asked(f"r{n}", output)) for n, output in enumerate(OUTPUTS)]
    found += [("a", Answered(f"r{n}", label=n % 3)) for n in range(len(OUTPUTS))]
    assert find_played(fold, {}, write(found)) == played
    compare(fold, {}, found)
    with_chance = [*found, ("a", Answered("r9", label=0, chance=0.5))]
    assert find_played(fold, {}, write(with_chance)) == ""


def test_where_there_is_no_compiler_or_few_events_each_key_plays_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fold, columns = make_fold(alpha=0.1), write([("a", Asked("r", [0.5, 0.3]))] * 3)
    monkeypatch.setattr(many, "can_compile", lambda: False)
    assert find_played(fold, {}, columns) == ""
    monkeypatch.setattr(many, "can_compile", lambda: True)
    monkeypatch.setattr(many, "WORTH", 7)
    monkeypatch.setattr(many, "_met", 0)
    assert [find_played(fold, {}, columns) for _ in range(4)] == ["", "", "a", "a"]


@pytest.mark.parametrize(
    ("at", "played"),
    [
        ([0, 2**47 - 1], "ab"),
        ([0, -(2**47) + 1], "ab"),
        ([0, 2**47], ""),
        ([0, -(2**47)], ""),
        ([0, 2**70], ""),
        ([0, True], ""),
        ([0, None], ""),
        ([0, 1.0], ""),
        (np.array([0, 2**47 - 1]), "ab"),
        (np.array([0, 2**47]), "a"),
        (np.array([0, -(2**47)]), "a"),
        (np.array([0, -(2**47) + 1]), "ab"),
        (np.array([0.0, 1.0]), ""),
        (np.array([0, 1], np.uint8), ""),
    ],
    ids=str,
)
def test_times_that_are_none_are_refused_and_the_last_that_is_one_is_played(
    at: Any, played: str
) -> None:
    fold, times = make_fold(alpha=0.1), at.tolist() if isinstance(at, np.ndarray) else at
    found: Found = [(key, Asked("r", [0.5, 0.3], time)) for key, time in zip("ab", times, strict=True)]
    columns = write(found) | {"at": at}
    assert find_played(fold, {}, columns) == played
    if times[1] != 1.0 or isinstance(times[1], bool):
        compare(fold, {}, found, columns)


@pytest.mark.parametrize(
    ("name", "played"),
    [("x" * 65_535, "ab"), ("x" * 65_536, ""), ("\N{EURO SIGN}", ""), (7, ""), (None, "")],
)
def test_ids_that_are_long_or_no_text_are_left_to_each_key(name: Any, played: str) -> None:
    fold = make_fold(alpha=0.1)
    found: Found = [("a", Asked("r", [0.5, 0.3])), ("b", Asked(name, [0.5, 0.3]))]
    assert find_played(fold, {}, write(found)) == played
    compare(fold, {}, found)


def test_scores_that_are_whole_numbers_are_left_to_each_key() -> None:
    fold = make_fold(alpha=0.1)
    found: Found = [("a", Asked("r", [0.5, 0.3])), ("a", Answered("r", score=1))]
    assert find_played(fold, {}, write(found)) == ""
    compare(fold, {}, found)


def test_a_row_that_elapses_or_skips_does_no_more() -> None:
    """Elapsing comes before skipping, and that before asking and answering."""
    fold = make_fold(alpha=0.1)
    found: Found = [("a", Asked("r", [0.5, 0.3])), ("a", Asked("s", [0.5, 0.3]))]
    found += [("a", Skipped("r")), ("a", Elapsed(0)), ("a", Answered("s", label=0))]
    columns: dict[str, Any] = write(found)
    columns["output"] = [[0.5, 0.3]] * 4 + [None]
    columns["skipped"] = [False, None, 1, True, NAN]
    columns["elapsed"] = [0, None, False, True, NAN]
    columns["label"] = [1, 5, 0, 0, 0]
    assert find_played(fold, {}, columns) == "a"
    outputs = compare(fold, {}, found, columns)
    assert outputs.kind.tolist() == ["shown", "shown", "skipped", "counted"]


def test_many_keys_come_to_the_same_as_each_alone() -> None:
    rng, fold, before = np.random.default_rng(3), FOLDS["short lives"], dict[str, bytes]()
    for _ in range(2):
        found = [draw(rng, fold, n, keys="abcde") for n in range(50)]
        found += [("c", Answered("r1", label=9, at=50))]
        compare(fold, before, found)


@pytest.mark.parametrize("output", [[0.5, 0.3], {"x": 0.5, "y": 0.3, "z": 0.2}])
def test_a_key_whose_open_round_has_named_labels_is_left_and_one_with_fewer_is_played(
    output: Any,
) -> None:
    fold, before = make_fold(alpha=0.1), dict[str, bytes]()
    compare(fold, before, [("a", Asked("r", output)), ("b", Asked("r", [0.5, 0.3, 0.2]))])
    label = "y" if isinstance(output, dict) else 1
    found: Found = [(key, Asked("s", [0.5, 0.3, 0.2])) for key in "ab"]
    found += [
        ("b", Answered("r", label=1)),
        ("b", Answered("s", label=2)),
        ("a", Answered("s", label=0)),
    ]
    assert find_played(fold, before, write(found)) == ("b" if isinstance(output, dict) else "ab")
    compare(fold, before, [*found, ("a", Answered("r", label=label))])


def test_open_rounds_of_several_keys_stay_with_their_keys() -> None:
    """Their scores, ids, times and thresholds come back in the next table, and in a third."""
    fold, before = make_fold(alpha=0.2, lifetime=30, open_limit=9), dict[str, bytes]()
    rng = np.random.default_rng(2)
    asks: Found = [
        (key, Asked(f"{key}{n}", rng.dirichlet(np.ones(4)).tolist(), n + ord(key) % 3))
        for n in range(4) for key in "abc"
    ]  # fmt: skip
    compare(fold, before, asks)
    later: Found = [(key, Asked(f"{key}{n}", [0.1] * 4, 6)) for n in range(3, -1, -1) for key in "cba"]
    assert find_played(fold, before, write(later)) == "abc"
    outputs = compare(fold, before, later)
    assert outputs.kind.tolist() == ["repeated"] * 12
    answers: Found = [(key, Answered(f"{key}{n}", label=n, at=8 + n)) for n in (2, 0) for key in "bca"]
    compare(fold, before, [*answers, ("a", Asked("new", [0.1, 0.2, 0.3, 0.4], 9))])
    compare(
        fold,
        before,
        [
            ("a", Asked("newer", [0.1, 0.2, 0.3, 0.4], 31)),
            ("b", Elapsed(40)),
            ("c", Answered("c3", label=0, at=33)),
        ],
    )


def test_many_keys_of_one_form_are_read_together() -> None:
    """With the last number of a histogram, or of misses told in a row, that a state can hold."""
    fold, before = make_fold(alpha=0.1), dict[str, bytes]()
    for key, told in zip("abc", (0, 4, 5), strict=True):
        here = states.KeyState(fold.start_progress(), 5)
        here.progress.state.told[0] = told
        here.progress.state.bins[0] = here.progress.state.total[0] = 2**16 - 1 if told else 0
        before[key] = states.pack(here, fold.setup.learner)
    found: Found = [
        (key, event)
        for key in "abc"
        for event in (Asked("r", [0.5, 0.3], 6), Answered("r", label=1, at=7))
    ]
    assert find_played(fold, before, write(found)) == "abc"
    compare(fold, before, found)


@pytest.mark.parametrize(
    ("part", "value"), [("told", 6), ("bare", 2), ("place", 84), ("offset", NAN), ("excess", math.inf)]
)
def test_a_state_that_no_learner_has_is_refused_as_it_is_alone(part: str, value: float) -> None:
    fold = make_fold(alpha=0.1)
    here = states.KeyState(fold.start_progress(), 5)
    getattr(here.progress.state, part)[0] = value
    before = {"a": stand(fold, answered=3), "b": states.pack(here, fold.setup.learner)}
    columns = write([(key, Asked("r", [0.5, 0.3])) for key in "ab"])
    assert find_played(fold, before, columns) == "a"
    with pytest.raises(keyhole.errors.SnapshotError):
        fold.run_many(before, columns)


def test_a_state_that_is_cut_short_or_of_another_rule_is_refused_as_it_is_alone() -> None:
    fold = make_fold(alpha=0.1)
    state, _ = fold.step("b", stand(fold, answered=3), Asked("r", [0.5, 0.3]))
    other, _ = make_fold("logit-tracker", alpha=0.1).step("b", b"", Elapsed(0))
    newer = state[:1] + bytes([state[1] + 16]) + state[2:]
    columns = write([(key, Asked("s", [0.5, 0.3])) for key in "abc"])
    for spoilt in (state[:3], state[:-1], state[:60], state + b"\0", other, newer):
        before = {"a": stand(fold, answered=3), "b": spoilt}
        assert "b" not in find_played(fold, before, columns)
        with pytest.raises(keyhole.errors.SnapshotError):
            fold.run_many(before, columns)

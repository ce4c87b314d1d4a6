"""A table of the events of many keys: whatever is in it, it comes to what each key by itself does."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyhole
from keyhole.errors import InvalidError
from keyhole.keyed import (
    Answered,
    Asked,
    Elapsed,
    Event,
    Fold,
    Output,
    OutputColumns,
    Skipped,
    make_fold,
    many,
)
from keyhole.keyed.columns import EventColumns
from keyhole.numeric import can_compile
from keyhole.scores import BoundedResiduals, Interval, LabelSet

PLACES = 3
NOTHING = float("nan")
FOLDS: dict[str, Fold] = {
    "the default": make_fold(alpha=0.1, lifetime=50, open_limit=3, seed=5),
    "the default, for ever": make_fold(alpha=0.3, seed=5, recall=0),
    "labels of text": make_fold(
        alpha=0.1, score=keyhole.Probabilities(labels=["ant", "bee", "cat"]), recall=3
    ),
    "a rule that draws": make_fold("ocp-unlock+", alpha=0.1, arms=8, lifetime=50),
    "intervals": make_fold(alpha=0.2, score=keyhole.ScaledResiduals(), lifetime=50),
    "intervals of a guessed scale": make_fold(alpha=0.2, score=keyhole.ScaledResiduals(scale=2.0)),
}


@pytest.fixture(autouse=True, scope="module")
def few_events_are_worth_it() -> Iterator[None]:
    """Play few events together, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "WORTH", 0)
        yield


folds = pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS.keys())


def make_output(fold: Fold, draw: st.DrawFn) -> Any:
    if fold.setup.score.kind == "interval":
        return draw(st.floats(-5, 5))
    raw = np.array(draw(st.lists(st.floats(0.01, 1.0), min_size=PLACES, max_size=PLACES)))
    return (raw / raw.sum()).tolist() if draw(st.booleans()) else raw.tolist()


def make_label(fold: Fold, draw: st.DrawFn) -> Any:
    if fold.setup.score.kind == "interval":
        return draw(st.floats(-9, 9))
    labels = getattr(fold.setup.score, "labels", None)
    return draw(st.sampled_from([*(labels or range(PLACES)), "yak" if labels else PLACES]))


@st.composite
def histories(draw: st.DrawFn, fold: Fold) -> list[tuple[str, Event]]:
    """Draw asks, answers and the like of three keys, some late, some twice, some of no round."""
    found: list[tuple[str, Event]] = []
    time = 1000
    for _ in range(draw(st.integers(1, 60))):
        time += draw(st.integers(-5, 15))
        key, name = draw(st.sampled_from("abc")), f"r{draw(st.integers(0, 12))}"
        what = draw(st.integers(0, 9))
        if what <= 4:
            event: Event = Asked(name, make_output(fold, draw), at=time)
        elif what <= 6:
            event = Answered(name, label=make_label(fold, draw), at=time)
        elif what == 7:
            event = Answered(name, draw(st.sampled_from([keyhole.HIT, keyhole.MISS])), at=time)
        elif what == 8:
            event = Answered(name, score=draw(st.floats(0, 1)), at=time)
        else:
            event = Skipped(name, time) if draw(st.booleans()) else Elapsed(time)
        found.append((key, event))
    return found


def to_row(event: Event) -> dict[str, Any]:
    if isinstance(event, Asked):
        return {"output": event.output}
    if isinstance(event, Skipped):
        return {"skipped": True}
    if isinstance(event, Elapsed):
        return {"elapsed": True}
    assert isinstance(event, Answered)
    if event.answer is not None:
        return {"hit": event.answer == keyhole.HIT}
    return {"label": event.label} if event.score is None else {"score": event.score}


def to_columns(found: list[tuple[str, Event]]) -> dict[str, Any]:
    """Return the events as columns, None or NaN where a row has nothing."""
    rows = [
        {"key": key, "id": getattr(event, "id", ""), "at": event.at, **to_row(event)}
        for key, event in found
    ]
    names = ("key", "id", "at", "output", "label", "hit", "score", "skipped", "elapsed")
    table: dict[str, Any] = {name: [row.get(name) for row in rows] for name in names}
    size = next((len(one) for one in table["output"] if isinstance(one, list)), 0)
    if size:
        table["output"] = np.array([one or [NOTHING] * size for one in table["output"]])
    elif any(one is not None for one in table["output"]):
        table["output"] = np.array([NOTHING if one is None else one for one in table["output"]])
    return table


def read_back(columns: OutputColumns) -> list[tuple[int, Output]]:
    """Return the outputs again, each with the row that it is about."""
    found = []
    for place in range(len(columns)):
        number, threshold = int(columns.number[place]), float(columns.threshold[place])
        region: Any = None
        if not math.isnan(threshold):
            start, end = columns.offsets[place : place + 2]
            if math.isnan(columns.lower[place]):
                region = LabelSet(number, threshold, tuple(columns.labels[start:end].tolist()))
            else:
                ends = float(columns.lower[place]), float(columns.upper[place])
                region = Interval(number, threshold, *ends)
            assert columns.size[place] == region.size
        miss = float(columns.miss[place])
        output = Output(
            columns.kind[place],
            columns.id[place],
            None if number < 0 else number,
            region,
            None if math.isnan(miss) else miss,
            columns.note[place],
        )
        found.append((int(columns.row[place]), output))
    return found


def run_each(
    fold: Fold, states: dict[str, bytes], found: list[tuple[str, Event]]
) -> tuple[dict[str, bytes], list[tuple[int, Output]]]:
    """Fold the events one after the other, each from the bytes that the key's last one left."""
    after: dict[str, bytes] = {}
    said: list[tuple[int, Output]] = []
    for row, (key, event) in enumerate(found):
        after[key], more = fold.step(key, after.get(key, states.get(key, b"")), event)
        said += [(row, one) for one in more]
    return after, said


@folds
@given(data=st.data())
def test_events_of_many_keys_come_to_what_each_by_itself_does(fold: Fold, data: st.DataObject) -> None:
    found = data.draw(histories(fold))
    cut = data.draw(st.integers(0, len(found)))
    states: dict[str, bytes] = {}
    for part in (found[:cut], found[cut:]):
        if not part:
            continue
        expected, said = run_each(fold, states, part)
        after, columns = fold.run_many(states, to_columns(part))
        assert after == expected
        assert read_back(columns) == said
        states |= after


def test_a_pandas_table_is_a_table_of_events() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {
            "key": ["anna", "anna", "bert"],
            "id": ["r1", "r1", "r1"],
            "at": [1, 2, 2],
            "output": [np.array([0.7, 0.2, 0.1]), None, np.array([0.1, 0.1, 0.8])],
            "label": [None, 0, None],
        }
    )
    fold = make_fold(alpha=0.1)
    after, columns = fold.run_many({}, table)
    expected, _ = fold.run(
        "anna", b"", [Asked("r1", [0.7, 0.2, 0.1], 1), Answered("r1", label=0, at=2)]
    )
    assert (after["anna"], columns.kind.tolist()) == (expected, ["shown", "counted", "shown"])


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ({"key": ["a"], "id": ["1"], "lable": [0]}, "'lable'; did you mean 'label'?"),
        ({"key": ["a"], "output": [0.5]}, "lack the column 'id'"),
        ({"key": ["a"], "id": ["1", "2"]}, "'id' has 2 rows and 'key' has 1"),
        ({"key": [7], "id": ["1"]}, "key 7 is not text"),
    ],
)
def test_columns_that_are_no_table_of_events_are_refused(events: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidError) as caught:
        make_fold(alpha=0.1).run_many({}, events)
    assert fault in str(caught.value)


def test_a_row_without_a_usable_id_or_time_is_refused_and_changes_nothing() -> None:
    events = {"key": ["a", "a"], "id": [None, "r"], "at": [1, None], "output": [[0.5, 0.5]] * 2}
    after, columns = make_fold(alpha=0.1).run_many({}, events)
    assert (after, columns.kind.tolist()) == ({"a": b""}, ["refused", "refused"])


def test_every_column_says_what_the_event_of_its_name_does() -> None:
    fold = make_fold(alpha=0.2, features=["load"], groups=["new"], seed=3)
    hit, miss = keyhole.HIT, keyhole.MISS
    told: list[dict[str, Any]] = [
        {"label": 0},
        {"loss": 0.25},
        {"score": 0.5, "chance": 0.5},
        {"answer": miss, "wrong": 0.1},
        {"judged": hit, "label": 1},
        {"judged": miss, "chance": 0.25},
    ]
    events: list[Event] = []
    for n, answer in enumerate(told * 3):
        known: Any = {"features": [0.1 * n], "groups": ["new"] if n % 2 else []}
        events += [Asked(f"r{n}", [0.7, 0.3], at=n, **known), Answered(f"r{n}", at=n, **answer)]
    rows: list[dict[str, Any]] = []
    for event in events:
        row: dict[str, Any] = {"key": "a", "id": event.id, "at": event.at}  # type: ignore[union-attr]
        if isinstance(event, Asked):
            row |= {"output": event.output, "features": event.features, "groups": event.groups}
        else:
            given = {**told[int(event.id[1:]) % len(told)]}  # type: ignore[union-attr]
            row |= {"hit": False} if given.pop("answer", None) else {}
            row |= {"judged": judged == hit} if (judged := given.pop("judged", None)) else {}
            row |= given
        rows.append(row)
    table = {name: [row.get(name) for row in rows] for name in {name for row in rows for name in row}}
    state, outputs = fold.run("a", b"", events)
    after, columns = fold.run_many({}, table)
    assert after == {"a": state}
    assert read_back(columns) == list(enumerate(outputs))
    assert {one.kind.value for one in outputs} == {"shown", "counted"}
    assert repr(columns) == f"<{len(events)} outputs>"


def test_without_times_all_is_at_nought_and_what_is_nothing_is_marked_so() -> None:
    fold = make_fold(alpha=0.1, lifetime=5)
    events = {
        "key": ["a", "b", "a", "b"],
        "id": ["r", "r", "r", "r"],
        "output": [[0.9, 0.1], [0.2, 0.8], None, None],
        "label": [None, None, 0, None],
        "skipped": [False, False, False, True],
    }
    after, columns = fold.run_many({}, events)
    assert sorted(after) == ["a", "b"]
    assert columns.row.tolist() == [0, 1, 2, 3]
    assert columns.number.tolist()[:2] == [0, 0]
    assert columns.labels.dtype == np.int64
    assert np.isnan(columns.threshold[2:]).all()
    assert columns.offsets.tolist()[2:] == [columns.offsets[2]] * 3
    assert columns.kind.tolist() == ["shown", "shown", "counted", "skipped"]
    assert math.isnan(columns.miss[3])
    assert np.isnan(columns.lower).all()
    later, columns = fold.run_many(after, {"key": ["c"], "id": ["r"], "label": [0]})
    assert (columns.kind.tolist(), columns.number.tolist(), list(later)) == (["refused"], [-1], ["c"])
    assert columns.note[0] == "no round of this id is open, nor was one recently"


@pytest.mark.skipif(not can_compile(), reason="there is nothing to compile")
def test_what_is_common_is_played_together() -> None:
    """Late answers, skips, expiry, replays and unknown rounds too; only the key of a fault is left."""
    asks = {key: [(key, Asked(f"r{n}", [0.6, 0.3, 0.1], at=n)) for n in range(5)] for key in "abc"}
    others: dict[str, list[Event]] = {
        "a": [Answered("r4", label=1, at=5), Answered("r3", keyhole.MISS, at=5), Skipped("r2", 5)],
        "b": [Asked("r1", [0.6, 0.3, 0.1], 5), Answered("r9", score=0.5, at=6), Elapsed(53)],
        "c": [Answered("r1", label=7, at=5)],
    }
    rest = [(key, event) for key, events in others.items() for event in events]
    found = [*asks["a"], *asks["b"], *asks["c"], *rest]
    table = EventColumns(to_columns(found))
    after, _ = many.play_many(make_fold(alpha=0.1, lifetime=50), {}, table)
    assert after.keys() == {"a", "b"}


def test_no_events_change_no_key_and_say_nothing() -> None:
    after, columns = make_fold(alpha=0.1).run_many(
        {}, {"key": [], "id": [], "output": np.zeros((0, 3))}
    )
    assert (after, len(columns), columns.offsets.tolist()) == ({}, 0, [0])


def draw_event(rng: np.random.Generator, fold: Fold, time: int) -> Event:
    """Return an event as ``histories`` draws them, of one generator."""
    name, what = f"r{rng.integers(13)}", rng.random()
    is_interval = fold.setup.score.kind == "interval"
    if what < 0.5:
        scores = rng.dirichlet(np.ones(PLACES)) * (1.0 if rng.random() < 0.5 else 0.9)
        return Asked(name, float(rng.normal()) if is_interval else scores.tolist(), at=time)
    if what < 0.75:
        labels = [*(getattr(fold.setup.score, "labels", None) or range(PLACES))]
        label = float(rng.normal(0.0, 3.0)) if is_interval else labels[rng.integers(PLACES)]
        return Answered(name, label=label, at=time)
    if what < 0.85:
        return Answered(name, keyhole.HIT if rng.random() < 0.7 else keyhole.MISS, at=time)
    if what < 0.92:
        return Answered(name, score=float(rng.random()), at=time)
    return Skipped(name, time) if what < 0.97 else Elapsed(time)


def play_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loop of many keys run interpreted where nothing is compiled."""
    if not can_compile():
        monkeypatch.setattr(many, "can_compile", lambda: True)
        monkeypatch.setattr(many, "compile_for", lambda function, *_: function)
        monkeypatch.setattr(many, "_COMPILED", {})


@folds
@pytest.mark.parametrize("seed", [1, 2])
def test_a_long_table_in_three_parts_comes_to_the_same(
    fold: Fold, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rounds above, always the same ones and many; also by the loop of many keys interpreted."""
    play_interpreted(monkeypatch)
    rng, time = np.random.default_rng(seed), 1000
    found: list[tuple[str, Event]] = []
    for _ in range(450):
        time += int(rng.integers(-3, 9))
        found.append(("abc"[rng.integers(3)], draw_event(rng, fold, time)))
    states: dict[str, bytes] = {}
    for part in (found[:20], found[20:230], found[230:]):
        expected, said = run_each(fold, states, part)
        after, columns = fold.run_many(states, to_columns(part))
        assert read_back(columns) == said
        assert after == expected
        states |= after


@pytest.mark.parametrize(
    ("score", "outputs"),
    [
        (keyhole.ScaledResiduals(), [1.0, 2.5]),
        (keyhole.ScaledResiduals(scale=2.0, side="upper"), [1.0, 2.5]),
        (keyhole.ScaledResiduals(side="lower"), [1.0, 2.5]),
        (BoundedResiduals(bound=2.0), [1.0, 2.5]),
        (keyhole.QuantileBands(), [(0.5, 1.5), (2.0, 3.0)]),
    ],
    ids=str,
)
def test_intervals_are_played_together_and_answered_by_a_table_of_answers_alone(
    score: Any, outputs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    play_interpreted(monkeypatch)
    fold, states = make_fold(alpha=0.2, score=score, lifetime=50), dict[str, bytes]()
    for start in range(0, 60, 2):
        names = [f"r{start}", f"r{start + 1}"] * 2
        common = {"key": ["a", "a", "b", "b"], "id": names, "at": np.arange(start, start + 4)}
        truths = np.array([1.3, 2.5, -4.0, 9.0]) + start % 5
        for table in ({**common, "output": outputs * 2}, {**common, "label": truths}):
            after, (columns,) = many.play_many(fold, states, EventColumns(table))
            events = EventColumns(table)
            found = [
                fold.run(key, states.get(key, b""), events.events(rows))
                for key, rows in events.group().items()
            ]
            assert after == dict(zip("ab", (state for state, _ in found), strict=True))
            assert [one for _, one in read_back(columns)] == [one for _, said in found for one in said]
            states |= after


def test_small_tables_add_up_until_the_loop_is_worth_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "WORTH", 30)
    monkeypatch.setattr(many, "_met", 0)
    monkeypatch.setattr(many, "_COMPILED", {})
    assert [many._is_worth_while(events) for events in (20, 9, 1, 1)] == [False, False, True, True]

"""Tables of rows without any engine: finished ones, which are played, and buckets of keys."""

import math
from typing import Any

import pytest

from keyhole import Predictor, Probabilities, ScaledResiduals
from keyhole.errors import InvalidError, SnapshotError
from keyhole.keyed import Answered, Asked, make_fold

arrow = pytest.importorskip("pyarrow")

from keyhole.integrations._arrow import (  # noqa: E402
    Bucket,
    list_cells,
    play_table,
    read_events,
    tell_time,
)


@pytest.mark.parametrize("null", [None, math.nan])
def test_the_rounds_of_a_table_are_those_of_a_predictor_that_is_not_always_answered(null: Any) -> None:
    fold = make_fold(alpha=0.1, score=Probabilities(), features=["hour"], seed=3)
    truths = [0.0, 1.0, null, 1.0] * 10
    columns = {"key": ["a"] * 40, "at": range(40), "output": [[0.6, 0.4]] * 40, "label": truths}
    table = arrow.table(columns | {"features": [[1.0]] * 40})
    played = play_table(fold, table.take(list(range(39, -1, -1)))).to_pylist()
    beside: Predictor[Any] = Predictor(
        alpha=0.1, features=["hour"], score=Probabilities(), seed=fold.seed_of("a")
    )
    for row, truth in zip(reversed(played), truths, strict=True):
        shown = beside.predict([0.6, 0.4], features=[1.0])
        assert (row["threshold"], row["size"]) == (shown.threshold, shown.size)
        if truth in (0, 1):
            beside.learn(shown, label=int(truth))
            assert row["miss"] == float(int(truth) not in shown)
        else:
            beside.skip(shown)
            assert row["miss"] is None


def test_keys_of_a_table_are_played_each_by_itself_and_rows_come_back_in_their_order() -> None:
    score = ScaledResiduals(scale=1.0)
    fold = make_fold(alpha=0.1, score=score, seed=3)
    rows = [("ab"[n % 2], 100 - n, 0.0, (n * 7 % 11) / 5) for n in range(60)]
    names = ("key", "at", "output", "label")
    table = arrow.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    played = play_table(fold, table).to_pylist()
    for key in "ab":
        beside = Predictor(alpha=0.1, score=score, seed=fold.seed_of(key))
        mine = [(row, one) for row, one in zip(rows, played, strict=True) if row[0] == key]
        for (_, _, output, label), one in reversed(mine):
            shown = beside.predict(output)
            beside.learn(shown, label=label)
            assert (one["lower"], one["upper"], one["labels"]) == (shown.lower, shown.upper, None)
            assert one["miss"] == float(label not in shown)


def test_labels_that_are_names_are_not_read_as_places() -> None:
    fold = make_fold(alpha=0.1, score=Probabilities(labels=["1", "0"]), seed=3)
    columns = {"key": ["a"] * 2, "at": [1, 2], "output": [[0.9, 0.1]] * 2, "label": ["1", "0"]}
    played = play_table(fold, arrow.table(columns)).to_pylist()
    assert played[0]["labels"] == ["1"]
    assert played[0]["miss"] == 0.0


def test_a_row_of_a_table_that_cannot_be_used_is_named() -> None:
    columns = {"key": ["a", "b"], "at": [2, 1], "output": [[0.9, 0.1], [0.5, 7.0]], "label": [0, 0]}
    with pytest.raises(InvalidError, match="row 1, of key 'b'"):
        play_table(make_fold(alpha=0.1), arrow.table(columns))


def test_lists_of_one_length_are_a_table_and_others_are_not() -> None:
    whole = list_cells(arrow.array([[0.1, 0.2], None, [0.3, 0.4]]))
    assert whole.shape == (3, 2)
    assert math.isnan(whole[1, 0])
    ragged = list_cells(arrow.array([[0.1, 0.2], None, [0.3]]))
    assert [None if cell is None else cell.tolist() for cell in ragged] == [[0.1, 0.2], None, [0.3]]
    kind = arrow.map_(arrow.string(), arrow.float64())
    assert list_cells(arrow.array([[("a", 0.5)], None, []], kind)) == [{"a": 0.5}, None, {}]
    assert list_cells(arrow.array([[("a", 0.5)], None, [("b", 0.1)]], kind)[1:]) == [None, {"b": 0.1}]


def test_of_several_answers_in_a_row_the_first_counts() -> None:
    columns = {
        "key": ["a"] * 4,
        "id": list("1234"),
        "at": [1] * 4,
        "skipped": [True, False, None, None],
    }
    more = {"label": [0, 0, None, None], "hit": [True, True, False, None], "loss": [1.0] * 4}
    events = read_events([arrow.table(columns | more)], indexed=True)
    assert events["label"] == [None, 0, None, None]
    assert events["hit"] == [None, None, False, None]
    assert events["loss"] == [None, None, None, 1.0]


def make_bucket() -> tuple[Any, Bucket]:
    fold = make_fold(alpha=0.1, lifetime=50)
    states = {}
    for number in range(30):
        key, answered = f"key {number} ñ", [Answered("1", label=0, at=number)] * (number % 3 > 0)
        states[key], _ = fold.run(key, b"", [Asked("1", [0.5, 0.5], at=number), *answered])
    return fold, Bucket(states)


def test_a_bucket_comes_back_from_its_bytes() -> None:
    _, bucket = make_bucket()
    content = bucket.pack(buckets=5)
    again = Bucket.unpack(content, buckets=5)
    assert list(again.states.items()) == list(bucket.states.items())
    assert again.pack(buckets=5) == content
    assert len(content) < sum(map(len, bucket.states.values())) / 4


def test_a_bucket_of_a_later_version_or_cut_short_is_refused() -> None:
    _, bucket = make_bucket()
    content = bucket.pack(buckets=5)
    with pytest.raises(SnapshotError, match="version 2, this Keyhole reads 1"):
        Bucket.unpack(b"\2" + content[1:], buckets=5)
    for size in range(1, len(content), 7):
        with pytest.raises(SnapshotError, match="no bucket of keys"):
            Bucket.unpack(content[:size], buckets=5)


def test_a_bucket_finds_the_next_expiry_of_every_key_that_has_one() -> None:
    fold, bucket = make_bucket()
    expected = {f"key {number} ñ": 50 + number for number in range(0, 30, 3)}
    assert bucket.find_dues(fold) == expected
    outputs = bucket.play(fold, tell_time(["key 0 ñ", "key 3 ñ"], 53))
    assert [kind.value for kind in outputs.kind] == ["expired", "expired"]
    assert min(bucket.find_dues(fold).values()) == 56

"""Files that somebody made up are refused before they take room."""

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import keyhole
from keyhole.errors import KeyholeError, SnapshotError
from keyhole.predictor import file

HUGE = 10**9


@pytest.mark.parametrize(
    ("learner", "parameters"),
    [
        ("unlock-hedge", {"arms": HUGE}),
        ("ocp-unlock+", {"arms": HUGE, "horizon": 10**12}),
        ("sps", {"arms": HUGE, "horizon": 1000}),
        ("mvp", {"buckets": HUGE}),
        ("mvp", {"buckets": 10**6, "groups": HUGE}),
        ("aci", {"window": HUGE}),
        ("dtaci", {"window": HUGE}),
        ("tracker-decaying", {"window": HUGE}),
        ("contextual-tracker", {"features": 10**5, "kept": HUGE}),
        ("contextual-tracker", {"features": 10, "knots": HUGE}),
        ("mvp+valve", {"inner": {"alpha": 0.1, "buckets": HUGE}, "budget": 1.0}),
    ],
)
def test_a_small_file_that_asks_for_a_huge_learner_takes_no_room(
    tmp_path: Path, learner: str, parameters: dict[str, Any]
) -> None:
    path = tmp_path / "crafted.keyhole"
    keyhole.Predictor(alpha=0.1).save(path)
    header, content = file.unpack(path.read_bytes())
    common = {} if "inner" in parameters else {"alpha": 0.1}
    header["setup"] |= {"learner": learner, "parameters": {**common, **parameters}}
    path.write_bytes(file.pack(header, content))
    keyhole.make(learner, alpha=0.1, horizon=10**4 if "horizon" in parameters else None)
    tracemalloc.start()
    with pytest.raises(KeyholeError):
        keyhole.Predictor.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def change_open(content: bytes, place: int, value: Any) -> bytes:
    """Return a file whose only open round has another number, time or list of groups."""
    header, rest = file.unpack(content)
    header["open"][0][place] = value
    return file.pack(header, rest)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (5, [2]),
        (5, [-1]),
        (5, [0.5]),
        (5, [10**12]),
        (5, ["a"]),
        (0, -1),
        (0, 0.5),
        (2, -1),
        (2, 1e300),
    ],
)
def test_an_open_round_of_groups_or_numbers_that_are_none_is_refused(place: int, value: Any) -> None:
    """Kills: numbers of a file that fail where the round is answered, long after it was loaded."""
    predictor = keyhole.Predictor(alpha=0.1, groups=["a", "b"])
    predictor.predict({"cat": 0.7, "dog": 0.3}, groups=["b"])
    content = predictor.dump()
    keyhole.Predictor.restore(change_open(content, 5, [1])).learn(0, label="cat")
    with pytest.raises(SnapshotError, match="open round"):
        keyhole.Predictor.restore(change_open(content, place, value))


def test_an_open_round_of_a_gate_is_of_groups_that_there_are() -> None:
    gate = keyhole.Gate(alpha=0.1, groups=["a", "b"])
    gate.decide(0.95, groups=["b"])
    content = gate.dump()
    keyhole.Gate.restore(change_open(content, 5, [0])).learn(0, right=True)
    with pytest.raises(SnapshotError, match=r"open round 0 is of groups \[2\]"):
        keyhole.Gate.restore(change_open(content, 5, [2]))


def test_a_gate_whose_groups_lack_states_is_refused() -> None:
    gate = keyhole.Gate(alpha=0.1, groups=["a", "b"])
    header, rest = file.unpack(gate.dump())
    header["setup"]["groups"].append("c")
    with pytest.raises(SnapshotError, match="bytes are not a state of gate-tracker"):
        keyhole.Gate.restore(file.pack(header, rest))


@pytest.mark.parametrize("bucket", [-1.0, 0.5, 40.0, 1e9])
def test_an_open_round_that_remembers_a_place_beyond_the_table_is_refused(bucket: float) -> None:
    """Kills: a file that ends the process when its open round is answered."""
    predictor = keyhole.Predictor("mvp", alpha=0.1)
    predictor.predict({"cat": 0.7, "dog": 0.3})
    header, rest = file.unpack(predictor.dump())
    with pytest.raises(SnapshotError, match="memo of a round of mvp holds"):
        keyhole.Predictor.restore(file.pack(header, struct.pack("<d", bucket) + rest[8:]))

"""Files that somebody made up are refused before they take room."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import keyhole
from keyhole.errors import KeyholeError
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

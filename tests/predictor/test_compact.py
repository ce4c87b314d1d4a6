"""Where a key stands as bytes, by hand: those that are kept must be read for ever."""

import struct

import pytest

from keyhole import make
from keyhole.predictor.compact import Standing, pack
from keyhole.predictor.progress import Progress

TIME = (1_000).to_bytes(6, "little")


@pytest.mark.parametrize(
    ("counts", "rounds", "layout", "form"),
    [
        ((3, 1, 4), 3, 0x1000, "HHH"),
        ((3, 0.5, 4), 3, 0x1020, "HdH"),  # misses in part
        ((3, 1, 4.5), 3, 0x1010, "HHd"),  # sizes that are no counts
        ((2**16, 1, 4), 3, 0x1400, "III"),  # counts of four bytes
        ((3, 1, 4), 2**32, 0x1008, "HHH"),  # a state whose counts take eight
    ],
)
def test_the_bytes_are_a_layout_the_time_the_tally_and_the_state(
    counts: tuple[float, ...], rounds: int, layout: int, form: str
) -> None:
    learner = make("logit-tracker", alpha=0.1)
    progress = Progress.start(learner)
    tally = progress.tally
    tally.answered, tally.misses, tally.size = int(counts[0]), float(counts[1]), float(counts[2])
    tally.weight = float(tally.answered)
    progress.state.rounds[0] = rounds
    state = struct.pack("<ddqq" if rounds == 2**32 else "<ddII", 0.0, 0.0, rounds, 0)
    expected = struct.pack(f"<HB6s{form}", layout, 0, TIME, *counts) + state
    assert pack(Standing(progress, 1_000), learner) == expected

"""A progress as bytes: those that databases and files hold must be read for ever."""

import struct
from typing import Any

import pytest

from keyhole import ScaledResiduals, make
from keyhole.errors import SnapshotError
from keyhole.learners import Learner
from keyhole.predictor.progress import Progress
from keyhole.predictor.setup import make_setup
from keyhole.scores import BestScore

COUNTS = (
    9,
    7,
    6.5,
    2.25,
    30.5,
    4.75,
    1,
    2,
    3,
    4,
    5,
    0.5,
    6,
    12.5,
    1.25,
    0.75,
    0.2,
    8,
    8.5,
    -0.5,
    1.5,
    2.5,
    9,
    11,
)
KNOWN = struct.Struct("<BBqqddddqqqqqdqddddqddddqq")


@pytest.fixture
def learner() -> Learner:
    return make("contextual-tracker", alpha=0.1, options={"groups": 2})


def fill(progress: Progress) -> Progress:
    """Give every count of the tally a number of its own."""
    names = [name for name in progress.tally.dump() if name != "members"]
    for name, value in zip(names, COUNTS, strict=True):
        setattr(progress.tally, name, value)
    progress.tally.members = [[3.0, 1.5], [4.0, 0.5]]
    return progress


def test_the_bytes_are_a_version_the_counts_the_groups_and_the_state(learner: Learner) -> None:
    progress = fill(Progress.start(learner))
    head = KNOWN.pack(2, 0, *COUNTS) + struct.pack("<4d", 3.0, 1.5, 4.0, 0.5)
    assert progress.pack(learner) == head + learner.pack(progress.state)
    back = Progress.unpack(progress.pack(learner), setup=make_setup(learner))
    assert back.tally == progress.tally
    assert (back.scale, back.watch) == (None, None)


@pytest.mark.parametrize(("has_scale", "has_watch", "bits"), [(1, 0, 1), (0, 1, 2), (1, 1, 3)])
def test_a_bit_each_says_whether_a_scale_and_a_watch_follow(
    learner: Learner, has_scale: int, has_watch: int, bits: int
) -> None:
    score = ScaledResiduals() if has_scale else None
    progress = fill(Progress.start(learner, score, watch=bool(has_watch)))
    if progress.scale is not None:
        for residual in (1.0, 5.0, 2.0):
            progress.scale.add(residual)
    if progress.watch is not None:
        progress.watch.rounds = 17
    packed = progress.pack(learner)
    assert packed[:2] == bytes((2, bits))
    back = Progress.unpack(packed, setup=make_setup(learner))
    assert back.tally == progress.tally
    assert back.scale == progress.scale
    assert back.watch == progress.watch
    assert learner.pack(back.state) == learner.pack(progress.state)


def test_what_is_cut_short_or_newer_is_refused(learner: Learner) -> None:
    packed = Progress.start(learner).pack(learner)
    own = KNOWN.size + 4 * 8
    with pytest.raises(SnapshotError, match=f"^{own - 3} bytes are not the tally of 2 groups"):
        Progress.unpack(packed[: own - 1], setup=make_setup(learner))
    with pytest.raises(SnapshotError, match=r"^0 bytes are not a state of contextual-tracker"):
        Progress.unpack(packed[:own], setup=make_setup(learner))
    with pytest.raises(SnapshotError, match="version 3, this Keyhole reads up to 2; upgrade"):
        Progress.unpack(b"\x03" + packed[1:], setup=make_setup(learner))


@pytest.mark.parametrize("more", [1, 16, 32])
def test_bytes_behind_the_state_of_a_predictor_are_refused(more: int) -> None:
    learner = make("kt", alpha=0.1)
    packed = Progress.start(learner).pack(learner)
    with pytest.raises(SnapshotError, match="not a state of kt"):
        Progress.unpack(packed + bytes(more), setup=make_setup(learner))


@pytest.mark.parametrize("groups", [0, 1, 3])
def test_a_gate_has_a_state_for_each_group_behind_its_own(groups: int) -> None:
    best: Any = BestScore()
    setup = make_setup(alpha=0.1, score=best, groups=[f"group {n}" for n in range(groups)])
    progress = setup.kind.start(setup)
    for place, state in enumerate((progress.state, *progress.states)):
        state[0][0] = place
    progress.tally.members = [[3.0 + n, 1.5] for n in range(groups)]
    packed = progress.pack(setup.learner)
    back = Progress.unpack(packed, setup=setup)
    assert [state[0][0] for state in (back.state, *back.states)] == list(range(groups + 1))
    assert back.tally == progress.tally
    with pytest.raises(SnapshotError, match="not a state of gate-tracker"):
        Progress.unpack(packed[:-1], setup=setup)


def test_a_gate_of_more_groups_than_its_bytes_hold_is_refused() -> None:
    best: Any = BestScore()
    one, two = (make_setup(alpha=0.1, score=best, groups=names) for names in (["a"], ["a", "b"]))
    packed = one.kind.start(one).pack(one.learner)
    with pytest.raises(SnapshotError, match="not a state of gate-tracker"):
        Progress.unpack(packed, setup=two)
    with pytest.raises(SnapshotError, match="bytes are not the tally of 2 groups"):
        Progress.unpack(packed[:80], setup=two)

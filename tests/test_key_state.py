"""Where a key stands as bytes, by hand: those that are kept must be read for ever."""

import math
import struct
from typing import Any

import pytest

from keyhole import ScaledResiduals, make
from keyhole.errors import SnapshotError
from keyhole.keyed import Answered, Asked, Elapsed, Event, Kind, Skipped, make_fold
from keyhole.keyed.state import KeyState, pack, read_round, unpack
from keyhole.learners import Learner
from keyhole.predictor.progress import Progress

KEY = "anna"
TIME = (1_000).to_bytes(6, "little")
RULE = 208  # the last byte of the CRC-32 of "logit-tracker"
STATE = struct.pack("<ddIId", 0.0, 0.0, 0, 0, 1.0)  # of a logit tracker that has heard nothing


@pytest.fixture
def learner() -> Learner:
    return make("logit-tracker", alpha=0.1)


def stand(learner: Learner, answered: int, misses: float, size: float, **rare: float) -> KeyState:
    progress = Progress.start(learner)
    tally = progress.tally
    tally.answered, tally.misses, tally.size, tally.weight = answered, misses, size, float(answered)
    for name, count in rare.items():
        setattr(tally, name, count)
    tally.predicted = tally.answered + tally.expired
    return KeyState(progress, 1_000)


@pytest.mark.parametrize(
    ("counts", "layout", "form"),
    [
        ((3, 1, 4), 0x1000, "HHH"),
        ((3, 0, 0), 0x1000, "HHH"),
        ((3, 0.5, 4), 0x1020, "HdH"),  # misses in part
        ((3, -0.25, 4), 0x1020, "HdH"),  # misses corrected for answers that may be wrong
        ((3, -1, 4), 0x1020, "HdH"),
        ((3, 1, 4.5), 0x1010, "HHd"),  # sizes that are no counts
        ((3, 1, -2), 0x1010, "HHd"),
        ((2**16 - 1, 1, 4), 0x1000, "HHH"),  # the most that two bytes hold
        ((3, 2**16 - 1, 2**16 - 1), 0x1000, "HHH"),
        ((3, 2**16, 4), 0x1020, "HdH"),
        ((3, 1, 2**16), 0x1010, "HHd"),
        ((2**16, 1, 4), 0x1400, "III"),  # counts of four bytes
        ((2**32 - 1, 1, 2**32 - 1), 0x1400, "III"),
        ((2**32, 1, 2**40), 0x1800, "QQQ"),  # of eight
        ((2**32, 2**53, 2.0**63), 0x1810, "QQd"),
    ],
)
def test_counts_are_as_wide_as_they_must_be(
    learner: Learner, counts: tuple[float, ...], layout: int, form: str
) -> None:
    here = stand(learner, int(counts[0]), float(counts[1]), float(counts[2]))
    content = pack(here, learner)
    assert (
        content == struct.pack(f"<HBB6s{form}", layout, 0, RULE, TIME, *map(fit, form, counts)) + STATE
    )
    assert unpack(content, learner).progress.tally == here.progress.tally


def fit(form: str, count: float) -> float:
    return float(count) if form == "d" else int(count)


def test_a_state_whose_counts_take_eight_bytes_says_so(learner: Learner) -> None:
    here = stand(learner, 3, 1.0, 4.0)
    here.progress.state.rounds[0] = 2**32
    state = struct.pack("<ddqqd", 0.0, 0.0, 2**32, 0, 1.0)
    assert pack(here, learner) == struct.pack("<HBB6sHHH", 0x1008, 0, RULE, TIME, 3, 1, 4) + state
    assert unpack(pack(here, learner), learner).progress.state.rounds[0] == 2**32


@pytest.mark.parametrize(
    ("rare", "layout", "form", "numbers"),
    [
        ({"expired": 5}, 0x1200, "H", [5]),
        ({"unreachable": 6}, 0x1100, "H", [6]),
        ({"unbounded": 7}, 0x1080, "H", [7]),
        ({"weight": 2.5}, 0x1042, "dddH", [2.5, 1.0, 0.0, 0]),
        ({"weight": 2.5, "unreachable": 6, "expired": 5}, 0x1342, "HHdddH", [5, 6, 2.5, 1.0, 0.0, 0]),
        ({"expired": 2**16 - 3}, 0x1600, "I", [2**16 - 3]),  # with 3 answers no more in two bytes
    ],
)
def test_what_is_seldom_there_has_a_bit_each_and_comes_back(
    learner: Learner, rare: dict[str, float], layout: int, form: str, numbers: list[float]
) -> None:
    here = stand(learner, 3, 1.0, 4.0, **rare)
    counts = "III" if layout & 0x400 else "HHH"
    head = struct.pack(f"<HBB6s{counts}{form}", layout, 0, RULE, TIME, 3, 1, 4, *numbers)
    state = squeeze(STATE) if "weight" in rare else STATE
    assert pack(here, learner) == head + state
    assert unpack(head + state, learner).progress.tally == here.progress.tally


def squeeze(state: bytes) -> bytes:
    """Return a state without bytes that are 0, behind a bit each that says so, highest first."""
    bits = sum(1 << (len(state) - 1 - place) for place, byte in enumerate(state) if byte)
    return bits.to_bytes(math.ceil(len(state) / 8), "little") + state.replace(b"\0", b"")


@pytest.mark.parametrize(
    ("known", "value", "kept"),
    [(2, 1.5, [1.0, 2.0]), (24, 12.5, [12.0, 13.0, 24.0]), (25, 13.0, [13.0]), (40, 13.0, [13.0])],
)
def test_the_scale_comes_before_the_state_and_is_one_number_once_it_is_fixed(
    learner: Learner, known: int, value: float, kept: list[float]
) -> None:
    """It is fixed by the twenty-fifth residual: 255 stands for those that are left out."""
    progress = Progress.start(learner, ScaledResiduals())
    assert progress.scale is not None
    for residual in range(1, known + 1):
        progress.scale.add(-float(residual))
    state, layout = STATE, 0x1004
    if known < 25:
        state, layout = squeeze(STATE), 0x1006
    scale = struct.pack(f"<B{len(kept)}d", known if known < 25 else 255, *kept)
    content = pack(KeyState(progress, 1_000), learner)
    assert content == struct.pack("<HBB6sHHH", layout, 0, RULE, TIME, 0, 0, 0) + scale + state
    back = unpack(content, learner)
    assert back.progress.scale is not None
    assert back.progress.scale.value == value
    assert back.progress.state == progress.state
    assert pack(back, learner) == content
    with pytest.raises(SnapshotError):
        unpack(content[:-1], learner)


def ask_by_hand(*rounds: tuple[str, int, int]) -> bytes:
    """Return open rounds of these ids, numbers and times, each with the same two scores."""
    case = struct.pack("<2d", 0.75, 0.25)
    return b"".join(
        struct.pack("<IHIqQQdd", 50 + len(name) + 16, len(name), 16, due, number, 0, 0.5, 1.0)
        + name.encode()
        + case
        for name, number, due in rounds
    )


def test_open_rounds_follow_with_their_number_and_the_earliest_time() -> None:
    fold = make_fold("logit-tracker", alpha=0.1, lifetime=50)
    asks: list[Event] = [Asked("r1", [0.75, 0.25], 1_000), Asked("r22", [0.75, 0.25], 970)]
    state, _ = fold.run(KEY, b"", asks)
    head = struct.pack("<HBB6sHHH", 0x1000, 0, RULE, TIME, 0, 0, 0)
    rounds = ask_by_hand(("r1", 0, 1_050), ("r22", 1, 1_020))
    assert state == head + STATE + struct.pack("<Iq", 2, 1_020) + rounds
    assert make_fold("logit-tracker", alpha=0.1, lifetime=50).next_due(state) == 1_020


def test_a_round_that_may_wait_for_ever_is_due_at_the_end_of_time() -> None:
    fold = make_fold("logit-tracker", alpha=0.1)
    state, _ = fold.step(KEY, b"", Asked("r1", [0.75, 0.25], 1_000))
    assert state.endswith(struct.pack("<Iq", 1, 2**63 - 1) + ask_by_hand(("r1", 0, 2**63 - 1)))
    assert fold.next_due(state) is None


def test_closed_rounds_are_remembered_by_four_bytes_each_behind_the_state() -> None:
    import zlib

    fold = make_fold("logit-tracker", alpha=0.1, recall=2)
    events: list[Event] = [Asked(name, [0.5]) for name in "abc"]
    events += [Skipped(name) for name in "abc"]
    state, _ = fold.run(KEY, b"", events)
    marks = [zlib.crc32(name.encode()).to_bytes(4, "little") for name in "bc"]
    assert state[2] == 2
    assert state.endswith(STATE + b"".join(marks))


def read_open(state: bytes) -> list[str]:
    """Return which of a, b and c a fold that never saw the key still takes answers for."""
    fold = make_fold(alpha=0.1, lifetime=50)
    said = [fold.step(KEY, state, Answered(name, label=0))[1][-1] for name in "abc"]
    return [one.id for one in said if one.kind is Kind.COUNTED]


@pytest.mark.parametrize(
    ("now", "still", "due"),
    [(49, "abc", 50), (50, "bc", 60), (59, "bc", 60), (60, "c", 70), (69, "c", 70), (70, "", None)],
)
def test_a_round_expires_when_its_lifetime_is_over_and_the_others_stay(
    now: int, still: str, due: int | None
) -> None:
    fold = make_fold(alpha=0.1, lifetime=50)
    asks: list[Event] = [Asked(name, [0.75, 0.25], 10 * n) for n, name in enumerate("abc")]
    state, said = fold.run(KEY, b"", [*asks, Elapsed(now)])
    assert [one.id for one in said if one.kind is Kind.EXPIRED] == list("abc"[: 3 - len(still)])
    assert "".join(read_open(state)) == still
    assert make_fold(alpha=0.1, lifetime=50).next_due(state) == due
    tally = fold.read(state).tally
    assert (tally.expired, tally.predicted) == (3 - len(still), 3)


@pytest.mark.parametrize(("answered", "due"), [("a", 60), ("b", 50), ("c", 50)])
def test_an_answer_closes_its_own_round_and_no_other(answered: str, due: int) -> None:
    asks: list[Event] = [Asked(name, [0.95, 0.05], 10 * n) for n, name in enumerate("abc")]
    state, _ = make_fold(alpha=0.1, lifetime=50).run(KEY, b"", asks)
    other = make_fold(alpha=0.1, lifetime=50)  # one that has to read the bytes
    state, said = other.step(KEY, state, Answered(answered, label=1))
    assert (said[0].kind, said[0].number, said[0].miss) == (Kind.COUNTED, "abc".index(answered), 1.0)
    assert read_open(state) == [name for name in "abc" if name != answered]
    assert make_fold(alpha=0.1, lifetime=50).next_due(state) == due


def test_a_round_is_found_whose_id_is_part_of_anothers() -> None:
    asks: list[Event] = [Asked(name, [0.75, 0.25]) for name in ("11", "1", "2")]
    state, _ = make_fold(alpha=0.1).run(KEY, b"", asks)
    fold = make_fold(alpha=0.1)
    assert fold.step(KEY, state, Asked("1", [0.5]))[1][0].number == 1
    assert fold.step(KEY, state, Answered("12", label=0))[1][0].kind is Kind.REFUSED


@pytest.mark.parametrize(
    "output", [{"cat": 0.75, "dog": 0.25}, {("a", 1): 0.75, 7: 0.25}, [0.75, 0.25], [0.75] * 100]
)
@pytest.mark.parametrize("name", ["logit-tracker", "ocp-unlock+"])  # the second remembers its weights
def test_an_open_round_is_shown_again_as_it_was_from_its_bytes(name: str, output: Any) -> None:
    fold, other = (make_fold(name, alpha=0.1, seed=3) for _ in range(2))
    first: list[Event] = [Asked("a", output), Asked("b", output)]
    state, said = fold.run(KEY, b"", first)
    again = [other.step(KEY, state, one)[1][0] for one in first]
    assert [one.region for one in again] == [one.region for one in said]
    assert [one.kind for one in again] == [Kind.REPEATED] * 2
    label = next(iter(output)) if isinstance(output, dict) else 0
    answers: list[Event] = [Answered("b", label=label), Answered("a", label=label)]
    assert other.run(KEY, state, answers) == fold.run(KEY, state, answers)


@pytest.mark.parametrize("time", [2**47 - 1, -(2**47 - 1)])
def test_the_first_and_the_last_time_are_kept(time: int) -> None:
    fold = make_fold(alpha=0.1, lifetime=2**47 - 1)
    state, _ = fold.step(KEY, b"", Elapsed(time))
    assert state[4:10] == time.to_bytes(6, "little", signed=True)
    assert unpack(state, fold.setup.learner).clock == time
    beyond, (said,) = fold.step(KEY, state, Elapsed(time + (1 if time > 0 else -1)))
    assert (beyond, said.kind) == (state, Kind.REFUSED)


def test_bytes_of_another_version_or_cut_short_are_refused(learner: Learner) -> None:
    content = pack(stand(learner, 3, 1.0, 4.0), learner)
    with pytest.raises(SnapshotError, match="version 2, this Keyhole reads up to 1; upgrade"):
        unpack(content[:1] + b"\x20" + content[2:], learner)
    with pytest.raises(SnapshotError, match="no format version 0"):
        unpack(content[:1] + b"\x00" + content[2:], learner)
    for end in (0, 2, 8, len(content) - 1, len(content) - len(STATE)):
        with pytest.raises(SnapshotError, match=f"^{end} bytes are no key's state"):
            unpack(content[:end], learner)


def test_a_state_of_another_rule_is_refused_though_it_has_as_many_bytes() -> None:
    """Kills: a state of a tracker taken for one of kt, whose numbers mean something else."""
    state, _ = make_fold("tracker", alpha=0.1).step(KEY, b"", Elapsed(5))
    with pytest.raises(SnapshotError, match="of another learner than kt; go on with that one"):
        make_fold("kt", alpha=0.1).step(KEY, state, Elapsed(6))


def test_open_rounds_that_are_cut_or_followed_by_more_are_refused() -> None:
    fold = make_fold(alpha=0.1)
    state = b""
    for place in range(2):
        state, _ = fold.step(KEY, state, Asked(f"round {place}", [0.7, 0.3]))
    for content in (state[:-1], state + b"\0", state[: -len(state) // 3]):
        with pytest.raises(SnapshotError, match=f"^{len(content)} bytes are no key's state"):
            unpack(content, fold.setup.learner)


@pytest.mark.parametrize("arm", [-1.0, 0.5, 9.0, 1e12])
def test_an_open_round_that_remembers_an_arm_beyond_the_table_is_refused(arm: float) -> None:
    """Kills: one key's damaged state that ends the process of them all."""
    given: Any = {"alpha": 0.1, "arms": 9, "feedback": "full"}
    state, _ = make_fold("ocp-unlock", **given).step(KEY, b"", Asked("a", [0.7, 0.3]))
    learner = make_fold("ocp-unlock", **given).setup.learner
    waiting = unpack(state, learner).waiting
    memo = state.index(read_round(waiting["a"], memory=learner.memory).memo)
    spoilt = state[:memo] + struct.pack("<d", arm) + state[memo + 8 :]
    with pytest.raises(SnapshotError, match="memo of a round of ocp-unlock holds"):
        make_fold("ocp-unlock", **given).step(KEY, spoilt, Answered("a", label=0))


def test_a_key_whose_learner_stands_beyond_the_table_is_refused() -> None:
    fold = make_fold("sps", alpha=0.1, arms=9)
    state, _ = fold.step(KEY, b"", Elapsed(0))
    assert state.endswith(bytes(24))  # the clock, whose last number is the arm
    with pytest.raises(SnapshotError, match="clock of the state of sps holds 9, not a whole"):
        fold.step(KEY, state[:-8] + struct.pack("<q", 9), Asked("a", [0.7, 0.3]))

"""A state as bytes and back, for every learner."""

import copy
import math
import pickle
import struct
from typing import Any

import numpy as np
import pytest

from keyhole import LEARNERS, MISS, make
from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners import Learner, make_suited

NAMES = [*sorted(LEARNERS), "logit-tracker+valve", "unlock-hedge+valve"]
SCORES = np.random.default_rng(6).beta(6, 2, 400)
DRAWS = np.random.default_rng(7).random(400)


def play(learner: Learner, state: Any, rounds: slice) -> list[float]:
    played = []
    for score, draw in zip(SCORES[rounds].tolist(), DRAWS[rounds].tolist(), strict=True):
        threshold, memo = learner.choose(state, draw)
        missed = score < threshold
        told = Answer(float(missed), score)
        learner.observe(state, memo, MISS if missed and learner.needs != Needs.LABEL_ALWAYS else told)
        played.append(threshold)
    return played


def kinds(part: Any) -> list[type]:
    return [type(value) for value in part] if isinstance(part, list) else [part.dtype.type]


@pytest.fixture(params=NAMES)
def learner(request: pytest.FixtureRequest) -> Learner:
    return make_suited(request.param, alpha=0.1, horizon=1_000, arms=9)


def test_state_comes_back_and_goes_on_bit_for_bit(learner: Learner) -> None:
    state = learner.start()
    play(learner, state, slice(0, 200))
    packed = learner.pack(state)
    back = learner.unpack(packed)
    assert type(back) is type(state)
    assert [kinds(part) for part in back] == [kinds(part) for part in state]
    assert learner.pack(back) == packed
    assert play(learner, back, slice(200, 400)) == play(learner, state, slice(200, 400))
    assert learner.pack(back) == learner.pack(state)


def test_state_that_came_back_is_nobody_elses(learner: Learner) -> None:
    packed = learner.pack(learner.start())
    back = learner.unpack(packed)
    play(learner, back, slice(0, 50))
    assert learner.pack(learner.start()) == packed
    assert learner.pack(learner.unpack(packed)) == packed


def test_memo_comes_back_and_teaches_the_same(learner: Learner) -> None:
    state = learner.start()
    play(learner, state, slice(0, 200))
    threshold, memo = learner.choose(state, 0.6)
    back = learner.unpack_memo(learner.pack_memo(memo))
    assert type(back) is type(memo)
    other = learner.unpack(learner.pack(state))
    told = Answer(float(threshold > 1.0), 1.0)
    learner.observe(state, memo, told)
    learner.observe(other, back, told)
    assert learner.pack(other) == learner.pack(state)


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda _: b""])
def test_bytes_of_another_size_are_refused(learner: Learner, change: Any) -> None:
    packed = change(learner.pack(learner.start()))
    whole = len(learner.pack(learner.start()))
    with pytest.raises(InvalidError, match=rf"{len(packed)} bytes are not a state.*has {whole}"):
        learner.unpack(packed)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "sps"])  # SPS only counts.
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_refused(name: str, value: float) -> None:
    learner = make_suited(name, alpha=0.1, horizon=1_000, arms=9)
    parts = [np.array(part) for part in learner.start_arrays()]
    place = next(n for n, part in enumerate(parts) if part.dtype.kind == "f")
    before = sum(part.nbytes for part in parts[:place])
    packed = bytearray(learner.pack(learner.start()))
    struct.pack_into("<d", packed, before + parts[place].nbytes - 8, value)
    with pytest.raises(InvalidError, match=f"state of {learner.name.replace('+', '.')} holds numbers"):
        learner.unpack(bytes(packed))


@pytest.mark.parametrize("name", NAMES)
def test_a_learner_that_travels_arrives_as_the_one_there_is(name: str) -> None:
    """So that a thousand predictors that were pickled share what is prepared and compiled."""
    learner = make(name, alpha=0.1)
    assert pickle.loads(pickle.dumps(learner)) is learner  # noqa: S301
    assert copy.deepcopy(learner) is learner


def test_truths_that_are_neither_0_nor_1_are_refused() -> None:
    learner = make("tracker-decaying", alpha=0.1)
    content = learner.pack(learner.start())
    assert content[-1] in (0, 1)  # the last of the truths that it keeps
    with pytest.raises(InvalidError, match="neither 0 nor 1"):
        learner.unpack(content[:-1] + b"\2")


@pytest.mark.parametrize("name", ["logit-tracker", "ocp-unlock"])
def test_what_is_no_bytes_is_no_state(name: str) -> None:
    learner = make(name, alpha=0.1)
    with pytest.raises(InvalidError, match="is bytes, not str"):
        learner.unpack("0" * learner.layout.sizes[0])  # type: ignore[arg-type]


def test_memo_of_another_size_or_of_no_numbers_is_refused() -> None:
    learner = make("unlock-hedge", alpha=0.1, arms=9)
    _, memo = learner.choose(learner.start(), 0.5)
    packed = learner.pack_memo(memo)
    for wrong in (packed[:-8], packed + bytes(8), packed[:-8] + struct.pack("<d", math.nan)):
        with pytest.raises(InvalidError, match=f"are not what a round .* takes {len(packed)}"):
            learner.unpack_memo(wrong)


def test_memo_of_half_a_number_is_refused() -> None:
    learner = make("unlock-hedge", alpha=0.1, arms=9)
    with pytest.raises(InvalidError, match="12 bytes are not what a round"):
        learner.unpack_memo(bytes(12))


# At alpha .1, a horizon of 1,000 and 9 arms: the bytes of a state, and the numbers a round remembers.
SIZES = {
    "aci": (8032, 1), "agaci": (280, 2), "contextual-tracker": (816, 5), "dtaci": (8136, 0),
    "exp3-ix": (88, 11), "informed-tracker": (760, 1), "kt": (24, 0), "logit-tracker": (40, 0),
    "mvp": (960, 1),
    "ocp-bandit": (88, 11), "ocp-unlock": (88, 11), "ocp-unlock+": (88, 11), "pi": (24, 0),
    "saocp": (14352, 0), "self-scaled": (448, 2), "sf-ogd": (16, 0), "sps": (96, 0),
    "tracker": (32, 0), "tracker-decaying": (232, 0), "unlock-hedge": (80, 10),
    "logit-tracker+valve": (56, 2), "unlock-hedge+valve": (96, 12),
}  # fmt: skip


def test_a_state_that_a_stream_keeps_has_the_size_it_had(learner: Learner) -> None:
    """Kills: an array longer than what is used of it; streams in a database could not be read."""
    assert (len(learner.pack(learner.start())), learner.memory) == SIZES[learner.name]


def test_chances_before_the_first_round_are_one_for_each_threshold_and_add_up(learner: Learner) -> None:
    thresholds, chances = learner.distribution(learner.start())
    assert thresholds.shape == chances.shape
    assert chances.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gate-tracker", (640, 4)),
        ("gate-split", (8016, 2)),
        ("gate-fixed", (8, 2)),
        ("exaul", (408, 53)),
    ],
)
def test_so_has_the_state_of_a_gate(name: str, sizes: tuple[int, int]) -> None:
    learner = make(name, alpha=0.1)
    assert (len(learner.pack(learner.start())), learner.memory) == sizes


def test_counts_take_half_the_room_while_they_fit_and_come_back_either_way() -> None:
    learner = make("logit-tracker", alpha=0.1)
    state = learner.start()
    for rounds, packed in (
        (2**32 - 1, struct.pack("<ddIId", -1.25, 0.5, 2**32 - 1, 2, 1.0)),
        (2**32, struct.pack("<ddqqd", -1.25, 0.5, 2**32, 2, 1.0)),
    ):
        state.position[0], state.excess[0], state.rounds[0], state.lateness[0] = -1.25, 0.5, rounds, 2
        assert learner.layout.pack_narrow(state) == packed
        assert learner.unpack(packed) == state
    heavy = make("kt+valve", alpha=0.1)  # arrays have no narrow form
    assert heavy.layout.pack_narrow(heavy.start()) == heavy.pack(heavy.start())


def test_a_logit_tracker_is_40_bytes_whatever_machine_wrote_them() -> None:
    learner = make("logit-tracker", alpha=0.1)
    state = learner.start()
    state.position[0], state.excess[0], state.rounds[0], state.lateness[0] = -1.25, 0.5, 3, 2
    assert learner.pack(state) == struct.pack("<ddqqd", -1.25, 0.5, 3, 2, 1.0)
    assert len(learner.pack(state)) == 40

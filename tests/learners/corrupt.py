"""Plays on with stored numbers of a learner's state and memos spoilt, one after another: a script.

``python -m tests.learners.corrupt NAME...`` says where one is neither refused nor harmless. It is a
process of its own, because what it looks for ends the process.
"""

import faulthandler
import math
import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from keyhole import make
from keyhole.errors import InvalidError
from keyhole.feedback import Answer, Needs
from keyhole.learners import Learner, find, takes
from keyhole.learners.gates import ACCEPTED, CHANCE

BAD = (-1, 0.5, 10**9, 10**12, -(10**12), 2**62, 1e300)
SIZES = {"arms": 9, "features": 2, "groups": 2, "window": 30, "kept": 20, "calibration": 20}
ROUNDS, MORE = 40, 20
SECONDS = 120  # after which a process that loops for ever says where, and ends
SCORES = np.random.default_rng(3).beta(6, 2, ROUNDS + MORE).tolist()
DRAWS = np.random.default_rng(4).random(ROUNDS + MORE).tolist()


def make_small(name: str) -> Learner:
    """Return a learner by name with few arms, features and groups, which are quickly gone through."""
    known = takes(find(name))
    given: dict[str, Any] = {key: SIZES[key] for key in SIZES.keys() & known.keys()}
    return make(name, alpha=0.1, arms=given.pop("arms", None), options=given)


def play_round(learner: Learner, state: Any, number: int) -> Any:
    """Return the threshold of a round, its memo and the answer that it would get."""
    score = SCORES[number]
    known = [score - 0.1, math.nan][: learner.features] + [1.0, number % 2][: learner.groups]
    context = np.array(known, dtype=np.float64)
    threshold, memo = learner.choose(state, DRAWS[number], context)
    miss = float(score < threshold)
    shown = learner.needs == Needs.LABEL_ALWAYS or (learner.needs == Needs.LABEL_IF_HIT and not miss)
    if learner.rule.kind.name != "gate":
        return threshold, memo, Answer(miss, score if shown else math.nan, 3.0, 5.0, 1.0)
    memo[ACCEPTED], memo[CHANCE] = 1.0 - miss, 1.0
    learner.observe(state, memo, Answer(math.nan, score))
    return threshold, memo, Answer(float(number % 4 == 0), score)


def play(learner: Learner, state: Any, numbers: range, *, late: int = 0) -> list[Any]:
    """Play these rounds, every fifth of which is left open if told so; return those."""
    waiting = []
    for number in numbers:
        threshold, memo, answer = play_round(learner, state, number)
        if not isinstance(threshold, float) or math.isnan(threshold):
            raise ValueError(f"round {number} played {threshold!r}")
        if late and number % late == 0:
            waiting.append((learner.pack_memo(memo), answer))
        else:
            learner.observe(state, memo, answer)
    return waiting


def list_places(learner: Learner) -> list[tuple[int, str]]:
    """Return where in a packed state some numbers of each part are, and how each is written."""
    places, before = [], 0
    for part in learner.start_arrays():
        code = {"f": "<d", "i": "<q"}.get(part.dtype.kind)
        if code is not None:
            places.extend([(before + 8 * place, code) for place in sample(part.size)])
        before += part.nbytes
    return places


def sample(count: int) -> list[int]:
    """Return some places of so many: the first six, one in the middle, the last two."""
    return sorted({*range(min(6, count)), count // 2, count - 2, count - 1} & {*range(count)})


def spoil(content: bytes, place: int, code: str) -> Iterator[bytes]:
    """Yield the content with one number changed to each bad one that can be written there."""
    for value in BAD:
        if code == "<d" or (isinstance(value, int) and abs(value) < 2**63):
            spoilt = bytearray(content)
            struct.pack_into(code, spoilt, place, value)
            yield bytes(spoilt)


def spoil_all(learner: Learner) -> Iterator[tuple[str, bytes, list[Any]]]:
    """Yield states with open rounds in which one number is bad, and say which."""
    state = learner.start()
    waiting = play(learner, state, range(ROUNDS), late=5)
    packed = learner.pack(state)
    for place, code in list_places(learner):
        for spoilt in spoil(packed, place, code):
            yield f"state {place}", spoilt, waiting
    for place in sample(learner.memory):
        for memo in spoil(waiting[-1][0], 8 * place, "<d"):
            yield f"memo {place}", packed, [*waiting[:-1], (memo, waiting[-1][1])]


def go_on(learner: Learner, packed: bytes, waiting: list[Any]) -> bool:
    """Answer the open rounds and play some more; return whether that was refused from the start."""
    try:
        state = learner.unpack(packed)
        recalled = [(learner.unpack_memo(memo), answer) for memo, answer in waiting]
    except InvalidError:
        return True
    for memo, answer in recalled:
        if learner.rule.kind.name == "gate":
            memo[CHANCE] = 1.0  # as who judges it does
        learner.observe(state, memo, answer)
    play(learner, state, range(ROUNDS, ROUNDS + MORE))
    return False


def main(names: list[str]) -> int:
    """Return how many spoilt numbers did harm; each is told, and how many of a learner were refused."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    harm = 0
    for name in names:
        learner, refused, tried = make_small(name), 0, 0
        for where, packed, waiting in spoil_all(learner):
            try:
                refused += go_on(learner, packed, waiting)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is harm.
                harm += 1
                sys.stdout.write(f"{name}, {where}: {error!r}\n")
            tried += 1
        sys.stdout.write(f"{name}: {refused} of {tried} refused\n")
    return harm


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 100))

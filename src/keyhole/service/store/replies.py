"""What a reply says of the round that it answers.

In the log a reply is JSON: ``"hit"``, ``"miss"``, ``"skip"``, or an object that holds ``label``,
``score``, ``loss``, ``hit`` or ``miss``, and beside it ``chance`` or ``wrong`` where they were given.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from keyhole.errors import FeedbackError
from keyhole.feedback import HIT, MISS
from keyhole.predictor import decisions
from keyhole.predictor.rounds import MISSING, Round, count_answer, read_answer, settle
from keyhole.scores import Region
from keyhole.service.store.opening import is_gate
from keyhole.service.store.stream import Stream

SKIP = "skip"
_WORDS: Mapping[str, Mapping[str, Any]] = {"hit": {"hit": True}, "miss": {"miss": True}}
_PLAIN = {"hit": HIT, "miss": MISS}
_ONE_OF = ("label", "hit", "miss", "score", "loss")
_BESIDE = ("chance", "wrong")


class Settled(NamedTuple):
    """What a reply came to, as the log keeps it; ``miss`` is None where the round was skipped.

    ``weight`` is how many rounds it counts for.
    """

    miss: float | None
    weight: float
    score: float | None
    size: float

    @property
    def missed(self) -> bool | None:
        """Whether it was a miss, graded ones rounded."""
        return is_miss(self.miss)


def is_miss(miss: float | None) -> bool | None:
    """Return whether a loss is nearer to a miss than to a hit; None if there was no answer."""
    return None if miss is None else miss >= 0.5


def settle_reply(here: Stream, waiting: Round[Region], reply: Any) -> Settled:
    """Teach the stream's state what a reply tells, or raise."""
    size = waiting.prediction.size
    if reply == SKIP:
        here.tally.skipped += 1
        return Settled(None, 0.0, None, size)
    if is_gate(here.setup):
        return _settle_judgement(here, waiting, reply)
    told = _read(reply)
    learner, number = here.setup.learner, waiting.prediction.id
    plain = next((answer for name, answer in _PLAIN.items() if name in told), None)
    outcome = read_answer(
        learner,
        waiting,
        plain,
        label=told.get("label", MISSING),
        score=told.get("score"),
        loss=told.get("loss"),
        wrong=told.get("wrong", 0.0),
    )
    chance = told.get("chance", 1.0)
    times = 1 if chance == 1.0 else count_answer(chance, seed=here.setup.seed, number=number)
    settle(learner, here.progress, waiting, outcome, times=times)
    score = None if math.isnan(outcome.score) else outcome.score
    settled = Settled(outcome.miss, float(times), score, size)
    here.note(missed=settled.missed is True)
    return settled


def _settle_judgement(here: Stream, waiting: Round[Any], reply: Any) -> Settled:
    """Teach a gate's state what a judgement tells, or raise."""
    if not isinstance(reply, Mapping) or "right" not in reply or not set(reply) <= {"right", *_BESIDE}:
        raise FeedbackError(f"{reply!r} is not a judgement; give right, true or false, or skip")
    judged = decisions.judge(
        here.setup,
        here.progress,
        waiting,
        right=reply["right"],
        chance=reply.get("chance"),
        wrong=reply.get("wrong", 0.0),
    )
    decision = waiting.prediction
    settled = Settled(judged.miss, judged.weight, decision.score, decision.size)
    if decision.accepted:
        here.note(missed=settled.missed is True)
    return settled


def _read(reply: Any) -> Mapping[str, Any]:
    """Return the parts of a reply, or raise unless there is one answer among them."""
    told = _WORDS.get(reply, {}) if isinstance(reply, str) else reply
    is_one = isinstance(told, Mapping) and sum(name in told for name in _ONE_OF) == 1
    if not is_one or not set(told) <= {*_ONE_OF, *_BESIDE}:
        raise FeedbackError(
            f"{reply!r} is not an answer; give label, hit, miss, score, loss or skip, one of them"
        )
    return told

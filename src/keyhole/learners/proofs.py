"""What a rule's own theorem says of its excess of misses, with answers at once or late."""

import math
from typing import Any

from keyhole.checks import is_whole
from keyhole.errors import InvalidError, TheoremError
from keyhole.learners.lateness import Lateness
from keyhole.learners.rule import Excess, Learner, check_learner
from keyhole.learners.theorems import FARTHEST


def check_rounds(rounds: Any) -> None:
    """Raise unless this is a number of rounds, at least one."""
    if isinstance(rounds, int) and rounds >= 2**63:
        raise InvalidError(f"{rounds:,} rounds are too many to count; give at most 2**63 - 1")
    if not is_whole(rounds, least=1):
        raise InvalidError(f"{rounds!r} is not a number of rounds; give a whole number from 1")


def find_lasting_excess(learner: Learner, lateness: Lateness) -> Excess:
    """Return the bound that holds after any number of rounds, or raise if it grows without end."""
    far, farther = (find_excess(learner, rounds, lateness) for rounds in (FARTHEST // 10, FARTHEST))
    if far != farther:
        raise InvalidError(f"the bound of {learner.name} grows with the rounds; say after how many")
    return farther


def find_excess(learner: Learner, rounds: int, lateness: Lateness) -> Excess:
    """Return what the rule's own theorem says, of prompt answers or of late ones."""
    rule, parameters = check_learner(learner).rule, learner.parameters
    check_rounds(rounds)
    if rule.excess is None and rule.kind == "gate":
        raise TheoremError(
            f"no theorem bounds the wrong answers of {learner.name} on every sequence; "
            f"gate-tracker's are bounded"
        )
    if rule.excess is None:
        raise TheoremError(
            f"no theorem bounds the misses of {learner.name} on every sequence; "
            f"put it behind a valve: keyhole.learners.safety_valve"
        )
    if lateness.is_prompt:
        return rule.excess(parameters, rounds)
    late = rule.late_excess
    if late is None:
        raise TheoremError(
            f"no theorem bounds the misses of {learner.name} when {lateness.open} rounds may be open "
            f"at once, only when every answer comes before the next prediction (open=1)"
        )
    return late(parameters, rounds, lateness)


def clip_excess(proven: Excess, alpha: float, rounds: int | None, *, floor: bool, cap: bool) -> Excess:
    """Return the bounds within what so many rounds can come to at all.

    Where sets have a floor or a cap nothing else is left of the lower or the upper one.
    """
    answers = math.inf if rounds is None else rounds
    fewest, most = -alpha * answers, (1.0 - alpha) * answers
    return Excess(
        least=fewest if floor else max(proven.least, fewest),
        most=most if cap else min(proven.most, most),
    )

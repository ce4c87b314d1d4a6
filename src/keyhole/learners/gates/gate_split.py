"""A threshold calibrated once, on the first judged answers, and fixed from then on."""

from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners.gates import ACCEPTED, FOR_GATES, OWN
from keyhole.learners.parameters import parameters, target, whole
from keyhole.learners.rule import EVERY, NONE, About, Ask, Rule
from keyhole.numeric import Array, Counts, kernel


@parameters
class GateSplitParameters:
    alpha: float = target("Target share of wrong answers among the accepted, between 0 and 1/2.")
    calibration: int = whole(
        "How many judged answers it is calibrated on; until then it accepts all.",
        default=500,
        least=20,
        most=10**6,
    )


class GateSplitState(NamedTuple):
    """The gathered answers, sorted from the highest score, and the threshold made of them."""

    scores: Array
    wrong: Array
    gathered: Counts
    threshold: Array


def start(settings: GateSplitParameters) -> GateSplitState:
    empty = np.zeros(settings.calibration)
    return GateSplitState(empty, empty.copy(), np.zeros(1, dtype=np.int64), np.full(1, EVERY))


@kernel
def choose(settings: GateSplitParameters, state: GateSplitState, memo: Array, ask: Ask) -> float:
    """Return the threshold: 0 while answers are gathered."""
    return state.threshold[0]


@kernel
def observe(settings: GateSplitParameters, state: GateSplitState, memo: Array, answer: Answer) -> None:
    """Gather a judged answer; after the last, fix the threshold."""
    count = state.gathered[0]
    # A NaN for a miss is a decision, not yet judged.
    if answer.miss != answer.miss or memo[ACCEPTED] == 0.0 or count == state.scores.size:
        return
    place = count  # Scores are kept sorted, the highest first.
    while place > 0 and state.scores[place - 1] < answer.score:
        state.scores[place] = state.scores[place - 1]
        state.wrong[place] = state.wrong[place - 1]
        place -= 1
    state.scores[place] = answer.score
    state.wrong[place] = answer.miss
    state.gathered[0] += 1
    if state.gathered[0] == state.scores.size:
        state.threshold[0] = calibrate(settings.alpha, state.scores, state.wrong)


@kernel
def calibrate(alpha: float, scores: Array, wrong: Array) -> float:
    """Return the lowest score down to which (wrong + 1) / (accepted + 1) is at most alpha."""
    threshold = NONE
    total = 1.0  # the one to come, as if it were wrong
    for k in range(scores.size):
        total += wrong[k]
        ends = k + 1 == scores.size or scores[k + 1] < scores[k]
        if ends and total <= alpha * (k + 2.0):
            threshold = scores[k]
    return threshold


gate_split = Rule(
    name="gate-split",
    needs=Needs.HIT_OR_MISS,
    parameters=GateSplitParameters,
    choose=choose,
    observe=observe,
    state=start,
    memory=OWN,
    limits=lambda settings: {"gathered": settings.calibration},
    graded=True,
    kind=FOR_GATES,
    about=About(
        summary="a threshold calibrated on the first judged answers, then fixed",
        guarantee="about alpha if later cases are like those it was calibrated on; nothing otherwise",
        source="split conformal prediction, for the share of wrong answers among the accepted",
    ),
)

"""A fixed threshold, as it is set by hand: what a gate is compared with."""

from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners.gates import FOR_GATES, OWN
from keyhole.learners.parameters import number, parameters, target
from keyhole.learners.rule import About, Ask, Rule
from keyhole.numeric import Array, Counts, kernel


@parameters
class GateFixedParameters:
    alpha: float = target("Target share of wrong answers among the accepted; not seen to.")
    threshold: float = number("Scores from this on are accepted.", default=0.9, least=0.0, most=1.0)


class GateFixedState(NamedTuple):
    """How many rounds were decided."""

    rounds: Counts = np.zeros(1, dtype=np.int64)


@kernel
def choose(settings: GateFixedParameters, state: GateFixedState, memo: Array, ask: Ask) -> float:
    return settings.threshold


@kernel
def observe(settings: GateFixedParameters, state: GateFixedState, memo: Array, answer: Answer) -> None:
    """Count the decisions, and learn nothing."""
    if answer.miss != answer.miss:  # NaN: a decision
        state.rounds[0] += 1


gate_fixed = Rule(
    name="gate-fixed",
    needs=Needs.HIT_OR_MISS,
    parameters=GateFixedParameters,
    choose=choose,
    observe=observe,
    state=GateFixedState,
    memory=OWN,
    graded=True,
    kind=FOR_GATES,
    about=About(
        summary="a threshold set by hand",
        guarantee="nothing",
        source="what most applications do",
    ),
)

"""Online conformal prediction when you only see part of the truth."""

from keyhole import bounds, errors, feedback, grid, metrics, scores
from keyhole.bandit import Exp3P
from keyhole.channel import Channel
from keyhole.client import Client
from keyhole.feedback import HIT, MISS, Hit, Missed, Needs, Regime, Revealed
from keyhole.learners import LEARNERS, Learner, Rule, make, safety_valve
from keyhole.learners.ocp_bandit import ocp_bandit
from keyhole.learners.ocp_unlock import ocp_unlock
from keyhole.learners.ocp_unlock_plus import ocp_unlock_plus
from keyhole.predictor import Predictor
from keyhole.scores import (
    BoundedResiduals,
    CustomIntervals,
    CustomScores,
    Interval,
    LabelSet,
    Probabilities,
    ScaledResiduals,
)
from keyhole.simulate import Simulation, simulate, simulate_against

__version__ = "0.1.0"

__all__ = [
    "HIT",
    "LEARNERS",
    "MISS",
    "BoundedResiduals",
    "Channel",
    "Client",
    "CustomIntervals",
    "CustomScores",
    "Exp3P",
    "Hit",
    "Interval",
    "LabelSet",
    "Learner",
    "Missed",
    "Needs",
    "Predictor",
    "Probabilities",
    "Regime",
    "Revealed",
    "Rule",
    "ScaledResiduals",
    "Simulation",
    "bounds",
    "errors",
    "feedback",
    "grid",
    "make",
    "metrics",
    "ocp_bandit",
    "ocp_unlock",
    "ocp_unlock_plus",
    "safety_valve",
    "scores",
    "simulate",
    "simulate_against",
]

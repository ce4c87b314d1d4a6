"""Online conformal prediction when you only see part of the truth."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from keyhole import errors
from keyhole.feedback import HIT, MISS, Answer
from keyhole.learners import GATES, LEARNERS, Learner, Rule, make, register, safety_valve
from keyhole.numeric import kernel
from keyhole.predictor.predictor import Predictor
from keyhole.scores import (
    BoundedResiduals,
    CustomIntervals,
    CustomScores,
    Interval,
    LabelSet,
    Probabilities,
    QuantileBands,
    ScaledResiduals,
)

if TYPE_CHECKING:
    from keyhole import feedback, grid, scores
    from keyhole.learners import bounds
    from keyhole.learners.ocp_bandit import ocp_bandit
    from keyhole.learners.ocp_unlock import ocp_unlock
    from keyhole.learners.ocp_unlock_plus import ocp_unlock_plus
    from keyhole.predictor.bandit import Exp3P
    from keyhole.predictor.fleet import Fleet
    from keyhole.predictor.gate import Gate
    from keyhole.service.client.async_client import AsyncClient
    from keyhole.service.client.client import Client
    from keyhole.simulation import metrics
    from keyhole.simulation.channel import Channel
    from keyhole.simulation.simulate import simulate, simulate_against
    from keyhole.simulation.simulation import Simulation

__version__ = "0.2.0"

# What a first round does without is imported when it is first asked for.
_LATER = {
    "AsyncClient": "service.client.async_client",
    "Channel": "simulation.channel",
    "Client": "service.client.client",
    "Exp3P": "predictor.bandit",
    "Fleet": "predictor.fleet",
    "Gate": "predictor.gate",
    "Simulation": "simulation.simulation",
    "bounds": "learners.bounds",
    "feedback": "feedback",
    "grid": "grid",
    "metrics": "simulation.metrics",
    "ocp_bandit": "learners.ocp_bandit",
    "ocp_unlock": "learners.ocp_unlock",
    "ocp_unlock_plus": "learners.ocp_unlock_plus",
    "scores": "scores",
    "simulate": "simulation.simulate",
    "simulate_against": "simulation.simulate",
}

__all__ = [
    "GATES",
    "HIT",
    "LEARNERS",
    "MISS",
    "Answer",
    "AsyncClient",
    "BoundedResiduals",
    "Channel",
    "Client",
    "CustomIntervals",
    "CustomScores",
    "Exp3P",
    "Fleet",
    "Gate",
    "Interval",
    "LabelSet",
    "Learner",
    "Predictor",
    "Probabilities",
    "QuantileBands",
    "Rule",
    "ScaledResiduals",
    "Simulation",
    "bounds",
    "errors",
    "feedback",
    "grid",
    "kernel",
    "make",
    "metrics",
    "ocp_bandit",
    "ocp_unlock",
    "ocp_unlock_plus",
    "register",
    "safety_valve",
    "scores",
    "simulate",
    "simulate_against",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'keyhole' has no attribute {name!r}")
    module = import_module(f"keyhole.{_LATER[name]}")
    value = getattr(module, name, module)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

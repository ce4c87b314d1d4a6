"""The rules that pick thresholds: one file each, and the table of them all."""

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from keyhole.errors import LearnerError
from keyhole.learners import strategy
from keyhole.learners._ocp import OcpParameters
from keyhole.learners._rule import Distribution, Excess, Learner, Rule
from keyhole.learners.aci import aci
from keyhole.learners.agaci import agaci
from keyhole.learners.dtaci import dtaci
from keyhole.learners.exp3_ix import exp3_ix
from keyhole.learners.kt import kt
from keyhole.learners.logit_tracker import logit_tracker
from keyhole.learners.loss import Loss
from keyhole.learners.mvp import mvp
from keyhole.learners.ocp_bandit import ocp_bandit
from keyhole.learners.ocp_unlock import ocp_unlock
from keyhole.learners.ocp_unlock_plus import ocp_unlock_plus
from keyhole.learners.pi import pi
from keyhole.learners.saocp import saocp
from keyhole.learners.self_scaled import self_scaled
from keyhole.learners.sf_ogd import sf_ogd
from keyhole.learners.sps import sps
from keyhole.learners.tracker import tracker
from keyhole.learners.tracker_decaying import tracker_decaying
from keyhole.learners.unlock_hedge import unlock_hedge
from keyhole.learners.valve import SUFFIX, safety_valve

__all__ = [
    "LEARNERS",
    "Distribution",
    "Excess",
    "Learner",
    "Loss",
    "OcpParameters",
    "Rule",
    "find",
    "make",
    "rebuild",
    "safety_valve",
    "strategy",
]

_RULES: tuple[Rule[...], ...] = (
    logit_tracker,
    tracker,
    tracker_decaying,
    sf_ogd,
    kt,
    pi,
    agaci,
    mvp,
    exp3_ix,
    ocp_bandit,
    self_scaled,
    unlock_hedge,
    aci,
    sps,
    ocp_unlock,
    ocp_unlock_plus,
    dtaci,
    saocp,
)
LEARNERS: dict[str, Rule[...]] = {rule.name: rule for rule in _RULES}


def find(name: str) -> Rule[...]:
    """Return the rule of that name, or raise with the nearest name."""
    if name in LEARNERS:
        return LEARNERS[name]
    near = difflib.get_close_matches(str(name), LEARNERS, n=1, cutoff=0.3)
    hint = f"did you mean {near[0]!r}?" if near else "see keyhole.LEARNERS"
    raise LearnerError(f"there is no learner {name!r}; {hint}")


def make(
    name: str,
    *,
    alpha: float,
    horizon: int | None = None,
    arms: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Learner:
    """Return a learner by name; of ``horizon`` and ``arms`` it takes what its rule has a use for.

    Parameters
    ----------
    name
        A key of ``keyhole.LEARNERS``; with "+valve" after it, behind a safety valve.
    alpha
        Target miss rate, between 0 and 1/2.
    horizon
        Number of rounds to come, or None if unknown.
    arms
        Number of thresholds; None for the rule's own default.
    options
        Further parameters of the rule, by name.

    Examples
    --------
    >>> make("ocp-unlock+", alpha=0.1, horizon=50_000, arms=200).needs.value
    'label if hit'
    """
    if name.endswith(SUFFIX):
        inner = name.removesuffix(SUFFIX)
        return safety_valve(make(inner, alpha=alpha, horizon=horizon, arms=arms, options=options))
    rule = find(name)
    taken = {field.name for field in fields(rule.parameters)}  # type: ignore[arg-type]
    unknown = sorted(set(options or {}) - taken | set(options or {}) & {"alpha", "horizon", "arms"})
    if unknown:
        raise LearnerError(
            f"{name} has no option {unknown[0]!r}; it takes "
            f"{', '.join(sorted(taken - {'alpha', 'horizon', 'arms'}))}"
        )
    common = {"horizon": horizon, "arms": arms}
    given = {key: value for key, value in common.items() if value is not None and key in taken}
    return rule(alpha=alpha, **given, **(options or {}))


def rebuild(name: str, parameters: Mapping[str, Any]) -> Learner:
    """Return the learner that has exactly these parameters."""
    if name.endswith(SUFFIX):
        inner = rebuild(name.removesuffix(SUFFIX), parameters["inner"])
        return safety_valve(inner, budget=parameters["budget"])
    return find(name)(**parameters)

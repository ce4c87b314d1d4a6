"""The theorems as calculators.

With L = l_max - l_min, R1 = sqrt(T K / ln K) ln(1/delta), R2 = sqrt(T K ln K), s = T^(-1/4), and with
probability at least 1 - delta, against any adversary:

- exp3.p, ocp-bandit: Reg <= L (R1 + 5.15 R2)
- ocp-unlock:         Reg <= L (R1 + 5.15 R2 + s T)
- ocp-unlock+:        Reg <= L (R1 + 4.15 R2 + sqrt(T C ln K) + 2 s T)

and for each of them MC - alpha <= Reg / T + C_mc. C_mc holds MC - alpha itself, so that this is known
only afterwards. What can be said beforehand comes from comparing with threshold 0, provided that it
never misses: with w = (1 - alpha)(1 - 2 alpha) and u = v / (1 - alpha), v being the scale of the loss,
a miss costs at least w more than threshold 0 and a hit at most u less, so that
MC <= (Reg / T + u) / (w + u).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from keyhole.checks import is_whole
from keyhole.errors import InvalidError, TheoremError
from keyhole.learners import Excess, Learner, Loss, OcpParameters, strategy
from keyhole.learners.strategy import Rates

_FARTHEST = 10**18


@dataclass(frozen=True)
class _Theorem:
    """The constants that tell the regret bounds apart."""

    exploring: float  # the factor of R2
    slack: float  # the factor of s T
    complexity: bool  # whether sqrt(T C ln K) is there


_THEOREMS = {
    "ocp-bandit": _Theorem(exploring=5.15, slack=0.0, complexity=False),
    "ocp-unlock": _Theorem(exploring=5.15, slack=1.0, complexity=False),
    "ocp-unlock+": _Theorem(exploring=4.15, slack=2.0, complexity=True),
}


def exp3p_regret(*, arms: int, horizon: int, delta: float = 0.05, span: float = 1.0) -> float:
    """Return the regret bound of EXP3.P on gains that span ``span``.

    Examples
    --------
    >>> round(exp3p_regret(arms=20, horizon=50_000))
    10645
    """
    if not (is_whole(arms, least=2) and is_whole(horizon, least=1)):
        raise InvalidError(f"{arms!r} arms, {horizon!r} rounds: give at least 2 and 1, whole numbers")
    return span * _normalised(_THEOREMS["ocp-bandit"], arms, horizon, delta, arms)


def regret(learner: Learner, *, rounds: int | None = None, complexity: float | None = None) -> float:
    """Return the bound on the regret at the horizon; without one, after so many rounds.

    Without a horizon the bounds of the epochs add up, each holding with delta / ((e + 1) (e + 2)),
    so that together they hold with delta; an epoch under way counts as if it were over.

    Parameters
    ----------
    learner
        One of the OCP family, with the tuned rates.
    rounds
        How many rounds; only for a learner without a horizon.
    complexity
        The constant C of OCP-Unlock+, once it is known from a run (``simulate.complexity``); by
        default its largest value, K.

    Raises
    ------
    TheoremError
        If no theorem speaks of the learner, its rates, or so many rounds.
    """
    theorem, parameters, arms = _theorem(learner)
    _check_applies(learner, parameters, rounds)
    constant = float(arms) if complexity is None else min(complexity, arms)

    def bound(length: int, delta: float) -> float:
        return parameters.loss(length).span * _normalised(theorem, arms, length, delta, constant)

    if learner.horizon is not None:
        return bound(learner.horizon, parameters.delta)
    if rounds is None:
        raise InvalidError("the learner has no horizon; say after how many rounds")
    total, done = 0.0, 0
    for epoch, length in enumerate(learner.settings.lengths.tolist()):
        total += bound(length, parameters.delta / ((epoch + 1) * (epoch + 2)))
        done += length
        if done >= rounds:
            return total
    raise TheoremError(f"the epochs end after {done} rounds; {rounds} are beyond the theorem")


def _check_applies(learner: Learner, parameters: OcpParameters, rounds: int | None) -> None:
    """Raise where the theorem is silent."""
    if learner.horizon is not None and rounds is not None and rounds != learner.horizon:
        raise TheoremError(
            f"the theorem speaks of the horizon of {learner.horizon} rounds, not of {rounds}"
        )
    if parameters.tuning != strategy.Tuning():
        raise TheoremError("the theorem speaks of the tuned rates; leave bonus, exploration, rate out")
    asked = conditions_of(learner)
    if not asked.hold:
        raise TheoremError(f"the theorem's conditions do not hold: {asked}; more rounds, or 5 arms")


def excess(learner: Learner, *, rounds: int) -> Excess:
    """Return between what the excess of misses over alpha a round lies, on any stream.

    That is sum(miss - alpha) after so many rounds; divided by their number, it bounds the miss rate.
    Every answer must come at once, and threshold 0 must never miss.

    Parameters
    ----------
    learner
        One whose misses a theorem bounds for certain; else ``TheoremError`` is raised.
    rounds
        After how many rounds.

    Examples
    --------
    >>> from keyhole import make
    >>> [round(bound) for bound in excess(make("logit-tracker", alpha=0.1), rounds=50_000)]
    [-179, 148]
    """
    if learner.rule.excess is None:
        raise TheoremError(
            f"no theorem bounds the misses of {learner.name} on every stream; "
            f"put it behind a valve: keyhole.safety_valve"
        )
    proven = learner.rule.excess(learner.parameters, rounds)
    fewest, most = -learner.alpha * rounds, (1.0 - learner.alpha) * rounds
    return Excess(least=max(proven.least, fewest), most=min(proven.most, most))


def unlock_hedge_regret(*, arms: int, horizon: int) -> float:
    """Return the bound on the expected pinball regret of unlock-hedge: 2 sqrt(T ln K).

    It holds with the fixed rate sqrt(ln K / T) and no discount.

    Examples
    --------
    >>> round(unlock_hedge_regret(arms=101, horizon=20_000))
    608
    """
    return 2.0 * math.sqrt(horizon * math.log(arms))


def loss_of(learner: Learner) -> Loss:
    """Return the loss that the theorem of a learner with a horizon speaks of."""
    _, parameters, _ = _theorem(learner)
    if learner.horizon is None:
        raise InvalidError("without a horizon every epoch has a loss of its own; give a horizon")
    return parameters.loss(learner.horizon)


def miss_rate(learner: Learner) -> float:
    """Return what the theorem says beforehand of the miss rate at the horizon.

    It holds where threshold 0 cannot miss: the true label is always a candidate, and the true value
    within the residual bound.
    """
    loss = loss_of(learner)
    return _miss_rate(loss, regret(learner) / loss.horizon)


def coverage(learner: Learner, *, slack: float) -> float:
    """Return the paper's bound on MC - alpha, given the run's ``metrics.coverage_slack``."""
    return regret(learner) / loss_of(learner).horizon + slack


@dataclass(frozen=True)
class Conditions:
    """What the theorems ask of arms and rates."""

    enough_arms: bool  # K >= 5
    moderate_exploration: bool  # gamma <= 1/2
    slow_enough: bool  # (1 + 2 beta) K eta <= gamma

    @property
    def hold(self) -> bool:
        """Whether all of them hold."""
        return self.enough_arms and self.moderate_exploration and self.slow_enough


def conditions(rates: Rates, *, arms: int) -> Conditions:
    """Return which conditions of the theorems hold."""
    return Conditions(
        enough_arms=arms >= 5,
        moderate_exploration=rates.exploration <= 0.5,
        slow_enough=(1.0 + 2.0 * rates.bonus) * arms * rates.rate <= rates.exploration,
    )


def conditions_of(learner: Learner) -> Conditions:
    """Return which conditions hold for a learner's own rates, those of its first epoch."""
    rates = Rates(*learner.settings.rates[0].tolist())
    return conditions(rates, arms=len(learner.settings.thresholds))


def regret_speaks_from(learner: Learner) -> float:
    """Return the first horizon at which the regret bound is below L a round."""
    theorem, parameters, arms = _theorem(learner)

    def speaks(horizon: int) -> bool:
        return _normalised(theorem, arms, horizon, parameters.delta, arms) < horizon

    return _first(speaks)


def miss_rate_speaks_from(learner: Learner, *, below: float = 1.0) -> float:
    """Return the first horizon at which the bound on the miss rate is below this."""
    theorem, parameters, arms = _theorem(learner)

    def speaks(horizon: int) -> bool:
        loss = parameters.loss(horizon)
        regrets = loss.span * _normalised(theorem, arms, horizon, parameters.delta, arms)
        return _miss_rate(loss, regrets / horizon) < below

    return _first(speaks)


def _theorem(learner: Learner) -> tuple[_Theorem, OcpParameters, int]:
    parameters = learner.parameters
    if not isinstance(parameters, OcpParameters):
        raise TheoremError(
            f"no regret theorem speaks of {learner.name}; there are some for {', '.join(_THEOREMS)}"
        )
    return _THEOREMS[learner.name], parameters, len(learner.settings.thresholds)


def _normalised(theorem: _Theorem, arms: int, horizon: int, delta: float, complexity: float) -> float:
    """Return the bound for losses that span 1."""
    log = math.log(arms)
    confident = math.sqrt(horizon * arms / log) * math.log(1.0 / delta)
    exploring = theorem.exploring * math.sqrt(horizon * arms * log)
    unlocking = math.sqrt(horizon * complexity * log) if theorem.complexity else 0.0
    return confident + exploring + unlocking + theorem.slack * horizon**0.75


def _miss_rate(loss: Loss, regret_per_round: float) -> float:
    alpha = loss.alpha
    per_miss = (1.0 - alpha) * (1.0 - 2.0 * alpha)
    per_hit = loss.scale / (1.0 - alpha)
    return (regret_per_round + per_hit) / (per_miss + per_hit)


def _first(holds: Callable[[int], bool]) -> float:
    """Return the smallest horizon at which a bound that falls with the horizon holds, or infinity."""
    high = 1
    while not holds(high):
        high *= 2
        if high > _FARTHEST:
            return math.inf
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high

"""The theorems as calculators.

With probability at least 1 - delta, against any adversary, the regret Reg (the loss beyond that of
the best fixed threshold) of the OCP family is bounded as ``keyhole.learners.theorems`` says, and the
miss rate MC by MC - alpha <= Reg / T + C_mc. C_mc holds MC - alpha itself: known only afterwards.
What can be said beforehand comes from comparing with threshold 0, provided that it never misses: with
w = (1 - alpha)(1 - 2 alpha) and u = v / (1 - alpha), v being the scale of the loss, a miss costs at
least w more than threshold 0 and a hit at most u less, so that MC <= (Reg / T + u) / (w + u).

The excess of misses of the trackers and guards is bounded for certain; docs/guarantees.md has the
proofs, and what late, lost, wrong and graded answers do to them.

Examples
--------
>>> from keyhole import bounds, make
>>> learner = make("ocp-unlock+", alpha=0.1, horizon=50_000, arms=20)
>>> bounds.conditions_of(learner).hold, bounds.loss_of(learner).alpha
(True, 0.1)
>>> round(bounds.regret(learner)), bounds.regret_speaks_from(learner)
(25900, 6268)
>>> round(bounds.miss_rate(learner), 3), bounds.miss_rate_speaks_from(learner)
(0.801, 22070)
>>> round(bounds.coverage(learner, slack=-0.4), 3)
0.118
"""

import math
from collections.abc import Callable

from keyhole.errors import InvalidError, TheoremError
from keyhole.learners import strategy
from keyhole.learners.lateness import Lateness
from keyhole.learners.loss import Loss
from keyhole.learners.ocp import OcpParameters
from keyhole.learners.proofs import check_rounds, clip_excess, find_excess, find_lasting_excess
from keyhole.learners.rule import Excess, Learner, check_learner
from keyhole.learners.theorems import (
    THEOREMS,
    Conditions,
    Theorem,
    bound_miss_rate,
    bound_regret,
    check_counts,
    find_first,
    sharing_gap,
)
from keyhole.numeric import Array


def exp3p_regret(*, arms: int, horizon: int, delta: float = 0.05, span: float = 1.0) -> float:
    """Return the regret bound of EXP3.P on gains that span ``span``.

    Examples
    --------
    >>> round(exp3p_regret(arms=20, horizon=50_000))
    10645
    """
    return span * bound_regret(
        THEOREMS["ocp-bandit"], arms=arms, horizon=horizon, delta=delta, complexity=arms, gap=0.0
    )


def regret(learner: Learner, *, rounds: int | None = None, complexity: float | None = None) -> float:
    """Return the bound on the regret at the horizon; without one, after so many rounds.

    Without a horizon the bounds of the epochs add up, each holding with delta / ((e + 1) (e + 2)),
    so that together they hold with delta; an epoch under way counts as if it were over, and every
    epoch's regret is in its own loss.

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
    bound = _bound_of(learner, complexity)
    _check_applies(learner, rounds)
    if learner.horizon is not None:
        return bound(learner.horizon)
    if rounds is None:
        raise InvalidError("the learner has no horizon; say after how many rounds")
    check_rounds(rounds)
    total, done = 0.0, 0
    for epoch, length in enumerate(_list_lengths(learner)):
        total += bound(length, share=(epoch + 1) * (epoch + 2))
        done += length
        if done >= rounds:
            return total
    raise TheoremError(f"the epochs end after {done} rounds; {rounds} are beyond the theorem")


def _list_lengths(learner: Learner) -> list[int]:
    """Return how many rounds each epoch of a learner without a horizon has."""
    return strategy.epoch_lengths(learner.settings.thresholds.size, None)


def doubling_factor(learner: Learner, *, rounds: int) -> float:
    """Return by what at most not knowing the horizon multiplies the regret bound, up to so many rounds.

    It is largest at the first round of an epoch: all epochs so far count as if they were over, and the
    bound of a known horizon grows with it. No number holds for every alpha, K and T, because the
    losses of early epochs span more, and delta is shared by ever more epochs.

    Examples
    --------
    >>> from keyhole import make
    >>> round(doubling_factor(make("ocp-unlock+", alpha=0.1, arms=20), rounds=10**6), 2)
    3.37
    """
    if check_learner(learner).horizon is not None:
        raise InvalidError(f"the learner knows its horizon, {learner.horizon}; make it without one")
    bound = _bound_of(learner, None)
    check_rounds(rounds)
    first, *later = _list_lengths(learner)
    if rounds < first:
        raise TheoremError(f"no theorem speaks of a horizon below {first} rounds, such as {rounds}")
    worst, done = regret(learner, rounds=first) / bound(first), first
    for length in later:
        if done >= rounds:
            break
        worst = max(worst, regret(learner, rounds=done + 1) / bound(done + 1))
        done += length
    return worst


def _check_applies(learner: Learner, rounds: int | None) -> None:
    """Raise where the theorem is silent."""
    _, parameters, _ = _find_theorem(learner)
    if learner.horizon is not None and rounds not in (None, learner.horizon):
        raise TheoremError(
            f"the theorem speaks of the horizon of {learner.horizon} rounds, not of {rounds}"
        )
    if parameters.tuning != strategy.Tuning():
        raise TheoremError("the theorem speaks of the tuned rates; leave bonus, exploration, rate out")
    asked = conditions_of(learner)
    if not asked.hold:
        raise TheoremError(f"the theorem's conditions do not hold: {asked}; more rounds, or 5 arms")


def excess(
    learner: Learner,
    *,
    rounds: int | None = None,
    open: int = 1,  # noqa: A002
    age: int | None = None,
    at_least: int = 0,
    at_most: int | None = None,
) -> Excess:
    """Return between what the excess of misses over alpha a round lies, on any sequence.

    That is sum(miss - alpha) over so many answered rounds, whenever and in whatever order they were
    answered; divided by their number, it bounds their miss rate. Threshold 0 must never miss.

    Parameters
    ----------
    learner
        One whose misses a theorem bounds for certain; else ``TheoremError`` is raised.
    rounds
        After how many answers. Without it, after however many, if they come in the order of the
        predictions or ``age`` says how late they are; refused where the bound grows with them.
    open
        The most rounds that are open at once, of those that are answered some day; the one being
        answered is one of them, so that 1, the default, means answers that come at once.
    age
        The most answers counted between a round's prediction and its own answer, if that is known;
        with answers in the order of the predictions it is ``open`` - 1.
    at_least, at_most
        The fewest and the most labels that a set may hold. Above 0 the first costs the lower bound,
        because no set has to miss; the second costs the upper one, because threshold 0 can.

    Examples
    --------
    >>> from keyhole import make
    >>> [round(bound) for bound in excess(make("logit-tracker", alpha=0.1), rounds=50_000)]
    [-179, 148]
    >>> [round(bound) for bound in excess(make("logit-tracker", alpha=0.1), open=100)]
    [-387, 436]
    """
    if rounds is None:
        proven = find_lasting_excess(learner, Lateness(open, open - 1 if age is None else age))
    else:
        proven = find_excess(learner, rounds, Lateness(open, age))
    return clip_excess(proven, learner.alpha, rounds, floor=at_least > 0, cap=at_most is not None)


def unlock_hedge_regret(*, arms: int, horizon: int) -> float:
    """Return the bound on the expected pinball regret of unlock-hedge: 2 sqrt(T ln K).

    It holds with the fixed rate sqrt(ln K / T) and no discount.

    Examples
    --------
    >>> round(unlock_hedge_regret(arms=101, horizon=20_000))
    608
    """
    check_counts(arms, horizon)
    return 2.0 * math.sqrt(horizon * math.log(arms))


def loss_of(learner: Learner) -> Loss:
    """Return the loss that the theorem of a learner with a horizon speaks of."""
    _, parameters, _ = _find_theorem(learner)
    if learner.horizon is None:
        raise InvalidError("without a horizon every epoch has a loss of its own; give a horizon")
    return parameters.loss(learner.horizon)


def miss_rate(learner: Learner) -> float:
    """Return what the theorem says beforehand of the miss rate at the horizon.

    It holds where threshold 0 cannot miss: the true label is always a candidate, and the true value
    within the residual bound.
    """
    loss = loss_of(learner)
    return bound_miss_rate(loss, regret(learner) / loss.horizon)


def coverage(learner: Learner, *, slack: float) -> float:
    """Return the paper's bound on MC - alpha, given the run's ``metrics.coverage_slack``."""
    return regret(learner) / loss_of(learner).horizon + slack


def conditions(epoch: strategy.Epoch, *, arms: int) -> Conditions:
    """Return which conditions of the theorems hold."""
    return Conditions(
        enough_arms=arms >= 5,
        moderate_exploration=epoch.exploration <= 0.5,
        slow_enough=(1.0 + 2.0 * epoch.bonus) * arms * epoch.rate <= epoch.exploration,
    )


def conditions_of(learner: Learner) -> Conditions:
    """Return which conditions hold for a learner's own rates, those of its first epoch."""
    _, _, thresholds = _find_theorem(learner)
    return conditions(strategy.Epoch(*learner.settings.epochs[0].tolist()), arms=len(thresholds))


def regret_speaks_from(learner: Learner) -> float:
    """Return the first horizon at which the regret bound is below L a round."""
    bound, (_, parameters, _) = _bound_of(learner, None), _find_theorem(learner)
    return find_first(lambda horizon: bound(horizon) < horizon * parameters.loss(horizon).span)


def miss_rate_speaks_from(learner: Learner, *, below: float = 1.0) -> float:
    """Return the first horizon at which the bound on the miss rate is below this."""
    bound, (_, parameters, _) = _bound_of(learner, None), _find_theorem(learner)
    return find_first(lambda h: bound_miss_rate(parameters.loss(h), bound(h) / h) < below)


def gap_of(learner: Learner) -> float:
    """Return e of the learner's theorem at its horizon: what sharing answers adds to the regret.

    It is a share of L a round: about v / ((1 - alpha) L), and 0 for a learner that shares nothing.

    Examples
    --------
    >>> from keyhole import make
    >>> round(gap_of(make("ocp-unlock+", alpha=0.1, horizon=50_000, arms=20)), 4)
    0.2866
    """
    theorem, _, thresholds = _find_theorem(learner)
    return sharing_gap(theorem, loss_of(learner), thresholds)


def _find_theorem(learner: Learner) -> tuple[Theorem, OcpParameters, Array]:
    parameters = check_learner(learner).parameters
    if not isinstance(parameters, OcpParameters):
        raise TheoremError(
            f"no regret theorem speaks of {learner.name}; there are some for {', '.join(THEOREMS)}"
        )
    return THEOREMS[learner.name], parameters, learner.settings.thresholds


def _bound_of(learner: Learner, complexity: float | None) -> Callable[..., float]:
    """Return the bound as a function of a known horizon and of what delta is divided by."""
    theorem, parameters, thresholds = _find_theorem(learner)
    constant = len(thresholds) if complexity is None else min(complexity, len(thresholds))

    def bound(horizon: int, share: int = 1) -> float:
        loss = parameters.loss(horizon)
        return loss.span * bound_regret(
            theorem,
            arms=len(thresholds),
            horizon=horizon,
            delta=parameters.delta / share,
            complexity=constant,
            gap=sharing_gap(theorem, loss, thresholds),
        )

    return bound

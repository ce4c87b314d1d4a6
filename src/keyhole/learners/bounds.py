"""The theorems as calculators.

For losses that span 1, with R1 = sqrt(T K / ln K) ln(1/delta) and R2 = sqrt(T K ln K), the regret Reg
(the loss beyond that of the best fixed threshold) is, with probability at least 1 - delta and against
any adversary, at most

- exp3.p, ocp-bandit: R1 + 5.15 R2
- ocp-unlock:         R1 + 5.15 R2 + e T
- ocp-unlock+:        R1 + 4.15 R2 + sqrt(T C ln K) + e T

The paper writes o(T)^-1 for e, an order and not a number; ``gap_of`` has it exactly, and
docs/guarantees.md the proof.

The miss rate MC is bounded by MC - alpha <= Reg / T + C_mc. C_mc holds MC - alpha itself: known only
afterwards. What can be said beforehand comes from comparing with threshold 0, provided that it never
misses: with w = (1 - alpha)(1 - 2 alpha) and u = v / (1 - alpha), v being the scale of the loss, a miss
costs at least w more than threshold 0 and a hit at most u less, so that MC <= (Reg / T + u) / (w + u).

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
from dataclasses import dataclass

import numpy as np

from keyhole.checks import is_real, is_whole
from keyhole.errors import InvalidError, TheoremError
from keyhole.feedback import check_chance, check_wrong, correct_wrong
from keyhole.learners import strategy
from keyhole.learners.lateness import Excess, Lateness
from keyhole.learners.loss import Loss
from keyhole.learners.ocp import OcpParameters
from keyhole.learners.rule import Learner, check_learner
from keyhole.numeric import Array

_FARTHEST = 10**18  # rounds; nobody plays more
_RATES = 24  # of supermartingales that are mixed, each half the one before


@dataclass(frozen=True)
class _Theorem:
    """What tells the regret bounds apart."""

    exploring: float  # the factor of R2, as published
    shares: bool = False  # whether an answer is shared by arms, so that e is there
    complexity: bool = False  # whether sqrt(T C ln K) is there, in place of one R2


_THEOREMS = {
    "ocp-bandit": _Theorem(exploring=5.15),
    "ocp-unlock": _Theorem(exploring=5.15, shares=True),
    "ocp-unlock+": _Theorem(exploring=4.15, shares=True, complexity=True),
}


@dataclass(frozen=True)
class Conditions:
    """What the theorems ask of arms and rates."""

    enough_arms: bool  # K >= 5
    moderate_exploration: bool  # gamma <= 1/2
    slow_enough: bool  # (1 + 2 beta) K eta <= gamma

    @property
    def hold(self) -> bool:
        return self.enough_arms and self.moderate_exploration and self.slow_enough


def exp3p_regret(*, arms: int, horizon: int, delta: float = 0.05, span: float = 1.0) -> float:
    """Return the regret bound of EXP3.P on gains that span ``span``.

    Examples
    --------
    >>> round(exp3p_regret(arms=20, horizon=50_000))
    10645
    """
    return span * _bound_regret(
        _THEOREMS["ocp-bandit"], arms=arms, horizon=horizon, delta=delta, complexity=arms, gap=0.0
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
    return strategy.epoch_lengths(learner.settings.grid.size, None)


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
    open: int = 1,
    age: int | None = None,
    lost: bool = False,
    chance: float = 1.0,
    wrong: float = 0.0,
    at_least: int = 0,
    at_most: int | None = None,
    delta: float | None = None,
) -> Excess:
    """Return bounds on the excess of misses over alpha a round, on any sequence.

    That is sum(miss - alpha) over so many answered rounds, whenever and in whatever order they were
    answered; divided by their number, it bounds their miss rate. Threshold 0 must never miss.

    For answers with a known chance, or that may be wrong, it is the excess as reported, each counted as
    ``Predictor.learn`` says; with ``delta`` it is the true one, of all rounds, and the bounds hold
    after any number of rounds at once, except with that probability.

    Parameters
    ----------
    learner
        One whose misses a theorem bounds for certain; else ``TheoremError`` is raised.
    rounds
        After how many answers. Without it, after however many, if they come in the order of the
        predictions or ``age`` says how late they are; refused where the bound grows with them.
    open
        The largest number of rounds that are open at once, among those that are ever answered; it
        includes the one being answered, so 1, the default, means answers that come at once.
    lost
        Whether there are rounds that are never answered. An answer that comes after a later prediction
        moves a learner less, so that only its guards bound the misses, even with ``open=1``.
    chance
        The smallest known probability that an answer comes, if answers are given with ``chance=``.
    wrong
        The largest known probability that an answer is the opposite of the truth.
    age
        The most answers counted between a round's prediction and its own answer, if that is known;
        with answers in the order of the predictions it is ``open`` - 1.
    at_least, at_most
        The minimum and the maximum number of labels in a set. Above 0 the first costs the lower bound,
        because no set is sure to miss; the second costs the upper one, because threshold 0 may miss.
    delta
        The probability with which the bounds may fail, where chance decides what is reported.

    Examples
    --------
    >>> from keyhole import make
    >>> learner = make("logit-tracker", alpha=0.1)
    >>> [round(bound) for bound in excess(learner, rounds=50_000)]
    [-179, 148]
    >>> [round(bound) for bound in excess(learner, open=100)]
    [-387, 436]
    >>> [round(bound) for bound in excess(learner, rounds=50_000, wrong=0.05)]
    [-179, 149]
    """
    weight = 1.0 / check_chance(chance, least=0.0)
    lateness = Lateness(
        open=open, age=open - 1 if rounds is None and age is None else age, lost=lost, weight=weight,
        scale=weight, told=(correct_wrong(0.0, check_wrong(wrong)), correct_wrong(1.0, wrong)),
    )  # fmt: skip
    if rounds is None:
        if delta is not None:
            raise InvalidError("what chance does grows with the rounds; say after how many")
        proven = _find_lasting_excess(learner, lateness)
    else:
        proven = find_excess(learner, rounds, lateness)
        if delta is not None:
            proven = bound_truth(proven, learner.alpha, rounds, lateness, delta=delta)
    told, counted = lateness.told, None if rounds is None else weight * rounds
    if delta is not None:
        told, counted = (0.0, 1.0), rounds
    floor, cap = at_least > 0, at_most is not None
    return clip_excess(proven, learner.alpha, counted, floor=floor, cap=cap, told=told)


def bound_truth(told: Excess, alpha: float, rounds: int, lateness: Lateness, *, delta: float) -> Excess:
    """Return bounds on the true excess of so many rounds, given the excess as it was reported.

    It holds after any number of rounds at once, except with probability ``delta``; docs/guarantees.md
    has the proof.

    Examples
    --------
    >>> flips = Lateness(told=(-0.1 / 0.8, 0.9 / 0.8))  # a tenth of the answers is wrong
    >>> [round(bound) for bound in bound_truth(Excess(-179.0, 149.0), 0.1, 10_000, flips, delta=0.05)]
    [-320, 286]
    """
    if not (is_real(delta) and 0.0 < delta < 1.0):
        raise InvalidError(f"delta {delta!r} is not a probability; give one between 0 and 1")
    if lateness.weight == 1.0 and lateness.told == (0.0, 1.0):
        return told
    step, log = lateness.weight * (lateness.told[1] - lateness.told[0]), math.log(2 * _RATES / delta)
    least, most = -math.inf, math.inf
    for n in range(_RATES):
        rate = 2.0 ** (6 - n) / step
        for sign in (-1.0, 1.0):
            hit, miss = (_find_psi(sign * rate, alpha, lateness, truth=truth) for truth in (0.0, 1.0))
            farther = (rounds * (hit + alpha * (miss - hit)) + log) / rate
            share = 1.0 - sign * (miss - hit) / rate  # what the misses themselves add is taken over
            if share > 0.0 and sign > 0.0:
                most = min(most, (told.most + farther) / share)
            elif share > 0.0:
                least = max(least, (told.least - farther) / share)
    return Excess(least, most)


def _find_psi(rate: float, alpha: float, lateness: Lateness, *, truth: float) -> float:
    """Return ln E exp(rate (truth - alpha - heard (told - alpha) / chance)) at the least chance.

    ``told`` is the truth, or one of two numbers whose mean is the truth; an answer is heard with the
    chance. A smaller chance, or numbers farther apart, have the larger moments.
    """
    low, high = lateness.told
    weight, share = lateness.weight, (truth - low) / (high - low)
    told = ((share, high), (1.0 - share, low))
    heard = [math.log(part) - rate * weight * (at - alpha) for part, at in told if part > 0.0]
    total = float(np.logaddexp.reduce(heard)) - math.log(weight)
    if weight > 1.0:
        total = float(np.logaddexp(total, math.log1p(-1.0 / weight)))
    return max(total + rate * (truth - alpha), 0.0)


def unlock_hedge_regret(*, arms: int, horizon: int) -> float:
    """Return the bound on the expected pinball regret of unlock-hedge: 2 sqrt(T ln K).

    It holds with the fixed rate sqrt(ln K / T) and no discount.

    Examples
    --------
    >>> round(unlock_hedge_regret(arms=101, horizon=20_000))
    608
    """
    _check_counts(arms, horizon)
    return 2.0 * math.sqrt(horizon * math.log(arms))


def logit_regret(learner: Learner, *, rounds: int) -> float:
    """Return the bound on the logit tracker's regret, in the pinball loss of logits, on any sequence.

    Every round must be answered before the next prediction; docs/guarantees.md has the proof.

    Examples
    --------
    >>> from keyhole import make
    >>> round(logit_regret(make("logit-tracker", alpha=0.1), rounds=10**7) / 10**7, 4)
    0.0049
    """
    given = check_learner(learner).parameters
    check_rounds(rounds)
    if learner.name != "logit-tracker":
        raise TheoremError(f"the theorem speaks of logit-tracker, not of {learner.name}")
    alpha, step = given.alpha, given.step
    start = (given.reach + given.edge) ** 2 / (2.0 * step)
    squares = alpha * (1.0 - alpha) * rounds + (1.0 - 2.0 * alpha) * given.most
    longer = (step * given.most - given.reach) / alpha  # what first steps add to the sum of steps
    return float(start + 0.5 * step * squares + 0.5 * longer * (1.0 - alpha) ** 2)


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
    return _bound_miss_rate(loss, regret(learner) / loss.horizon)


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
    return _find_first(lambda horizon: bound(horizon) < horizon * parameters.loss(horizon).span)


def miss_rate_speaks_from(learner: Learner, *, below: float = 1.0) -> float:
    """Return the first horizon at which the bound on the miss rate is below this."""
    bound, (_, parameters, _) = _bound_of(learner, None), _find_theorem(learner)
    return _find_first(lambda h: _bound_miss_rate(parameters.loss(h), bound(h) / h) < below)


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
    return _find_gap(theorem, loss_of(learner), thresholds)


def _find_theorem(learner: Learner) -> tuple[_Theorem, OcpParameters, Array]:
    parameters = check_learner(learner).parameters
    if not isinstance(parameters, OcpParameters):
        raise TheoremError(
            f"no regret theorem speaks of {learner.name}; there are some for {', '.join(_THEOREMS)}"
        )
    return _THEOREMS[learner.name], parameters, learner.settings.grid


def _bound_of(learner: Learner, complexity: float | None) -> Callable[..., float]:
    """Return the bound as a function of a known horizon and of what delta is divided by."""
    theorem, parameters, thresholds = _find_theorem(learner)
    constant = len(thresholds) if complexity is None else min(complexity, len(thresholds))

    def bound(horizon: int, share: int = 1) -> float:
        loss = parameters.loss(horizon)
        return loss.span * _bound_regret(
            theorem,
            arms=len(thresholds),
            horizon=horizon,
            delta=parameters.delta / share,
            complexity=constant,
            gap=_find_gap(theorem, loss, thresholds),
        )

    return bound


def _find_gap(theorem: _Theorem, loss: Loss, thresholds: Array) -> float:
    """Return e: by how much the estimates of a round can exceed the gain that was played."""
    if not theorem.shares:
        return 0.0
    hit, miss = (loss.gain(thresholds, missed=missed) for missed in (False, True))
    above = np.append(miss[1:], 0.0)  # of the arm above j; there is none above the last
    return float((hit - hit[0] + above).max())


def _bound_regret(
    theorem: _Theorem, *, arms: int, horizon: int, delta: float, complexity: float, gap: float
) -> float:
    """Return the bound for losses that span 1."""
    _check_counts(arms, horizon)
    if not (is_real(delta) and 0.0 < delta < 1.0 and is_real(complexity) and complexity >= 0.0):
        raise InvalidError(
            f"delta {delta!r}, complexity {complexity!r}: give one between 0 and 1, one of at least 0"
        )
    log = math.log(arms)
    confident = math.sqrt(horizon * arms / log) * math.log(1.0 / delta)
    exploring = _find_factor(theorem, arms, horizon) * math.sqrt(horizon * arms * log)
    unlocking = math.sqrt(horizon * complexity * log) if theorem.complexity else 0.0
    return confident + exploring + unlocking + gap * horizon


def _find_factor(theorem: _Theorem, arms: int, horizon: int) -> float:
    """Return the factor of R2: the published one, or what it rounds where that is larger.

    That is so of ocp-unlock+ for 5 to 9 arms and the shortest horizons that the theorem allows.
    """
    if not theorem.complexity:
        return theorem.exploring
    return max(
        theorem.exploring,
        1.05 + 0.95 * (1.0 + 2.0 * strategy.tuned(arms, horizon).bonus) + 1.0 + 1.0 / 0.95,
    )


def _check_counts(arms: int, horizon: int) -> None:
    if not (is_whole(arms, least=2) and is_whole(horizon, least=1)):
        raise InvalidError(f"{arms!r} arms, {horizon!r} rounds: give at least 2 and 1, whole numbers")


def _bound_miss_rate(loss: Loss, regret_per_round: float) -> float:
    per_miss = (1.0 - loss.alpha) * (1.0 - 2.0 * loss.alpha)
    per_hit = loss.scale / (1.0 - loss.alpha)
    return (regret_per_round + per_hit) / (per_miss + per_hit)


def _find_first(holds: Callable[[int], bool]) -> float:
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


def check_rounds(rounds: object) -> None:
    if isinstance(rounds, int) and rounds >= 2**63:
        raise InvalidError(f"{rounds:,} rounds are too many to count; give at most 2**63 - 1")
    if not is_whole(rounds, least=1):
        raise InvalidError(f"{rounds!r} is not a number of rounds; give a whole number from 1")


def _find_lasting_excess(learner: Learner, lateness: Lateness) -> Excess:
    """Return the bound that holds after any number of rounds, or raise if it grows without end."""
    far, farther = (find_excess(learner, rounds, lateness) for rounds in (_FARTHEST // 10, _FARTHEST))
    if far != farther:
        raise InvalidError(f"the bound of {learner.name} grows with the rounds; say after how many")
    return farther


def find_excess(learner: Learner, rounds: int, lateness: Lateness) -> Excess:
    """Return what the rule's own theorem says, of prompt answers or of late ones."""
    parameters = check_learner(learner).parameters
    check_rounds(rounds)
    if not hasattr(parameters, "excess"):
        kind = learner.rule.kind
        raise TheoremError(
            f"no theorem bounds the {kind.errors} of {learner.name} on every sequence; {kind.remedy}"
        )
    if lateness.is_prompt:
        return parameters.excess(rounds)
    if not hasattr(parameters, "late_excess"):
        raise TheoremError(
            f"no theorem bounds the misses of {learner.name} unless every round is answered before the "
            "next prediction, by a hit or a miss that is true, and threshold 0 never misses"
        )
    return parameters.late_excess(rounds, lateness)


def clip_excess(
    proven: Excess,
    alpha: float,
    rounds: float | None,
    *,
    floor: bool,
    cap: bool,
    told: tuple[float, float],
) -> Excess:
    """Return the bounds within what so many rounds can come to at all.

    Where sets have a floor or a cap nothing else is left of the lower or the upper one.
    """
    answers = math.inf if rounds is None else rounds
    fewest, most = (told[0] - alpha) * answers, (told[1] - alpha) * answers
    return Excess(
        least=fewest if floor else max(proven.least, fewest),
        most=most if cap else min(proven.most, most),
    )

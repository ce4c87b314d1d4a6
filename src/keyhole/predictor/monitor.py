r"""Is the promise kept? A test that may be looked at after every round, for ever.

**The alarm** is an e-detector (Shin, Ramdas and Rinaldo, 2023) of the Shiryaev-Roberts kind. For a rate
p, a *bet* multiplies by l = 1 + b (x - alpha) at a round with miss x, where b = (p - alpha) / (alpha
(1 - alpha)): for x in {0, 1} this is the likelihood ratio of p to alpha, and whenever x in [0, 1] has
mean alpha given the past, l has mean 1. A bet that is begun anew at every round is worth, in sum,

    M_t = (1 + M_{t-1}) l_t,    so that M_t - t has mean 0.

R_t = sum_k w_k M_t^k with weights that sum to 1 mixes bets on several rates, above and below alpha.
An alarm is raised when R_t >= A; it lasts until it is cleared, and then everything starts from 0.

*No more than one false alarm in A rounds.* If misses have mean alpha given the past (independent misses
at alpha do), then for every n, E[alarms in n rounds] <= n / A. Proof: let Q_n be the sum of R at all
alarms so far, plus the present R if none is on. A round without an alarm adds 1 to the mean of Q_n,
because R_t - (rounds since the start) is a martingale between alarms; a round of an alarm adds nothing.
So E[Q_n] <= n. Each alarm has brought at least A, and R >= 0: A E[alarms] <= E[Q_n] <= n. In particular
the mean time to the first one is at least A, by optional stopping at min(T, n): E[min(T, n)] = E[R at
it] >= A P(T <= n). Nothing else is assumed, neither a window, nor how often it is looked at.

*How soon a broken promise is found.* R_t is at least w_k times the one bet k begun at the change. By
Wald's identity it reaches A after at most (log(A / w_k) + log(most of l_k)) / E[log l_k] rounds in the
mean: for p itself the denominator is the Kullback-Leibler divergence of p from alpha.

*Clearing.* While an alarm is on, the same kind of sum bets on alpha against 1.5 alpha, or against half
of it; at ``clearing`` the alarm is over. While the rate stays there or beyond, that happens by mistake
at most once in so many rounds on average.

**The lifetime rate** has a confidence sequence: the rates p for which the mixture over q ~ Beta(1/2,
1/2) of the likelihood ratios of q to p is below 1 / error. If misses have mean p given the past, each
ratio has mean 1 (at most 1 for misses between 0 and 1, as (q/p)^x ((1-q)/(1-p))^(1-x) is convex in x),
so by Ville's inequality p is ever left out, at any round, with probability at most ``error``.

A learner that corrects itself keeps its lifetime rate near alpha whatever happens: the sequence then
tells little, and the alarm, which forgets, is what matters.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache

from keyhole.errors import InvalidError, SnapshotError

# Rates as multiples of alpha: what is a little off takes many rounds to tell, what is far off few.
ABOVE, BELOW = (1.25, 1.5, 2.0, 4.0), (0.75, 0.5, 0.1)
STILL = {1: 1.5, -1: 0.5}  # What an alarm is not cleared at.
_COUNT = len(ABOVE) + len(BELOW)
_LAYOUT = struct.Struct(f"<qbqqqd{_COUNT}d2d2q")
SIZE = _LAYOUT.size


class Alarm(IntEnum):
    """What the misses say of the promise."""

    NONE = 0
    TOO_MANY = 1
    TOO_FEW = -1


@dataclass(slots=True)
class Watch:
    """What a monitor remembers; rounds are counted from 1, and 0 stands for never.

    Parameters
    ----------
    rounds
        How many were seen.
    alarm
        Which one is on.
    since, raised, cleared
        When, by the best guess, the rate changed; when the alarm was raised; when the last one ended.
    doubt
        The sum that bets on alpha while an alarm is on.
    evidence
        The sums that bet on other rates while none is.
    walks, starts
        Above and below: the largest log ratio of any stretch up to now, and where that stretch begins.
    """

    rounds: int = 0
    alarm: Alarm = Alarm.NONE
    since: int = 0
    raised: int = 0
    cleared: int = 0
    doubt: float = 0.0
    evidence: list[float] = field(default_factory=lambda: [0.0] * _COUNT)
    walks: list[float] = field(default_factory=lambda: [0.0, 0.0])
    starts: list[int] = field(default_factory=lambda: [1, 1])

    @classmethod
    def begin(cls, rounds: int) -> "Watch":
        """Return a watch that begins after so many rounds."""
        return cls(rounds, starts=[rounds + 1] * 2)

    def begin_anew(self) -> None:
        """Turn off the alarm, and let the evidence begin with the next round."""
        self.alarm, self.doubt, self.evidence = Alarm.NONE, 0.0, [0.0] * _COUNT
        self.walks, self.starts = [0.0, 0.0], [self.rounds + 1] * 2

    def pack(self) -> bytes:
        """Return it as bytes, of which there are always as many."""
        head = (self.rounds, self.alarm, self.since, self.raised, self.cleared, self.doubt)
        return _LAYOUT.pack(*head, *self.evidence, *self.walks, *self.starts)


def unpack(content: bytes) -> Watch:
    """Return what was packed."""
    if len(content) != _LAYOUT.size:
        raise SnapshotError(f"a watch has {_LAYOUT.size} bytes, not {len(content)}")
    rounds, alarm, since, raised, cleared, doubt, *rest = _LAYOUT.unpack(content)
    evidence, walks, starts = rest[:_COUNT], rest[_COUNT:-2], rest[-2:]
    return Watch(rounds, Alarm(alarm), since, raised, cleared, doubt, evidence, walks, starts)


@dataclass(frozen=True, kw_only=True)
class Monitor:
    """Raises an alarm when misses come more often, or less often, than with chance alpha.

    Parameters
    ----------
    alpha
        The miss rate that was promised.
    run_length
        On average at most one false alarm in so many rounds.
    clearing
        On average an alarm that is still right is cleared at most once in so many rounds.

    Attributes
    ----------
    bets
        The bet on each rate, and its weight.

    Examples
    --------
    >>> monitor, watch = Monitor(alpha=0.1), Watch()
    >>> for miss in [0, 0, 0, 0, 0, 0, 0, 0, 0, 1] * 1000 + [0, 1, 0, 0, 1] * 100:
    ...     monitor.observe(watch, miss)
    >>> watch.alarm.name, watch.since, watch.raised
    ('TOO_MANY', 10000, 10042)
    """

    alpha: float
    run_length: float = 1e6
    clearing: float = 1e4
    bets: tuple[tuple[float, float], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise InvalidError(f"alpha {self.alpha} is not between 0 and 1")
        for name in ("run_length", "clearing"):
            if not 1.0 <= getattr(self, name) < math.inf:
                raise InvalidError(f"{name} {getattr(self, name)} is not a number of rounds")
        weights = [0.5 / len(ABOVE)] * len(ABOVE) + [0.5 / len(BELOW)] * len(BELOW)
        bets = [bet_on(self._rate(ratio), against=self.alpha) for ratio in ABOVE + BELOW]
        object.__setattr__(self, "bets", tuple(zip(bets, weights, strict=True)))

    def _rate(self, ratio: float) -> float:
        # A rate above 1 there is none: half way to it instead, so that a hit is never the end of a bet.
        return min(ratio * self.alpha, (1.0 + self.alpha) / 2.0)

    def observe(self, watch: Watch, miss: float) -> None:
        """Count a round: 0 for a hit, 1 for a miss, between them what is half a miss.

        An answer that may be wrong may, corrected, lie beyond 0 and 1: see ``draw_in``.
        """
        watch.rounds += 1
        if watch.alarm:
            self._doubt(watch, miss)
            return
        if not 0.0 <= miss <= 1.0:
            miss = draw_in(miss, towards=self.alpha)
        off, evidence, total = miss - self.alpha, watch.evidence, 0.0
        for k, (bet, weight) in enumerate(self.bets):
            evidence[k] = (1.0 + evidence[k]) * (1.0 + bet * off)
            total += weight * evidence[k]
        # The nearest rates: their stretches begin where the misses first lean to one side.
        for side, near in enumerate((0, len(ABOVE))):
            watch.walks[side] += math.log1p(self.bets[near][0] * off)
            if watch.walks[side] <= 0.0:
                watch.walks[side], watch.starts[side] = 0.0, watch.rounds + 1
        if total >= self.run_length:
            self._raise(watch)

    def _raise(self, watch: Watch) -> None:
        worth = [weight * one for (_, weight), one in zip(self.bets, watch.evidence, strict=True)]
        above = max(range(_COUNT), key=worth.__getitem__) < len(ABOVE)
        watch.alarm = Alarm.TOO_MANY if above else Alarm.TOO_FEW
        watch.since, watch.raised = watch.starts[0 if above else 1], watch.rounds
        watch.doubt = 0.0

    def _doubt(self, watch: Watch, miss: float) -> None:
        still = self._rate(STILL[watch.alarm])
        if not 0.0 <= miss <= 1.0:
            miss = draw_in(miss, towards=still)
        watch.doubt = (1.0 + watch.doubt) * (1.0 + bet_on(self.alpha, against=still) * (miss - still))
        if watch.doubt < self.clearing:
            return
        watch.cleared = watch.rounds
        watch.begin_anew()


@lru_cache(maxsize=1024)
def find_monitor(alpha: float) -> Monitor:
    """Return the monitor of a miss rate, with the usual run length."""
    return Monitor(alpha=alpha)


def draw_in(miss: float, *, towards: float) -> float:
    """Return a miss that lay beyond 0 or 1 at 0, 1 or between, with its mean where it was.

    Corrected for a known chance of being wrong, a hit lies as far below 0 as a miss lies above 1. Both
    are drawn in by the same share, so that a mean of ``towards`` stays.
    """
    beyond = max(-miss, miss - 1.0)
    share = min(towards / (towards + beyond), (1.0 - towards) / (1.0 - towards + beyond))
    return min(1.0, max(0.0, towards + (miss - towards) * share))


def bet_on(rate: float, *, against: float) -> float:
    """Return the bet whose factor is the likelihood ratio of one miss rate to another."""
    return (rate - against) / (against * (1.0 - against))


def weigh_rate(misses: float, rounds: float, rate: float) -> float:
    """Return the log of the evidence against a miss rate, by the mixture over all others."""
    hits = rounds - misses
    mixed = (
        math.lgamma(misses + 0.5)
        + math.lgamma(hits + 0.5)
        - math.lgamma(rounds + 1.0)
        - math.log(math.pi)  # The Beta function at (1/2, 1/2).
    )
    return mixed - _times_log(misses, rate) - _times_log(hits, 1.0 - rate)


def bound_rate(misses: float, rounds: float, *, error: float = 0.01) -> tuple[float, float]:
    """Return between which rates the true one is, at every round at once but for this error.

    Examples
    --------
    >>> low, high = bound_rate(1_000, 10_000)
    >>> round(low, 4), round(high, 4)
    (0.0875, 0.1135)
    """
    if rounds == 0:
        return 0.0, 1.0
    misses = min(max(misses, 0.0), rounds)  # Corrected for wrong answers it may lie outside.
    rate, most = misses / rounds, -math.log(error)

    def exceed(other: float) -> float:
        return weigh_rate(misses, rounds, other) - most

    return _cross(rate, 0.0, rounds, exceed), _cross(rate, 1.0, rounds, exceed)


def bound_misses(rounds: int, *, alpha: float, error: float = 0.01) -> tuple[float, float]:
    """Return between which observed miss rates alpha is still one of the rates that may be true.

    Examples
    --------
    >>> low, high = bound_misses(10_000, alpha=0.1)
    >>> round(low, 4), round(high, 4)
    (0.0872, 0.1133)
    """
    most = -math.log(error)

    def exceed(observed: float) -> float:
        return weigh_rate(observed * rounds, rounds, alpha) - most

    return _cross(alpha, 0.0, rounds, exceed), _cross(alpha, 1.0, rounds, exceed)


def _cross(inside: float, outside: float, rounds: float, exceed: Callable[[float], float]) -> float:
    """Return where the evidence, which grows from the inside to the outside, becomes too much."""
    if exceed(outside) < 0.0:
        return outside
    little, much, last, worth = inside, outside, inside, exceed(inside)
    # Near enough where misses are nearly normal; from there secants, and halves where they lead astray.
    spread = math.sqrt(inside * (1.0 - inside) * (math.log(rounds + 1.0) - 2.0 * worth) / rounds)
    at = inside + math.copysign(spread, outside - inside)
    for _ in range(100):
        if not min(little, much) < at < max(little, much):
            at = (little + much) / 2.0
        found = exceed(at)
        little, much = (at, much) if found < 0.0 else (little, at)
        if abs(found) < 1e-6 or at in (last, inside, outside):
            break
        slope = (found - worth) / (at - last)
        last, worth, at = at, found, at - found / slope if slope else math.nan
    return much if found >= 0.0 else at


def _times_log(count: float, rate: float) -> float:
    if count == 0.0:
        return 0.0
    return count * math.log(rate) if rate > 0.0 else -math.inf

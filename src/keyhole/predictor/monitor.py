"""Is the promise kept? A test that may be looked at after every round, for ever.

For several rates above and below alpha it bets that rounds miss at that rate. A bet multiplies by the
likelihood ratio of its rate to alpha, and one is begun anew at every round, so that of each rate the
sum of all bets, M_t = (1 + M_{t-1}) l_t, is kept. While misses have mean alpha, the weighted mean of
these sums grows by 1 a round in the mean; an alarm is raised where it reaches the run length.

docs/guarantees.md has the proof, and says what is done about answers of a known chance, late answers,
rounds decided together, and the start; and how the lifetime rate is bounded.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from keyhole.errors import InvalidError
from keyhole.numeric import add_up

# Rates as multiples of alpha: what is a little off takes many rounds to tell, what is far off few.
ABOVE, BELOW = (1.25, 1.5, 2.0, 4.0), (0.75, 0.5, 0.1)
_WEIGHTS = (*[0.5 / len(ABOVE)] * len(ABOVE), *[0.5 / len(BELOW)] * len(BELOW))
_STILL = (1.5, 2.0), (0.25, 0.5)  # An alarm is cleared against the rate it was raised at, within these.
_UNSETTLED, _SETTLED = (2.0, 0.4), 10.0  # A start is over against these, at this worth,
_HEARD, _MOST_HEARD = (
    10.0,
    ((20.0, 1.0), (100.0, 5.0)),
)  # after so many / alpha, at most, and L times this.
_PLAIN, _PLAIN_HEARD = (
    3,
    100.0,
)  # Which of the sums bets, while starting, on a rate of 3/4; from when on.
_ALLOWED = 20.0  # Late answers: by 1 + sqrt(L) / 20 the rate may be off.
_SHARED = 20.0  # misses that a target is worth against those of rounds decided together with this one
_LESS = 0.8  # A lower chance lowers the bets by a fifth at least, so that it is seldom done.
RATES = len(ABOVE) + len(BELOW)


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
    alarms
        How many were raised.
    heard
        How many answers the learner had heard when its target was set: those before its first round, or
        before its alpha was changed.
    tested
        From which round on the promise is tested; while that is 0 it is too early, and ``starting``.
    scale
        The part of a whole bet that an answer of chance 1 is.
    ratio
        Of the rate to alpha, against which the alarm is to be cleared.
    together
        How many answers had been heard when the last round was decided; of rounds that were decided at
        that moment, how many were answered, and their misses.
    doubts
        Above and below: what bets on alpha are worth, at the start and while an alarm is on.
    evidence
        The sums that bet on other rates while none is.
    walks, starts
        Of each rate: the most that a bet of one stretch up to now is worth, and where that begins.
    """

    rounds: int = 0
    alarm: Alarm = Alarm.NONE
    since: int = 0
    raised: int = 0
    cleared: int = 0
    alarms: int = 0
    heard: int = 0
    tested: int = 0
    scale: float = 1.0
    ratio: float = 1.0
    together: list[float] = field(default_factory=lambda: [-1.0, 0.0, 0.0])
    doubts: list[float] = field(default_factory=lambda: [0.0, 0.0])
    evidence: list[float] = field(default_factory=lambda: [0.0] * RATES)
    walks: list[float] = field(default_factory=lambda: [1.0] * RATES)
    starts: list[int] = field(default_factory=lambda: [1] * RATES)

    @property
    def starting(self) -> bool:
        return self.tested == 0

    def begin_anew(self) -> None:
        """End the start or the alarm, and let the evidence begin with the next round."""
        self.alarm, self.doubts = Alarm.NONE, [0.0, 0.0]
        self.tested = self.tested or self.rounds + 1
        self._forget()

    def _forget(self) -> None:
        self.evidence, self.walks = [0.0] * RATES, [1.0] * RATES
        self.starts = [self.rounds + 1] * RATES

    def retarget(self, heard: int) -> None:
        """Start again, as the target is another one from here on, where so many answers were heard."""
        if self.alarm:
            self.cleared = self.rounds
        self.begin_anew()
        self.tested, self.heard = 0, heard

    def lower(self, share: float) -> None:
        """Make bets smaller, and drop those that are running."""
        self.scale = min(share, _LESS * self.scale)
        self.doubts = [doubt if doubt == math.inf else 0.0 for doubt in self.doubts]
        self._forget()


class Bets(NamedTuple):
    """Between which rates the promise counts as kept, and the bets on those beyond."""

    targets: tuple[float, float]  # the highest, the lowest
    slopes: tuple[float, ...] = ()  # above 0 of bets against the highest, else against the lowest

    def find_rate(self, side: int, ratio: float) -> float:
        """Return a rate above the highest (side 0), or below the lowest."""
        target = self.targets[side]
        # A rate above 1 there is none: half way to it instead, so that a hit is never the end of a bet.
        return min(ratio * target, (1.0 + target) / 2.0)

    def after(self, rounds: float, misses: float) -> "Bets":
        """Return the bets on a round after others that were decided together with it."""
        high, low = ((_SHARED + misses) / (_SHARED / target + rounds) for target in self.targets)
        return make_bets(max(high, self.targets[0]), min(low, self.targets[1]))

    def doubt(self, side: int, ratio: float, miss: float, size: float) -> float:
        """Return the factor of a bet on the target against a rate beyond it."""
        still = self.find_rate(side, ratio)
        off = min(1.0 - still, max(-still, size * (miss - still)))
        return 1.0 + bet_on(self.targets[side], against=still) * off


@lru_cache(maxsize=4096)
def find_bets(alpha: float, root: int) -> Bets:
    """Return the bets where answers are root^2 stale."""
    allowed = 1.0 + root / _ALLOWED
    return make_bets(min(alpha * allowed, max(alpha, 0.5)), alpha / allowed**3)


@lru_cache(maxsize=4096)
def make_bets(high: float, low: float) -> Bets:
    bets = Bets((high, low))
    above = [bet_on(bets.find_rate(0, ratio), against=high) for ratio in ABOVE]
    below = [bet_on(bets.find_rate(1, ratio), against=low) for ratio in BELOW]
    return bets._replace(slopes=(*above, *below))


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
    is_two_sided
        Whether too few misses break the promise as too many do: not where everything may be referred,
        nor where no set is empty.

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
    is_two_sided: bool = True

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise InvalidError(f"alpha {self.alpha} is not between 0 and 1; try 0.1")
        for name in ("run_length", "clearing"):
            if not 1.0 <= getattr(self, name) < math.inf:
                raise InvalidError(f"{name} {getattr(self, name)} is not a number of rounds; try 1e6")

    def observe(
        self,
        watch: Watch,
        miss: float,
        weight: float = 1.0,
        *,
        heard: float = math.inf,
        stale: float = 0.0,
    ) -> None:
        """Count a round: 0 for a hit, 1 for a miss, between them what is half a miss.

        ``weight`` is 1 / chance of an answer that came with a known chance. ``heard`` is how many
        answers the learner had heard when it predicted the round, ``stale`` how stale answers are.
        """
        known, late = (heard - watch.heard) * self.alpha, stale * self.alpha
        settled = []
        starting = watch.tested == 0
        if starting:
            settled = [known >= most + times * late for most, times in _MOST_HEARD]
            settled[1] = settled[1] or not self.is_two_sided
            if all(settled):
                watch.begin_anew()
                starting = False
        watch.rounds += 1
        is_heard = known >= _HEARD + late / 2.0
        if not is_heard and not (starting and heard - watch.heard >= _PLAIN_HEARD + stale / 2.0):
            return
        if (share := self._find_share(miss) / weight) < watch.scale:
            watch.lower(share)
            return
        before = _count_together(watch, heard, miss, weight)
        bets = find_bets(self.alpha, math.ceil(math.sqrt(stale)) if stale else 0)
        size = watch.scale * weight
        if starting:
            if not self._see_failure(watch, bets, miss, size) and is_heard:
                _settle(watch, bets, settled, miss, size)
        elif watch.alarm:
            self._doubt(watch, bets, miss, size)
        else:
            self._bet(watch, bets.after(*before) if before[0] else bets, miss, size)

    def _find_share(self, miss: float) -> float:
        """Return how much of a bet on an answer there may be: all of it, unless it is beyond 0 or 1."""
        if 0.0 <= miss <= 1.0:
            return 1.0
        return (
            self.alpha / (self.alpha - miss) if miss < 0.0 else (1.0 - self.alpha) / (miss - self.alpha)
        )

    def _see_failure(self, watch: Watch, bets: Bets, miss: float, size: float) -> bool:
        """Bet on a rate of 3/4 against 1/2 while it is too early for more; alarm where that is won."""
        if watch.evidence[_PLAIN] == 0.0:
            watch.starts[_PLAIN] = watch.rounds
        usual = max(0.5, bets.targets[0])
        factor = 1.0 + bet_on((1.0 + usual) / 2.0, against=usual) * size * (miss - usual)
        watch.evidence[_PLAIN] = (1.0 + watch.evidence[_PLAIN]) * factor
        _stretch(watch, _PLAIN, factor)
        if watch.evidence[_PLAIN] < self.run_length:
            return False
        watch.tested = watch.rounds
        _raise(watch, _PLAIN)
        return True

    def _bet(self, watch: Watch, bets: Bets, miss: float, size: float) -> None:
        high, low = bets.targets
        above, below = size * (miss - high), size * (miss - low)
        evidence, most = watch.evidence, 0.0
        slopes = bets.slopes if self.is_two_sided else bets.slopes[: len(ABOVE)]
        for k, bet in enumerate(slopes):
            factor = 1.0 + bet * (above if bet > 0.0 else below)
            evidence[k] = worth = (1.0 + evidence[k]) * factor
            if worth > most:
                most = worth
            _stretch(watch, k, factor)
        if most >= self.run_length:  # Otherwise their weighted mean is not.
            worths = [weight * one for weight, one in zip(_WEIGHTS, evidence, strict=True)]
            if add_up(worths) >= self.run_length:
                _raise(watch, worths.index(max(worths)))

    def _doubt(self, watch: Watch, bets: Bets, miss: float, size: float) -> None:
        side = 0 if watch.alarm is Alarm.TOO_MANY else 1
        watch.doubts[side] = (1.0 + watch.doubts[side]) * bets.doubt(side, watch.ratio, miss, size)
        if watch.doubts[side] >= self.clearing:
            watch.cleared = watch.rounds
            watch.begin_anew()


def _count_together(watch: Watch, heard: float, miss: float, weight: float) -> tuple[float, float]:
    """Count a round among those decided together; return how many were before it, and their misses."""
    moment, rounds, misses = watch.together
    if heard != moment or heard == math.inf:
        rounds, misses = 0.0, 0.0
    known = min(1.0, max(0.0, miss))
    watch.together = [heard, rounds + weight, misses + weight * known]
    return rounds, misses


def _settle(watch: Watch, bets: Bets, settled: list[bool], miss: float, size: float) -> None:
    """End the start once the misses have come to the target from both sides, or should have."""
    for side, ratio in enumerate(_UNSETTLED):
        worth = max(1.0, watch.doubts[side]) * bets.doubt(side, ratio, miss, size)
        watch.doubts[side] = math.inf if settled[side] or worth >= _SETTLED else worth
    if watch.doubts == [math.inf] * 2:
        watch.begin_anew()


def _stretch(watch: Watch, k: int, factor: float) -> None:
    """Lengthen the stretch up to now that is worth most, or begin it anew."""
    stretch = watch.walks[k] * factor
    if stretch > 1.0:
        watch.walks[k] = stretch
    else:
        watch.walks[k], watch.starts[k] = 1.0, watch.rounds + 1


def _raise(watch: Watch, best: int) -> None:
    above = best < len(ABOVE)
    watch.alarm = Alarm.TOO_MANY if above else Alarm.TOO_FEW
    low, high = _STILL[0 if above else 1]
    watch.ratio = min(high, max(low, (ABOVE + BELOW)[best]))
    watch.since, watch.raised = watch.starts[best], watch.rounds
    watch.alarms += 1


@lru_cache(maxsize=1024)
def find_monitor(alpha: float, *, is_two_sided: bool = True) -> Monitor:
    """Return the monitor of a miss rate, with the usual run length."""
    return Monitor(alpha=alpha, is_two_sided=is_two_sided)


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


def bound_misses(rounds: float, *, alpha: float, error: float = 0.01) -> tuple[float, float]:
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

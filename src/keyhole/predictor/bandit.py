"""EXP3.P as a plain bandit over any bounded gain."""

import math

import numpy as np

from keyhole.checks import is_real
from keyhole.errors import InvalidError, TheoryWarning, warn_user
from keyhole.grid import uniform
from keyhole.learners import strategy
from keyhole.learners.parameters import HORIZON
from keyhole.numeric import Array
from keyhole.predictor.draws import check_seed, make_draws


class Exp3P:
    """Chooses among arms by EXP3.P, and learns from the gain of the one it chose.

    Its regret against the best arm in hindsight is bounded for any gains: ``bounds.exp3p_regret``.

    Parameters
    ----------
    arms
        How many there are.
    horizon
        Number of rounds to come; None starts afresh in epochs of doubling length.
    low, high
        Between which every gain lies.
    bonus, exploration, rate
        Beta, gamma and eta; by default tuned to the horizon.
    seed
        Fixes every draw.

    Examples
    --------
    >>> bandit = Exp3P(arms=3, horizon=1000, seed=7)
    >>> for _ in range(1000):
    ...     bandit.report(1.0 if bandit.choose() == 2 else 0.0)
    >>> int(bandit.probabilities.argmax())
    2
    """

    def __init__(
        self,
        *,
        arms: int,
        horizon: int | None = None,
        low: float = 0.0,
        high: float = 1.0,
        bonus: float | None = None,
        exploration: float | None = None,
        rate: float | None = None,
        seed: int | None = None,
    ) -> None:
        if not (is_real(low) and is_real(high) and low < high):
            raise InvalidError(f"gains from {low!r} to {high!r} have no span; give low < high, finite")
        tuning = strategy.Tuning(bonus=bonus, exploration=exploration, rate=rate)
        count = uniform(arms).size
        self._horizon = HORIZON.check("horizon", horizon)
        lengths = strategy.epoch_lengths(count, self._horizon)
        self._epochs = np.array([tuning.make_epoch(count, length) for length in lengths])
        self._low, self._span = low, high - low
        self._state = strategy.start_arms(count)
        self._memo = np.zeros(strategy.memory_of(count))
        self._seed = check_seed(seed)
        self._round = 0
        self._chosen = False

    def __repr__(self) -> str:
        likely = self.probabilities
        best = int(likely.argmax())
        told = f"{self._round:,} rounds, arm {best} most likely ({likely[best]:.3f})"
        return f"<Exp3P, {likely.size} arms: {told}>"

    @property
    def probabilities(self) -> Array:
        """How likely each arm is to be chosen next."""
        return strategy.probabilities(self._epochs, self._state)

    def choose(self) -> int:
        """Return the arm of this round; a second call before ``report`` returns the same one."""
        draw = float(make_draws(self._seed, self._round, 1)[0])
        self._chosen = True
        return int(strategy.choose_arm(self._epochs, self._state, self._memo, draw))

    def report(self, gain: float) -> None:
        """Learn the gain of the arm that was chosen."""
        if not self._chosen:
            raise InvalidError("no arm was chosen since the last report; call choose first")
        share = (gain - self._low) / self._span if is_real(gain) else math.nan
        if not 0.0 <= share <= 1.0:
            raise InvalidError(
                f"gain {gain!r} is outside [{self._low}, {self._low + self._span}]; "
                "give low and high that hold every gain"
            )
        strategy.reward(self._epochs, self._state, self._memo, share)
        self._chosen = False
        self._round += 1
        if self._horizon is not None and self._round == self._horizon + 1:
            warn_user(
                f"the bandit goes on past its horizon of {self._horizon} rounds; its rates were "
                "tuned for that many",
                TheoryWarning,
            )

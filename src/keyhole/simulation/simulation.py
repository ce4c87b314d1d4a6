"""What was played, to look at: thresholds, misses and scores of every run."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import InvalidError
from keyhole.learners import Learner
from keyhole.numeric import Array
from keyhole.predictor.report import show_rates


@dataclass(frozen=True)
class Simulation:
    """What was played: one row per run, one column per round.

    Parameters
    ----------
    learner
        The rule that played, with its parameters.
    thresholds, misses, scores
        The thresholds, whether each missed, and the scores of the true labels.

    Examples
    --------
    >>> from keyhole import make, simulate
    >>> played = simulate(make("logit-tracker", alpha=0.1), [0.9, 0.8, 0.1], runs=2)
    >>> played
    <Simulation of logit-tracker, alpha 0.1: 2 runs of 3 rounds, miss rate 0.3333>
    >>> played.misses[0].tolist()
    [False, False, True]
    """

    learner: Learner
    thresholds: Array
    misses: NDArray[np.bool_]
    scores: Array

    def __repr__(self) -> str:
        runs, rounds = self.misses.shape
        played = f"{runs:,} {'run' if runs == 1 else 'runs'} of {rounds:,} rounds"
        return (
            f"<Simulation of {self.learner.name}, alpha {self.learner.alpha:g}: {played}, "
            f"miss rate {self.misses.mean():.4f}>"
        )

    def _repr_html_(self) -> str:
        runs, rounds = self.misses.shape
        rows = {"learner": self.learner.name, "runs": f"{runs:,}", "rounds of each": f"{rounds:,}"}
        return show_rates(rows, float(self.misses.mean()), self.learner.alpha)

    @property
    def arms(self) -> NDArray[np.int64]:
        """Which arm each threshold was; only for learners that choose from a grid."""
        if self.learner.thresholds is None:
            raise InvalidError(f"{self.learner.name} has no grid; use .thresholds")
        return np.searchsorted(self.learner.thresholds, self.thresholds).astype(np.int64)

    def plot(self, *, run: int = 0, window: int | None = None, axes: Any = None) -> Any:
        """Draw one run: its miss rate with the target, and its thresholds; return the two axes."""
        from keyhole.predictor.plot import plot_rounds

        return plot_rounds(
            self.misses[run],
            self.thresholds[run],
            alpha=self.learner.alpha,
            sized="threshold",
            window=window,
            axes=axes,
        )

"""Rounds a second of every learner, and the ratio to its plain NumPy rule. ``make bench``."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from keyhole import LEARNERS, make
from keyhole.learners import Learner, takes
from keyhole.numeric import Array
from keyhole.predictor.draws import make_draws
from keyhole.simulation.simulate import play_clear
from numpy_paper_rules import NumpyMvp, NumpyOcp, NumpySps
from numpy_rule import NumpyUnlockPlus
from rounds import FEW, ROUNDS, best, time_compiled

ARMS = (20, 200)


class NumpyRule(Protocol):
    """A rule that plays one round at a time."""

    def round(self, score: float, draw: float) -> float:
        """Play one round and return the threshold played."""


PLAIN: dict[str, Callable[[Learner], NumpyRule]] = {
    "ocp-bandit": NumpyOcp,
    "ocp-unlock": NumpyOcp,
    "ocp-unlock+": NumpyUnlockPlus,
    "sps": NumpySps,
    "mvp": NumpyMvp,
}


def plain(learner: Learner, scores: Array) -> float:
    """Microseconds a round of the NumPy rule, after it has shown that it plays the same."""
    some, uniforms = scores[:FEW].tolist(), make_draws(0, 0, FEW).tolist()

    def rounds() -> list[float]:
        rule = PLAIN[learner.name](learner)
        return [rule.round(score, draw) for score, draw in zip(some, uniforms, strict=True)]

    same = np.empty(FEW)
    play_clear(learner, scores[:FEW], 0, same, np.empty(FEW, dtype=np.bool_))
    differing = int((np.abs(np.array(rounds()) - same) > 1e-9).sum())
    assert differing <= FEW // 1000, f"the NumPy rule of {learner.name} plays other thresholds"
    return best(rounds, FEW)


def main() -> None:
    scores = np.random.default_rng(0).beta(6, 2, ROUNDS)
    print(f"{'learner':<16}{'arms':>6}{'rounds a second':>18}{'plain NumPy':>14}{'ratio':>8}")
    for name, rule in LEARNERS.items():
        for arms in ARMS if "arms" in takes(rule) else (None,):
            horizon = ROUNDS if "horizon" in takes(rule) else None
            learner = make(name, alpha=0.1, horizon=horizon, arms=arms)
            fast = time_compiled(learner, scores)
            line = f"{name:<16}{arms or '-':>6}{1e6 / fast:>18,.0f}"
            if name in PLAIN:
                slow = plain(learner, scores)
                line += f"{1e6 / slow:>14,.0f}{slow / fast:>7,.0f}x"
            print(line)


if __name__ == "__main__":
    main()

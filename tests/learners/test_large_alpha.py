"""A forecaster's interval of 50 % is an alpha of one half: the default learners take it, and more."""

from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole import bounds
from keyhole.errors import InvalidError

RULES: list[tuple[str, dict[str, Any]]] = [
    ("informed-tracker", {}),
    ("contextual-tracker", {"features": 1}),
]


def play(predictor: Any, truth: Any) -> list[float]:
    """Return the excess of misses over alpha after every round; ``truth`` is of an interval."""
    excess, sums = 0.0, []
    for n in range(1_200):
        shown = predictor.predict(0.0, features=[n % 7] if predictor.learner.features else None)
        value = truth(shown, n)
        predictor.learn(shown, label=value)
        excess += (value not in shown) - predictor.alpha
        sums.append(excess)
    return sums


def make(name: str, options: Any, alpha: float) -> Any:
    learner = keyhole.LEARNERS[name](alpha=alpha, **options)
    return keyhole.Predictor(learner, score=keyhole.ScaledResiduals(scale=1.0), seed=1)


@pytest.mark.parametrize("alpha", [0.5, 0.6, 0.79])
@pytest.mark.parametrize(("name", "options"), RULES)
def test_intervals_miss_as_often_as_they_may(name: str, options: Any, alpha: float) -> None:
    draws = np.random.default_rng(4).normal(size=1_200)
    predictor = make(name, options, alpha)
    play(predictor, lambda _, n: draws[n])
    assert abs(predictor.miss_rate - alpha) < 3 * np.sqrt(alpha * (1 - alpha) / 1_200)


@pytest.mark.parametrize("alpha", [0.5, 0.79])
@pytest.mark.parametrize(("name", "options"), RULES)
@pytest.mark.parametrize("wants_miss", [True, False])
def test_no_adversary_passes_the_bound(
    name: str, options: Any, alpha: float, *, wants_miss: bool
) -> None:
    """He misses every interval that can be missed, or none; at a guard the outcome is forced."""

    def answer(shown: Any, _: int) -> float:
        if wants_miss:
            return shown.upper + 1.0 if np.isfinite(shown.upper) else 0.0
        return 0.0 if not shown.is_empty else 1.0

    predictor = make(name, options, alpha)
    sums = play(predictor, answer)
    bound = bounds.excess(predictor.learner, rounds=1_200)
    assert bound.least <= min(sums)
    assert max(sums) <= bound.most
    assert max(sums) > 40.0 if wants_miss else min(sums) < -40.0  # He gets somewhere.


@pytest.mark.parametrize("name", ["logit-tracker", "pi", "kt"])
def test_other_rules_stay_below_one_half_and_a_coverage_is_no_alpha(name: str) -> None:
    with pytest.raises(InvalidError, match=r"alpha 0\.5 is not a number between 0 and 0\.5"):
        keyhole.make(name, alpha=0.5)
    for wrong in (0.8, 0.9, 0.95):
        with pytest.raises(InvalidError, match=r"between 0 and 0\.8; it is the share of misses"):
            keyhole.Predictor(alpha=wrong)

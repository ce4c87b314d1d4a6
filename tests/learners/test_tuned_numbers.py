"""Numbers inside the rules that no miss rate would betray, each against what it is defined by."""

import math

import numpy as np
import pytest

from keyhole import make, simulate
from keyhole.learners.rules.agaci import _power_of_two
from keyhole.learners.strategy import theorem_horizon
from keyhole.numeric import Array


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_without_horizon_every_label_is_shown_until_the_union_over_all_rounds_is_paid(
    alpha: float,
) -> None:
    """Kills: growth 2 -> 1. Round t risks 6 delta / (pi t)^2, whose sum over all rounds is delta."""
    risked = [6.0 * 0.05 / (math.pi * t) ** 2 for t in range(1, 10_001)]
    first = next(
        t for t, risk in enumerate(risked, start=1) if math.log(2.0 / risk) / (2.0 * t) <= alpha**2
    )
    played = simulate(make("sps", alpha=alpha), np.ones(10_000)).thresholds[0]
    assert int(np.argmax(played > 0.0)) == first  # the round after it


@pytest.mark.parametrize("buckets", [10, 40])
def test_rate_is_tuned_by_the_sum_over_visits(buckets: int) -> None:
    """Kills: another K_eps than sum over n of 1 / ((n + 1) log2(n + 2)^2).

    Beyond n = N the sum is ln(2)^2 / ln N up to one part in N: its terms are below 1 / (n ln^2 n).
    """
    n = np.arange(10**6)
    visits = (1.0 / ((n + 1) * np.log2(n + 2) ** 2)).sum() + math.log(2.0) ** 2 / math.log(10**6)
    rate = make("mvp", alpha=0.1, options={"buckets": buckets}).parameters.rate
    assert math.log(buckets) / (2.0 * buckets * rate**2) == pytest.approx(visits, abs=1e-3)


@pytest.mark.parametrize(
    ("x", "power"), [(0.25, 0.25), (0.2500001, 0.5), (0.5, 0.5), (1.0, 1.0), (1.5, 2.0), (0.001, 2**-9)]
)
def test_ranges_of_agaci_are_rounded_up_to_a_power_of_two(x: float, power: float) -> None:
    assert _power_of_two(x) == power


@pytest.mark.parametrize(("arms", "rounds"), [(5, 117), (20, 265), (200, 4674)])
def test_the_theorem_begins_where_exploration_is_a_half_and_beta_a_nineteenth(
    arms: int, rounds: int
) -> None:
    """max(4 x 1.05^2 K ln K, 361 ln K / K), rounded up: 116.2, 264.2 and 4673.1."""
    assert theorem_horizon(arms) == rounds


def aggregated_by_definition(scores: Array, *, alpha: float, steps: list[float]) -> list[float]:
    """Bernstein online aggregation of trackers that all step with the played outcome."""
    own, played = np.full(len(steps), 0.5), []
    losses, squares, largest = (np.zeros(len(steps)) for _ in range(3))
    rates = np.ones(len(steps))
    for score in scores:
        weights = rates * np.exp(-rates * losses - (-rates * losses).max())
        threshold = float(weights @ own / weights.sum())
        played.append(max(threshold, 0.0))
        error = float(score < played[-1]) - alpha
        loss = error * (own - threshold)
        squares += loss**2
        largest = np.maximum(largest, np.abs(loss))
        scale = 2.0 ** (np.ceil(np.log2(largest + 0.001)) + 1.0)
        losses += 0.5 * (loss * (1.0 + rates * loss) + scale * (rates * loss > 0.5))
        tuned = np.minimum(1.0 / scale, np.sqrt(math.log(len(steps)) / np.maximum(squares, 1e-300)))
        rates = np.where(squares > 0.0, tuned, rates)  # no loss yet, nothing to tune by
        own -= np.array(steps) * error
    return played


@pytest.mark.parametrize("steps", [[0.05, 2.0], [0.01, 0.5, 3.0]])
def test_agaci_punishes_an_expert_whose_loss_was_too_large_for_its_rate(steps: list[float]) -> None:
    """Kills: the term for rate x loss > 1/2 dropped, which only steps of different orders reach."""
    scores = np.random.default_rng(4).beta(2, 2, 60)
    played = simulate(make("agaci", alpha=0.1, options={"steps": steps}), scores, feedback="bandit")
    expected = aggregated_by_definition(scores, alpha=0.1, steps=steps)
    assert played.thresholds[0] == pytest.approx(expected, abs=1e-9)

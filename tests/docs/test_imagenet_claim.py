"""What the documentation says of real ImageNet outputs, where there is a file of them."""

from pathlib import Path

import pytest

from keyhole import Regime
from keyhole.compare import listing
from keyhole.compare.contest import Contest, Terms, hold

STREAMS = ["imagenet", "imagenet-shift"]


@pytest.fixture(scope="module")
def contest(mobilenet: Path) -> Contest:
    terms = Terms(alpha=0.1, regime=Regime.SEMI_BANDIT, rounds=50_000, runs=1, arms=200)
    streams = listing.chosen(STREAMS, listing.listing(imagenet_file=mobilenet))
    return hold(["logit-tracker", "ocp-unlock+"], streams, terms)


def figures(contest: Contest, learner: str, stream: str) -> tuple[float, float]:
    cell = next(c for c in contest.cells if (c.learner, c.stream) == (learner, stream))
    return cell.figures["miss_rate"].mean, cell.figures["size_to_best_per_segment"].mean


@pytest.mark.parametrize("stream", STREAMS)
def test_default_learner_is_on_target_within_a_tenth_of_the_best_size(
    contest: Contest, stream: str
) -> None:
    rate, ratio = figures(contest, "logit-tracker", stream)
    assert abs(rate - 0.1) <= 0.003
    assert ratio <= 1.1


@pytest.mark.parametrize("stream", STREAMS)
def test_papers_learner_needs_sets_many_times_as_large(contest: Contest, stream: str) -> None:
    rate, ratio = figures(contest, "ocp-unlock+", stream)
    assert rate > 0.115
    assert ratio > 8.0

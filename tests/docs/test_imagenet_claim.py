"""What the documentation says of real ImageNet outputs, where there is a file of them."""

from pathlib import Path

import pytest

from keyhole.feedback import Feedback
from keyhole.studies.compare import listing
from keyhole.studies.compare.contest import Contest, Terms, run_contest

SCENARIOS = ["imagenet", "imagenet-shift"]


@pytest.fixture(scope="module")
def contest(mobilenet: Path) -> Contest:
    terms = Terms(alpha=0.1, feedback=Feedback.SEMI_BANDIT, rounds=50_000, runs=1, arms=200)
    scenarios = listing.pick_scenarios(SCENARIOS, listing.list_scenarios(imagenet_file=mobilenet))
    return run_contest(["logit-tracker", "ocp-unlock+"], scenarios, terms)


def figures(contest: Contest, learner: str, scenario: str) -> tuple[float, float]:
    cell = next(c for c in contest.cells if (c.learner, c.scenario) == (learner, scenario))
    return cell.figures["miss_rate"].mean, cell.figures["size_to_best_per_segment"].mean


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_default_learner_is_on_target_within_a_tenth_of_the_best_size(
    contest: Contest, scenario: str
) -> None:
    rate, ratio = figures(contest, "logit-tracker", scenario)
    assert abs(rate - 0.1) <= 0.003
    assert ratio <= 1.1


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_papers_learner_needs_sets_many_times_as_large(contest: Contest, scenario: str) -> None:
    rate, ratio = figures(contest, "ocp-unlock+", scenario)
    assert rate > 0.115
    assert ratio > 8.0

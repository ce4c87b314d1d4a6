import pytest

from keyhole.feedback import Feedback
from keyhole.studies.compare import listing
from keyhole.studies.compare.contest import Contest, Terms, run_contest


@pytest.fixture(scope="session")
def contest() -> Contest:
    """Three learners, one of which needs more feedback than there is, in three scenarios."""
    terms = Terms(alpha=0.1, feedback=Feedback.SEMI_BANDIT, rounds=1_500, runs=3)
    names = ["fall", "digits-by-label", "lure-and-strike"]
    scenarios = listing.pick_scenarios(names, listing.list_scenarios())
    return run_contest(["logit-tracker", "ocp-unlock+", "dtaci"], scenarios, terms)

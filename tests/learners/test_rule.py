"""What a learner says of itself, which those who play it go by."""

import numpy as np
import pytest

from keyhole import LEARNERS, make
from keyhole.feedback import Needs
from keyhole.learners.rules.contextual_tracker import contextual_tracker


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_only_who_draws_or_knows_the_case_reads_what_it_is_asked_with(name: str) -> None:
    learner = make(name, alpha=0.1, horizon=1_000 if name.startswith(("ocp", "exp")) else None)
    assert learner.reads_ask == learner.rule.draws
    assert (learner.features, learner.groups, learner.context) == (0, 0, 0)
    assert not learner.weighs_size
    assert learner.make_unknown_context().size == 0


@pytest.mark.parametrize(("features", "groups"), [(2, 0), (0, 2), (1, 1)])
def test_one_with_features_or_groups_reads_them_and_is_not_interpreted(
    features: int, groups: int
) -> None:
    learner = contextual_tracker(alpha=0.1, features=features, groups=groups)
    assert (learner.features, learner.groups, learner.context) == (features, groups, 2)
    assert learner.reads_ask
    assert not learner.runs_interpreted
    assert np.isnan(learner.make_unknown_context()).sum() == features
    assert (learner.make_unknown_context() == 0.0).sum() == groups


def test_one_that_weighs_size_says_so_and_needs_the_label_of_a_hit() -> None:
    learner = contextual_tracker(alpha=0.1, features=1, size_weight=0.01)
    assert (learner.weighs_size, learner.needs) == (True, Needs.LABEL_IF_HIT)


def test_the_table_tells_of_the_horizon_and_the_grid() -> None:
    learner = make("ocp-unlock+", alpha=0.1, horizon=2_000, arms=9)
    assert learner.horizon == 2_000
    assert learner.thresholds is not None
    assert learner.thresholds.tolist() == pytest.approx(np.linspace(0.0, 1.0, 9))
    assert make("logit-tracker", alpha=0.1).thresholds is None
    learner.thresholds[0] = 0.5  # a copy
    assert learner.thresholds[0] == 0.0

"""What a theorem says of every sequence holds on every sequence, adversaries included: no tolerance."""

import numpy as np
import pytest

from keyhole import LEARNERS, make, simulate
from keyhole.errors import TheoremError
from keyhole.learners import Learner, bounds, make_suited, safety_valve
from keyhole.numeric import Array, can_compile
from keyhole.scenarios.drifts import DRIFTS
from keyhole.simulation import Simulation, simulate_against
from keyhole.simulation.adversaries import ADVERSARIES

ROUNDS = 4_000
BOUNDED = sorted(
    name
    for name, rule in LEARNERS.items()
    if hasattr(rule.parameters, "excess") and name != "tracker-decaying"
)
ATTACKS = {
    "hits then misses": np.concatenate((np.ones(1_000), np.zeros(ROUNDS - 1_000))),
    "misses then hits": np.concatenate((np.zeros(1_000), np.ones(ROUNDS - 1_000))),
    "alternation": np.resize([1.0, 0.0], ROUNDS),
    "long waves": np.repeat(np.resize([1.0, 0.0], 8), ROUNDS // 8),
}


def excesses(run: Simulation) -> Array:
    return np.cumsum(run.misses - run.learner.alpha, axis=1)


def runs(learner: Learner) -> list[Simulation]:
    """One run on every sequence there is."""
    streams = [drift(ROUNDS, seed=3).scores for drift in DRIFTS.values()]
    obliviously = [simulate(learner, s, feedback="full") for s in (*streams, *ATTACKS.values())]
    watched = [
        simulate_against(learner, name, rounds=ROUNDS, feedback="full", seed=3) for name in ADVERSARIES
    ]
    return obliviously + watched


def assert_bounds_hold(learner: Learner) -> None:
    limits = np.array([bounds.excess(learner, rounds=n) for n in range(1, ROUNDS + 1)])
    slack = 1e-9 * ROUNDS  # the rounding of a sum of that many terms
    for run in runs(learner):
        for row in excesses(run):
            assert (row >= limits[:, 0] - slack).all()
            assert (row <= limits[:, 1] + slack).all()


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("name", BOUNDED)
def test_excess_of_misses_stays_within_its_theorem(name: str, alpha: float) -> None:
    assert_bounds_hold(make(name, alpha=alpha))


# Compiling two loops around each of them takes longer than playing them; tests/learners/test_valve.py
# compiles valves.
@pytest.mark.skipif(can_compile(), reason="the interpreted lane plays them")
@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_behind_a_valve_every_learner_keeps_the_valves_bound(name: str) -> None:
    learner = make_suited(name, alpha=0.1, horizon=ROUNDS, arms=20)
    assert_bounds_hold(safety_valve(learner))


def test_learners_without_a_theorem_say_so() -> None:
    with pytest.raises(TheoremError, match="behind a valve"):
        bounds.excess(make("ocp-unlock+", alpha=0.1, horizon=ROUNDS), rounds=ROUNDS)

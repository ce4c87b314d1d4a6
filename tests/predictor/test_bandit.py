import numpy as np
import pytest

from keyhole import make, simulate
from keyhole.errors import HorizonError, InvalidError, TheoryWarning
from keyhole.predictor.bandit import Exp3P


def test_ocp_bandit_is_exp3p_on_the_papers_loss() -> None:
    scores = np.random.default_rng(4).beta(4, 2, 3_000)
    learner = make("ocp-bandit", alpha=0.1, horizon=3_000, arms=12)
    bandit = Exp3P(arms=12, horizon=3_000, seed=21)
    chosen = []
    for score in scores:
        arm = bandit.choose()
        chosen.append(arm)
        covered = learner.settings.grid[arm] <= score
        gains = learner.settings.hit_gains if covered else learner.settings.miss_gains
        bandit.report(float(gains[0, arm]))
    assert (simulate(learner, scores, seed=21).arms[0] == chosen).all()


def test_gains_are_normalised_by_their_bounds() -> None:
    plain, scaled = (
        Exp3P(arms=5, horizon=500, seed=1),
        Exp3P(arms=5, horizon=500, low=-2, high=2, seed=1),
    )
    for _ in range(300):
        assert plain.choose() == scaled.choose()
        plain.report(0.75)
        scaled.report(1.0)


def test_choice_is_the_same_until_it_is_reported() -> None:
    bandit = Exp3P(arms=5, horizon=500, seed=1)
    assert len({bandit.choose() for _ in range(20)}) == 1


def test_going_past_the_horizon_is_said_once() -> None:
    bandit = Exp3P(arms=5, horizon=20, seed=1)
    for _ in range(20):
        bandit.choose()
        bandit.report(0.5)
    bandit.choose()
    with pytest.warns(TheoryWarning, match="horizon of 20"):
        bandit.report(0.5)
    bandit.choose()
    bandit.report(0.5)


def test_unknown_horizon_restarts() -> None:
    bandit = Exp3P(arms=5, seed=1)
    for _ in range(117):
        bandit.report(1.0 if bandit.choose() == 2 else 0.0)
    assert bandit.probabilities == pytest.approx([0.2] * 5)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"arms": 1}, InvalidError, "1 arms are not"),
        ({"arms": 200, "horizon": 1_000}, HorizonError, "too short for 200 arms.*at least 1169"),
        ({"arms": 5, "horizon": 0}, HorizonError, "horizon 0"),
        ({"arms": 5, "horizon": 2.5}, HorizonError, "horizon 2.5"),
        ({"arms": 5, "low": 1.0, "high": 1.0}, InvalidError, "no span"),
        ({"arms": 5, "exploration": 1.5}, InvalidError, "exploration"),
        ({"arms": 5, "bonus": -0.1}, InvalidError, "bonus"),
        ({"arms": 5, "rate": 0.0}, InvalidError, "rate"),
    ],
)
def test_bad_arguments_are_named(
    arguments: dict[str, float], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        Exp3P(**arguments)  # type: ignore[arg-type]


def test_report_wants_a_choice_and_a_gain_in_bounds() -> None:
    bandit = Exp3P(arms=5, horizon=500, seed=1)
    with pytest.raises(InvalidError, match="no arm was chosen"):
        bandit.report(0.5)
    bandit.choose()
    with pytest.raises(InvalidError, match=r"gain 1.5 is outside"):
        bandit.report(1.5)
    with pytest.raises(InvalidError, match="gain nan"):
        bandit.report(float("nan"))


def test_a_bandit_tells_which_arm_it_favours() -> None:
    bandit = Exp3P(arms=3, horizon=1_000, seed=7)
    for _ in range(1_000):
        bandit.report(1.0 if bandit.choose() == 2 else 0.0)
    favourite = f"{bandit.probabilities[2]:.3f}"
    assert repr(bandit) == f"<Exp3P, 3 arms: 1,000 rounds, arm 2 most likely ({favourite})>"


def test_gains_are_numbers_and_so_are_their_ends() -> None:
    with pytest.raises(InvalidError, match="gains from 'a' to"):
        Exp3P(arms=3, low="a")  # type: ignore[arg-type]
    bandit = Exp3P(arms=3, seed=7)
    bandit.choose()
    for gain in ("a", float("nan")):
        with pytest.raises(InvalidError, match=r"is outside \[0\.0, 1\.0\]"):
            bandit.report(gain)  # type: ignore[arg-type]

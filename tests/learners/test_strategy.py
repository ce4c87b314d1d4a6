"""The rates of EXP3.P, given or tuned."""

import itertools
import math

import pytest

from keyhole import make
from keyhole.errors import HorizonError, InvalidError
from keyhole.learners.strategy import Tuning, epoch_lengths, theorem_horizon


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({"exploration": 1.0}, True),
        ({"exploration": 1.0001}, False),
        ({"exploration": 0.0}, False),
        ({"rate": 1e-9}, True),
        ({"rate": 5.0}, True),
        ({"rate": 0.0}, False),
        ({"bonus": 0.0}, True),
        ({"bonus": 7.0}, True),
        ({"bonus": -1e-9}, False),
    ],
)
def test_rates_may_be_given_within_their_ranges(given: dict[str, float], *, fits: bool) -> None:
    if fits:
        epoch = Tuning(**given).make_epoch(10, 5_000)._asdict()
        assert {name: epoch[name] for name in given} == given
    else:
        with pytest.raises(InvalidError):
            Tuning(**given)


def test_tuned_rates_are_those_of_the_theorem() -> None:
    """beta = sqrt(ln K / (K T)), eta = 0.95 sqrt(ln K / (K T)), gamma = 1.05 sqrt(K ln K / T)."""
    arms, length = 20, 50_000
    epoch = Tuning().make_epoch(arms, length)
    root = math.sqrt(math.log(arms) / (arms * length))
    assert epoch.bonus == pytest.approx(root)
    assert epoch.rate == pytest.approx(0.95 * root)
    assert epoch.exploration == pytest.approx(1.05 * arms * root)
    assert epoch.length == length


def test_the_first_epoch_is_the_first_that_the_theorem_allows_and_the_others_double() -> None:
    first = theorem_horizon(20)
    lengths = epoch_lengths(20, None)
    assert lengths[0] == first == math.ceil(4.0 * 1.05**2 * 20 * math.log(20))
    assert all(after == 2 * before for before, after in itertools.pairwise(lengths))
    assert theorem_horizon(3) == math.ceil(361.0 * math.log(3) / 3)
    assert epoch_lengths(20, 77) == [77]


def test_a_horizon_that_leaves_no_room_is_refused_with_one_that_does() -> None:
    with pytest.raises(
        HorizonError, match=r"exploration would be 1.\d\d > 1; use at least (\d+)"
    ) as told:
        make("ocp-bandit", alpha=0.1, horizon=60, arms=20)
    least = int(str(told.value).split("at least ")[1].split()[0])
    assert 1.05**2 * 20 * math.log(20) <= least < 1.05**2 * 20 * math.log(20) + 1
    make("ocp-bandit", alpha=0.1, horizon=least, arms=20)
    with pytest.raises(HorizonError):
        make("ocp-bandit", alpha=0.1, horizon=least - 1, arms=20)

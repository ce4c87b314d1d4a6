"""The alarm is as rare as it says, as quick as it can be, and remembers when."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from keyhole.errors import InvalidError, SnapshotError
from keyhole.predictor.monitor import (
    ABOVE,
    BELOW,
    Alarm,
    Monitor,
    Watch,
    bound_misses,
    bound_rate,
    draw_in,
    find_monitor,
    unpack,
    weigh_rate,
)


def below(values: list[float], most: float) -> bool:
    """Return whether the mean of what was seen could be at most this: 4 standard errors."""
    return float(np.mean(values)) <= most + 4.0 * float(np.std(values)) / math.sqrt(len(values))


def feed(monitor: Monitor, misses: np.ndarray) -> Iterator[Watch]:
    watch = Watch()
    for miss in misses.tolist():
        monitor.observe(watch, miss)
        yield watch


def raised(monitor: Monitor, misses: np.ndarray) -> list[int]:
    """Return the rounds at which an alarm was raised."""
    return sorted({watch.raised for watch in feed(monitor, misses)} - {0})


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.45])
def test_false_alarms_are_no_more_than_one_in_the_run_length(alpha: float) -> None:
    # Of 1,600 rounds at most 1600 / 200 = 8 in the mean; twice as many would be seen at once.
    monitor, rng = Monitor(alpha=alpha, run_length=200.0, clearing=20.0), np.random.default_rng(1)
    counts = [float(len(raised(monitor, rng.random(1600) < alpha))) for _ in range(150)]
    assert below(counts, 8.0)
    assert np.mean(counts) > 1.0  # And it is not dead.


def test_misses_in_part_raise_no_more_alarms() -> None:
    monitor, rng = Monitor(alpha=0.1, run_length=200.0, clearing=20.0), np.random.default_rng(2)
    counts = [float(len(raised(monitor, rng.beta(0.5, 4.5, size=1600)))) for _ in range(100)]
    assert below(counts, 8.0)


def test_the_run_length_is_a_million_unless_told() -> None:
    assert Monitor(alpha=0.1).run_length == 1e6
    rng = np.random.default_rng(3)
    # 5 runs of 20,000 rounds: a false alarm has a chance of at most 0.1, and this seed shows none.
    assert [raised(Monitor(alpha=0.1), rng.random(20_000) < 0.1) for _ in range(5)] == [[]] * 5


@pytest.mark.parametrize(("ratio", "sides"), [(1.5, ABOVE), (2.0, ABOVE), (0.5, BELOW)])
def test_a_broken_promise_is_found_as_soon_as_wald_says(ratio: float, sides: tuple[float, ...]) -> None:
    alpha, change, rng = 0.1, 500, np.random.default_rng(4)
    rate = ratio * alpha
    divergence = rate * math.log(ratio) + (1 - rate) * math.log((1 - rate) / (1 - alpha))
    most = max(math.log(ratio), math.log((1 - rate) / (1 - alpha)))
    bound = (math.log(1e6 / (0.5 / len(sides))) + most) / divergence
    delays, errors = [], []
    for _ in range(60):
        misses = np.concatenate([rng.random(change) < alpha, rng.random(20_000) < rate])
        watch = next(watch for watch in feed(Monitor(alpha=alpha), misses) if watch.alarm)
        assert watch.alarm is (Alarm.TOO_MANY if ratio > 1 else Alarm.TOO_FEW)
        assert 0 < watch.since <= watch.raised == watch.rounds
        delays.append(float(watch.raised - change))
        errors.append(abs(watch.since - change))
    assert below(delays, bound)
    assert np.median(errors) < bound / 2.0


def ratio_of(rate: float, to: float, miss: float) -> float:
    """The likelihood ratio of one rate to another, linear between a hit and a miss."""
    return miss * rate / to + (1.0 - miss) * (1.0 - rate) / (1.0 - to)


def sum_bets(rate: float, to: float, misses: list[float]) -> float:
    """What bets begun at every round are worth now: a product for each."""
    starts = range(len(misses))
    return sum(math.prod(ratio_of(rate, to, miss) for miss in misses[start:]) for start in starts)


def rates_of(alpha: float, ratios: tuple[float, ...]) -> list[float]:
    """Multiples of alpha, and half way to 1 where that would be more."""
    return [min(alpha * ratio, 0.5 + alpha / 2.0) for ratio in ratios]


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.45])
@pytest.mark.parametrize("chance", [0.02, 0.3, 0.7])
def test_the_alarm_comes_in_the_very_round_in_which_all_bets_are_worth_the_run_length(
    alpha: float, chance: float
) -> None:
    """Kills: the level doubled, a rate or weight changed, a side confused, another stretch."""
    misses = (np.random.default_rng(9).random(150) < chance).astype(float).tolist()
    misses[3] = 0.5
    watch = next(w for w in feed(Monitor(alpha=alpha, run_length=30.0), np.array(misses)) if w.alarm)
    above, below = rates_of(alpha, (1.25, 1.5, 2.0, 4.0)), rates_of(alpha, (0.75, 0.5, 0.1))
    for rounds in (watch.raised - 1, watch.raised):
        heard = misses[:rounds]
        many = [sum_bets(rate, alpha, heard) / 8.0 for rate in above]
        few = [sum_bets(rate, alpha, heard) / 6.0 for rate in below]
        assert (sum(many) + sum(few) >= 30.0) == (rounds == watch.raised)
    assert watch.evidence == pytest.approx([8.0 * one for one in many] + [6.0 * one for one in few])
    assert watch.alarm is (Alarm.TOO_MANY if max(many) > max(few) else Alarm.TOO_FEW)
    # The stretch that speaks loudest for the nearest rate on that side, the latest of equals.
    near = above[0] if watch.alarm is Alarm.TOO_MANY else below[0]
    worth = [
        math.prod(ratio_of(near, alpha, miss) for miss in heard[start:]) for start in range(len(heard))
    ]
    assert watch.since == 1 + int(np.argmax(worth))


@pytest.mark.parametrize(("alarm", "still"), [(Alarm.TOO_MANY, 0.15), (Alarm.TOO_FEW, 0.05)])
def test_the_alarm_ends_in_the_very_round_in_which_bets_on_alpha_are_worth_the_clearing(
    alarm: Alarm, still: float
) -> None:
    """Kills: clearing against another rate than half of alpha more, or less."""
    misses = (np.random.default_rng(10).random(2_000) < 0.1).astype(float).tolist()
    monitor, watch, ended = Monitor(alpha=0.1, clearing=200.0), Watch(alarm=alarm), 0
    while watch.alarm:
        ended += 1
        monitor.observe(watch, misses[ended - 1])
    assert watch.cleared == ended
    for rounds in (ended - 1, ended):
        assert (sum_bets(0.1, still, misses[:rounds]) >= 200.0) == (rounds == ended)


def test_what_is_usual_is_a_false_alarm_in_a_million_rounds_and_a_false_end_in_ten_thousand() -> None:
    assert find_monitor(0.1) == Monitor(alpha=0.1, run_length=1e6, clearing=1e4)


@pytest.mark.parametrize(
    ("miss", "towards", "expected"),
    [
        (1.25, 0.5, 1.0),  # a quarter beyond: both ends drawn in by 2/3, to 1 and 0
        (-0.25, 0.5, 0.0),
        (1.1, 0.1, 0.6),  # as the hit at -.1 must come to 0, everything is drawn in by half
        (-0.1, 0.1, 0.0),
        (1.1, 0.9, 1.0),
        (-0.1, 0.9, 0.4),
    ],
)
def test_an_answer_beyond_hit_and_miss_is_drawn_in_and_keeps_its_mean(
    miss: float, towards: float, expected: float
) -> None:
    assert draw_in(miss, towards=towards) == pytest.approx(expected, abs=1e-12)


def test_the_evidence_against_a_rate_is_the_mixture_over_all_others() -> None:
    """By quadrature: the mean of the likelihood ratio of q to p, q ~ Beta(1/2, 1/2)."""
    angles = (np.arange(200_000) + 0.5) / 200_000 * math.pi / 2.0
    q = np.sin(angles) ** 2  # then q has that distribution
    for misses, rounds, rate in ((0, 3, 0.1), (2, 7, 0.3), (5, 5, 0.6)):
        ratios = (q / rate) ** misses * ((1.0 - q) / (1.0 - rate)) ** (rounds - misses)
        assert weigh_rate(misses, rounds, rate) == pytest.approx(math.log(ratios.mean()), abs=1e-6)


def test_an_alarm_lasts_while_it_is_right_and_ends_when_all_is_well() -> None:
    rng = np.random.default_rng(5)
    misses = np.concatenate([rng.random(1500) < 0.2, rng.random(6000) < 0.1])
    watches = [(watch.alarm, watch.cleared) for watch in feed(Monitor(alpha=0.1), misses)]
    assert watches[1499] == (Alarm.TOO_MANY, 0)
    assert watches[-1][0] is Alarm.NONE
    assert 1500 < watches[-1][1] <= 7500


def test_an_alarm_that_is_right_is_seldom_cleared() -> None:
    # At 1.5 alpha, for good: at most 2000 / 100 = 20 in the mean are cleared.
    monitor, rng = Monitor(alpha=0.1, clearing=100.0), np.random.default_rng(6)
    counts = []
    for _ in range(60):
        watch = Watch(alarm=Alarm.TOO_MANY)
        cleared = 0
        for miss in (rng.random(2000) < 0.15).tolist():
            monitor.observe(watch, miss)
            if not watch.alarm:
                cleared, watch = cleared + 1, Watch(alarm=Alarm.TOO_MANY)
        counts.append(float(cleared))
    assert below(counts, 20.0)
    assert np.mean(counts) > 0.0


def test_after_an_alarm_the_watch_starts_as_new() -> None:
    monitor, watch = Monitor(alpha=0.1), Watch()
    for miss in [1] * 30 + [0] * 2000:
        monitor.observe(watch, miss)
        if watch.cleared:
            break
    fresh = Watch(rounds=watch.rounds)
    assert (watch.evidence, watch.walks, watch.doubt) == (fresh.evidence, fresh.walks, fresh.doubt)
    assert watch.starts == [watch.rounds + 1] * 2
    assert watch.since == 1
    assert watch.since < watch.raised < watch.cleared == watch.rounds


def test_a_watch_goes_on_from_its_bytes_bit_for_bit() -> None:
    monitor, rng = Monitor(alpha=0.1, run_length=50.0, clearing=5.0), np.random.default_rng(7)
    whole, cut = Watch(), Watch()
    for miss in (rng.random(2000) < 0.15).tolist():
        monitor.observe(whole, miss)
        monitor.observe(cut, miss)
        cut = unpack(cut.pack())
    assert whole == cut
    assert whole.cleared > 0
    assert len(whole.pack()) == len(Watch().pack()) < 150
    with pytest.raises(SnapshotError, match="bytes"):
        unpack(whole.pack()[:-1])


@pytest.mark.parametrize("alpha", [0.0, 1.0, math.nan])
def test_an_alpha_that_is_none_is_refused(alpha: float) -> None:
    with pytest.raises(InvalidError):
        Monitor(alpha=alpha)


@pytest.mark.parametrize("length", [0.0, 0.99, math.inf, math.nan])
def test_a_run_length_that_is_none_is_refused(length: float) -> None:
    with pytest.raises(InvalidError, match="run_length"):
        Monitor(alpha=0.1, run_length=length)
    with pytest.raises(InvalidError, match="clearing"):
        Monitor(alpha=0.1, clearing=length)
    assert Monitor(alpha=0.1, run_length=1.0, clearing=1.0).run_length == 1.0


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_the_true_rate_is_within_at_every_round_at_once(rate: float) -> None:
    rng, error, runs = np.random.default_rng(8), 0.1, 300
    left_out = 0
    for _ in range(runs):
        misses = np.cumsum(rng.random(600) < rate).tolist()
        evidence = max(weigh_rate(count, n + 1, rate) for n, count in enumerate(misses))
        left_out += evidence >= -math.log(error)
    assert left_out / runs <= error + 4.0 * math.sqrt(error * (1 - error) / runs)
    assert left_out > 0  # The bound is not far from what happens.


@pytest.mark.parametrize(("misses", "rounds"), [(0, 50), (5, 50), (50, 50), (1000, 10_000), (2.5, 9)])
def test_the_ends_are_where_the_evidence_becomes_too_much(misses: float, rounds: int) -> None:
    low, high = bound_rate(misses, rounds, error=0.01)
    assert low <= misses / rounds <= high
    for end, edge in ((low, 0.0), (high, 1.0)):
        if end != edge:
            assert weigh_rate(misses, rounds, end) == pytest.approx(math.log(100.0))
    assert (low == 0.0) == (misses == 0)
    assert (high == 1.0) == (misses == rounds)


@pytest.mark.parametrize("rounds", [1, 30, 1000, 10**6])
def test_the_band_holds_the_rates_whose_sequence_holds_alpha(rounds: int) -> None:
    low, high = bound_misses(rounds, alpha=0.1)
    for observed in (0.0, 0.05, 0.099, 0.1, 0.101, 0.13, 0.5):
        least, most = bound_rate(observed * rounds, rounds)
        assert (least <= 0.1 <= most) == (low <= observed <= high)


def test_nothing_seen_bounds_nothing() -> None:
    assert bound_rate(0, 0) == bound_misses(0, alpha=0.1) == (0.0, 1.0)


def test_the_sequence_is_at_most_twice_as_wide_as_an_interval_for_one_round() -> None:
    for rounds in (100, 10_000, 10**6):
        low, high = bound_rate(0.1 * rounds, rounds, error=0.01)
        single = 2.0 * 2.576 * math.sqrt(0.09 / rounds)
        assert single < high - low < 2.0 * single


def test_a_new_watch_has_seen_nothing_and_stands_before_the_first_round() -> None:
    watch = Watch()
    assert (watch.rounds, watch.alarm, watch.since, watch.raised, watch.cleared) == (0, 0, 0, 0, 0)
    assert watch.starts == [1, 1]
    assert Watch.begin(40) == Watch(rounds=40, starts=[41, 41])


def test_a_monitor_shows_its_parameters() -> None:
    assert repr(Monitor(alpha=0.1)) == "Monitor(alpha=0.1, run_length=1000000.0, clearing=10000.0)"


def test_the_sequence_and_the_band_err_once_in_a_hundred_unless_told() -> None:
    assert bound_rate(100, 1_000) == bound_rate(100, 1_000, error=0.01)
    assert bound_misses(1_000, alpha=0.1) == bound_misses(1_000, alpha=0.1, error=0.01)
    assert bound_rate(100, 1_000) != bound_rate(100, 1_000, error=0.02)


@pytest.mark.parametrize(("misses", "within"), [(-0.5, 0.0), (-3.0, 0.0), (50.5, 50.0)])
def test_corrected_misses_below_none_and_above_all_are_none_and_all(
    misses: float, within: float
) -> None:
    assert bound_rate(misses, 50) == bound_rate(within, 50)

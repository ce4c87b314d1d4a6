"""The alarm is as rare as it says, as quick as it can be, and remembers when."""

import math
from collections.abc import Iterator
from itertools import product

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
    find_bets,
    find_monitor,
    weigh_rate,
)
from keyhole.predictor.progress import pack_watch, unpack_watch


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
    # The stretch that speaks loudest for the rate that does so on the whole, the latest of equals.
    worths = many + few
    rate = (above + below)[worths.index(max(worths))]
    worth = [
        math.prod(ratio_of(rate, alpha, miss) for miss in heard[start:]) for start in range(len(heard))
    ]
    assert watch.since == 1 + int(np.argmax(worth))


@pytest.mark.parametrize(("alarm", "still"), [(Alarm.TOO_MANY, 0.15), (Alarm.TOO_FEW, 0.05)])
def test_the_alarm_ends_in_the_very_round_in_which_bets_on_alpha_are_worth_the_clearing(
    alarm: Alarm, still: float
) -> None:
    """Kills: clearing against another rate than half of alpha more, or less."""
    misses = (np.random.default_rng(10).random(2_000) < 0.1).astype(float).tolist()
    monitor, ended = Monitor(alpha=0.1, clearing=200.0), 0
    watch = Watch(alarm=alarm, ratio=still / 0.1, tested=1)
    while watch.alarm:
        ended += 1
        monitor.observe(watch, misses[ended - 1])
    assert watch.cleared == ended
    for rounds in (ended - 1, ended):
        assert (sum_bets(0.1, still, misses[:rounds]) >= 200.0) == (rounds == ended)


def test_what_is_usual_is_a_false_alarm_in_a_million_rounds_and_a_false_end_in_ten_thousand() -> None:
    assert find_monitor(0.1) == Monitor(alpha=0.1, run_length=1e6, clearing=1e4)


Told = tuple[float, float]  # the chance that a hit is answered, and that a miss is


def play_every_path(
    alpha: float,
    told: Told,
    *,
    rounds: int,
    scale: float,
    stale: float = 0.0,
    rate: float | None = None,
) -> tuple[float, float]:
    """Return what all bets are worth in the mean, and how many answers there are, by enumeration."""
    monitor, rate = Monitor(alpha=alpha, run_length=1e12), alpha if rate is None else rate
    worth = answers = 0.0
    chances = {(0, True): (1 - rate) * told[0], (1, True): rate * told[1]}
    chances |= {(0, False): (1 - rate) * (1 - told[0]), (1, False): rate * (1 - told[1])}
    for path in product(chances, repeat=rounds):
        watch, chance = Watch(tested=1, scale=scale), 1.0
        for miss, heard in path:
            chance *= chances[miss, heard]
            if heard:
                monitor.observe(watch, miss, 1.0 / told[miss], stale=stale)
        worth += chance * float(np.dot(watch.evidence, [1 / 8] * 4 + [1 / 6] * 3))
        answers += chance * watch.rounds
    return worth, answers


@pytest.mark.parametrize("alpha", [0.1, 0.3])
@pytest.mark.parametrize("told", [(1.0, 1.0), (1.0, 0.5), (0.25, 1.0), (0.5, 0.2)])
def test_bets_on_answers_of_any_known_chance_are_worth_one_for_each_in_the_mean(
    alpha: float, told: Told
) -> None:
    """Kills: an answer of chance 1/2 as two, or as one whatever its chance; a scale of its own."""
    worth, answers = play_every_path(alpha, told, rounds=4, scale=min(told))
    assert worth == pytest.approx(answers)


@pytest.mark.parametrize("told", [(1.0, 0.5), (0.5, 1.0), (0.5, 0.2)])
def test_before_the_least_chance_is_known_bets_are_worth_no_more(told: Told) -> None:
    worth, answers = play_every_path(0.2, told, rounds=5, scale=1.0)
    assert 0.0 < worth < answers


@pytest.mark.parametrize("rate", [0.1 / 8.0, 0.05, 0.1, 0.2])
def test_stale_answers_allow_for_a_rate_twice_as_high_and_an_eighth_as_low(rate: float) -> None:
    """400 stale: 1 + sqrt(400) / 20 = 2."""
    worth, answers = play_every_path(0.1, (1.0, 1.0), rounds=5, scale=1.0, stale=400.0, rate=rate)
    assert worth < answers
    beyond, _ = play_every_path(0.1, (1.0, 1.0), rounds=5, scale=1.0, stale=400.0, rate=0.4)
    assert beyond > answers


@pytest.mark.parametrize("told", [(1.0, 0.5), (0.2, 0.2), (0.05, 0.5)])
def test_false_alarms_stay_rare_whatever_the_chance_of_an_answer(told: Told) -> None:
    """Of 1,600 rounds at most 1600 / 200 = 8 in the mean; as 0.2 counted them there are 40."""
    monitor, rng = Monitor(alpha=0.1, run_length=200.0, clearing=20.0), np.random.default_rng(21)
    counts = []
    for _ in range(100):
        watch = Watch()
        for miss, draw in zip(
            (rng.random(1600) < 0.1).tolist(), rng.random(1600).tolist(), strict=True
        ):
            if draw < told[miss]:
                monitor.observe(watch, miss, 1.0 / told[miss])
        counts.append(float(watch.alarms))
    assert below(counts, 8.0)
    assert np.mean(counts) > 0.1


def test_what_stale_answers_allow_for_grows_with_the_root_of_their_age() -> None:
    assert find_bets(0.1, 0).targets == (0.1, 0.1)
    assert find_bets(0.1, 20).targets == pytest.approx((0.2, 0.1 / 8.0))
    assert find_bets(0.1, 1_000).targets[0] == 0.5
    assert find_bets(0.7, 20).targets[0] == 0.7
    alone, rounded = Watch(tested=1), Watch(tested=1)
    Monitor(alpha=0.1).observe(alone, 1.0, stale=3.2)  # between 1 and 2: up
    Monitor(alpha=0.1).observe(rounded, 1.0, stale=4.0)
    assert alone.evidence == rounded.evidence


def play_batch(misses: int, *, together: bool) -> Watch:
    """Return the watch after a batch of 100, stale by 99 answers, of which so many rounds missed."""
    watch, monitor = Watch(tested=1), Monitor(alpha=0.1)
    for number, miss in enumerate(np.random.default_rng(3).permutation(100) < misses):
        heard = 1_000 if together else 1_000 + number
        monitor.observe(watch, float(miss), heard=heard, stale=99.0)
    return watch


def test_a_batch_is_not_so_many_rounds_decided_apart() -> None:
    assert play_batch(42, together=False).alarm is Alarm.TOO_MANY
    assert play_batch(42, together=True).alarm is Alarm.NONE
    assert play_batch(63, together=True).alarm is Alarm.TOO_MANY


@pytest.mark.parametrize("stale", [0.0, 99.0])
def test_bets_on_rounds_that_share_a_rate_are_worth_no_more_than_one_in_the_mean(stale: float) -> None:
    bets = find_bets(0.1, math.ceil(math.sqrt(stale)))
    for slope, _ in enumerate(bets.slopes):
        side = 0 if bets.slopes[slope] > 0.0 else 1
        hits = 20.0 / bets.targets[side] - 20.0
        mean = 0.0
        for outcomes in product((0, 1), repeat=6):
            chance, worth = 1.0, 1.0
            for place, miss in enumerate(outcomes):
                missed = sum(outcomes[:place])
                rate = (20.0 + missed) / (20.0 + hits + place)  # of Beta(20, hits), having seen these
                chance *= rate if miss else 1.0 - rate
                now = bets.after(place, missed)
                worth *= 1.0 + now.slopes[slope] * (miss - now.targets[side])
            mean += chance * worth
        assert 0.9 < mean <= 1.0 + 1e-12


def test_a_side_that_has_settled_stays_so_when_bets_are_lowered() -> None:
    watch = start(Monitor(alpha=0.1), [0] * 20 + [1])
    assert watch.doubts == [math.inf, pytest.approx(2.5)]
    watch.lower(0.5)
    assert watch.doubts == [math.inf, 0.0]


def test_an_answer_of_lower_chance_than_any_before_lowers_all_bets_and_drops_what_they_were() -> None:
    monitor, watch = Monitor(alpha=0.1), Watch()
    for _ in range(3):
        monitor.observe(watch, 1.0)
    monitor.observe(watch, 1.0, 5.0)
    assert (watch.rounds, watch.scale, watch.evidence) == (4, 0.2, [0.0] * 7)
    assert (watch.walks, watch.starts) == ([1.0] * 7, [5] * 7)
    monitor.observe(watch, 1.0, 5.0)  # a whole bet
    whole = list(watch.evidence)
    assert whole == pytest.approx([1.25, 1.5, 2.0, 4.0, 0.75, 0.5, 0.1])
    monitor.observe(watch, 1.0, 5.1)  # hardly lower: bets become a fifth smaller, so that it is seldom
    assert watch.scale == pytest.approx(0.16)


@pytest.mark.parametrize(
    ("miss", "share"),
    [(1.0, 1.0), (0.0, 1.0), (-0.1, 0.5), (1.1, 0.9), (-0.3, 0.25), (4.6, 0.2)],
)
def test_answers_beyond_hit_and_miss_are_scaled_until_no_bet_loses_more_than_all(
    miss: float, share: float
) -> None:
    """At alpha 0.1 a hit corrected to -0.1 is off by 0.2 instead of 0.1: half a bet."""
    monitor, watch = Monitor(alpha=0.1), Watch()
    for _ in range(2):
        monitor.observe(watch, miss)
    assert watch.scale == pytest.approx(min(share, 0.8) if share < 1.0 else 1.0)
    assert min(watch.evidence) > 0.0


def start(monitor: Monitor, misses: list[int], *, heard: int = 100, stale: float = 0.0) -> Watch:
    """Play a start in which each prediction has heard one answer more than the one before."""
    watch = Watch()
    for number, miss in enumerate(misses):
        monitor.observe(watch, miss, heard=heard + number, stale=stale)
    return watch


def test_rounds_that_were_predicted_before_enough_was_heard_are_outside_the_test() -> None:
    monitor, watch = Monitor(alpha=0.1), Watch()
    for _ in range(1_000):
        monitor.observe(watch, 1, heard=99)
    assert watch == Watch(rounds=1_000)
    for _ in range(1_000):  # 400 stale: 10 / alpha + 200
        monitor.observe(watch, 1, heard=299, stale=400.0)
    assert watch == Watch(rounds=2_000)
    monitor.observe(watch, 1, heard=300, stale=400.0)
    assert watch.doubts != [0.0, 0.0]


def test_a_start_is_over_once_the_misses_have_come_to_the_target_from_both_sides() -> None:
    """By hand: against 0.2 a hit is worth 9/8 and a miss 1/2, against 0.04 one 15/16, the other 5/2."""
    monitor = Monitor(alpha=0.1)
    hits = [0] * 19  # (9/8)^19 = 9.4, one more 10.5
    watch = start(monitor, hits)
    assert watch.doubts == pytest.approx([(9 / 8) ** 19, 15 / 16])
    assert start(monitor, [*hits, 0]).doubts[0] == math.inf
    settled = [*hits, 0, 1, 1]  # 2.5^2 = 6.25
    assert start(monitor, settled).doubts == [math.inf, pytest.approx(6.25)]
    watch = start(monitor, [*settled, 1])
    assert (watch.starting, watch.tested, watch.doubts) == (False, 24, [0.0, 0.0])
    assert watch.starts == [24] * 7
    assert watch.evidence == [0.0] * 7


@pytest.mark.parametrize(
    ("miss", "stale", "most"),
    [(1, 0.0, 200), (1, 400.0, 600), (0, 0.0, 1_000), (0, 400.0, 3_000)],
)
def test_a_start_that_never_comes_to_the_target_ends_all_the_same(
    miss: int, stale: float, most: int
) -> None:
    """20 / alpha + L answers while there are too many misses, 100 / alpha + 5 L while too few."""
    monitor, watch = Monitor(alpha=0.1), Watch()
    for n in range(500):  # two misses in five: more than half of them would be alarmed at once
        monitor.observe(watch, float(miss and n % 5 < 2), heard=most - 1, stale=stale)
    assert watch.starting
    monitor.observe(watch, miss, heard=most, stale=stale)
    assert not watch.starting


def test_with_another_target_it_starts_again_and_rounds_of_the_old_one_do_not_count() -> None:
    monitor, watch = Monitor(alpha=0.1), Watch()
    for _ in range(20):
        monitor.observe(watch, 1)
    assert watch.alarm is Alarm.TOO_MANY
    watch.retarget(500)
    assert (watch.alarm, watch.cleared, watch.starting, watch.heard) == (Alarm.NONE, 20, True, 500)
    for _ in range(300):
        monitor.observe(watch, 1, heard=599)
    assert (watch.starting, watch.doubts, watch.alarms) == (True, [0.0, 0.0], 1)
    for _ in range(20):
        monitor.observe(watch, 1, heard=700)
    assert (watch.alarms, watch.cleared) == (2, 20)


def test_a_second_change_raises_a_second_alarm_with_its_own_date() -> None:
    """Kills: an alarm that hides the next one."""
    rng, monitor = np.random.default_rng(22), Monitor(alpha=0.1)
    rates = np.repeat([0.1, 0.7, 0.1, 0.7, 0.1], [1_000, 60, 500, 60, 500])
    dates, ends = set(), set()
    for watch in feed(monitor, rng.random(rates.size) < rates):
        dates.add((watch.since, watch.raised))
        ends.add(watch.cleared)
    first, second = sorted(dates - {(0, 0)})
    assert 900 <= first[0] <= 1_001 < first[1] <= 1_060
    assert 1_450 <= second[0] <= 1_561 < second[1] <= 1_620
    assert [first[1] < end < second[0] for end in sorted(ends - {0})] == [True, False]
    assert watch.alarms == 2


@pytest.mark.parametrize(("rate", "ratio"), [(0.9, 2.0), (0.16, 1.5), (0.0, 0.25), (0.04, 0.5)])
def test_an_alarm_is_to_be_cleared_against_the_rate_it_was_raised_at(rate: float, ratio: float) -> None:
    rng = np.random.default_rng(23)
    watch = next(w for w in feed(Monitor(alpha=0.1), rng.random(20_000) < rate) if w.alarm)
    assert watch.ratio == ratio


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
        watch = Watch(alarm=Alarm.TOO_MANY, ratio=1.5, tested=1)
        cleared = 0
        for miss in (rng.random(2000) < 0.15).tolist():
            monitor.observe(watch, miss)
            if not watch.alarm:
                cleared += 1
                watch = Watch(alarm=Alarm.TOO_MANY, ratio=1.5, tested=1)
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
    assert (watch.evidence, watch.walks, watch.doubts) == (fresh.evidence, fresh.walks, fresh.doubts)
    assert watch.tested == 1  # It does not start again.
    assert watch.starts == [watch.rounds + 1] * 7
    assert watch.since == 1
    assert watch.since < watch.raised < watch.cleared == watch.rounds


def test_a_watch_goes_on_from_its_bytes_bit_for_bit() -> None:
    monitor, rng = Monitor(alpha=0.1, run_length=50.0, clearing=5.0), np.random.default_rng(7)
    whole, cut = Watch(), Watch()
    for miss in (rng.random(2000) < 0.15).tolist():
        monitor.observe(whole, miss)
        monitor.observe(cut, miss)
        cut = unpack_watch(pack_watch(cut))
    assert whole == cut
    assert whole.cleared > 0
    assert len(pack_watch(whole)) == len(pack_watch(Watch())) < 285
    with pytest.raises(SnapshotError, match="bytes"):
        unpack_watch(pack_watch(whole)[:-1])


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
    assert watch.starts == [1] * 7
    assert watch.starting


def test_a_monitor_shows_its_parameters() -> None:
    assert (
        repr(Monitor(alpha=0.1))
        == "Monitor(alpha=0.1, run_length=1000000.0, clearing=10000.0, is_two_sided=True)"
    )


def test_the_sequence_and_the_band_err_once_in_a_hundred_unless_told() -> None:
    assert bound_rate(100, 1_000) == bound_rate(100, 1_000, error=0.01)
    assert bound_misses(1_000, alpha=0.1) == bound_misses(1_000, alpha=0.1, error=0.01)
    assert bound_rate(100, 1_000) != bound_rate(100, 1_000, error=0.02)


@pytest.mark.parametrize(("misses", "within"), [(-0.5, 0.0), (-3.0, 0.0), (50.5, 50.0)])
def test_corrected_misses_below_none_and_above_all_are_none_and_all(
    misses: float, within: float
) -> None:
    assert bound_rate(misses, 50) == bound_rate(within, 50)


@pytest.mark.parametrize("chance", [0.5, 0.2, 0.05])
def test_the_true_rate_is_within_at_every_round_where_answers_have_a_chance(chance: float) -> None:
    """Misses are told with this chance, hits always: an answer counts as least chance / its own."""
    rng, error, runs, left_out = np.random.default_rng(24), 0.1, 300, 0
    for _ in range(runs):
        misses = rng.random(1_000) < 0.1
        told = ~misses | (rng.random(1_000) < chance)
        weights = np.where(misses, 1.0, chance) * told
        counted, rounds = np.cumsum(weights * misses), np.cumsum(weights)
        pairs = zip(counted[9:].tolist(), rounds[9:].tolist(), strict=True)
        left_out += max(weigh_rate(count, n, 0.1) for count, n in pairs) >= -math.log(error)
    assert left_out / runs <= error + 4.0 * math.sqrt(error * (1 - error) / runs)


def test_three_misses_of_three_are_just_not_evidence_against_one_in_seven() -> None:
    """3 ln(1 / 0.15) less ln(4) is 4.3, below the ln(100) that it takes."""
    assert 3.0 * math.log(1.0 / 0.15) - math.log(4.0) == pytest.approx(4.3, abs=0.01)
    assert bound_misses(3, alpha=0.15)[1] == 1.0


@pytest.mark.parametrize("alpha", [0.01, 0.1])
@pytest.mark.parametrize("late", [0, 200])
def test_what_always_misses_is_alarmed_soon_after_a_hundred_answers_were_heard(
    alpha: float, late: int
) -> None:
    """Kills: a start of 20 / alpha answers during which nothing is seen."""
    monitor, watch, answers = Monitor(alpha=alpha), Watch(), 0
    while not watch.alarm and answers < 3_000:
        monitor.observe(watch, 1.0, heard=max(0, answers - late), stale=float(late))
        answers += 1
    # (1 + M) 3/2 from 0 is a million after 32 answers: 3 (1.5^32 - 1) = 1.3 million.
    assert watch.raised == 100 + late + late // 2 + 32
    assert watch.since == watch.raised - 31
    assert (watch.alarm, watch.starting) == (Alarm.TOO_MANY, False)


@pytest.mark.parametrize("told", [(1.0, 1.0), (0.5, 0.2)])
def test_the_bet_of_a_start_is_worth_no_more_than_its_rounds_if_misses_have_the_target(
    told: Told,
) -> None:
    """By enumeration: kills a bet against less than alpha, and a factor of another sign."""
    monitor, worth, answers = Monitor(alpha=0.3, run_length=1e12), 0.0, 0.0
    chances = {(0, True): 0.7 * told[0], (1, True): 0.3 * told[1]}
    chances |= {(0, False): 0.7 * (1 - told[0]), (1, False): 0.3 * (1 - told[1])}
    for path in product(chances, repeat=4):
        watch, chance = Watch(scale=min(told)), 1.0
        for miss, is_heard in path:
            chance *= chances[miss, is_heard]
            if is_heard:
                monitor.observe(watch, miss, 1.0 / told[miss], heard=100.0)
        worth, answers = worth + chance * watch.evidence[3], answers + chance * watch.rounds
    assert 0.0 < worth < answers


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("size", [0.25, 1.0, 3.0])
def test_a_doubt_is_the_likelihood_ratio_of_so_many_answers_and_never_loses_all(
    side: int, size: float
) -> None:
    bets = find_bets(0.1, 2)
    target, still = bets.targets[side], bets.find_rate(side, 1.5)
    assert still == pytest.approx(1.5 * target)
    for miss in (0.0, 0.3, 1.0):
        moved = min(1.0 - still, max(-still, size * (miss - still)))
        factor = 1.0 + (target - still) / (still * (1.0 - still)) * moved
        assert bets.doubt(side, 1.5, miss, size) == pytest.approx(factor)
        assert factor > 0.0
    ratios = target / still, (1.0 - target) / (1.0 - still)  # of a miss, of a hit
    found = bets.doubt(side, 1.5, 1.0, 1.0), bets.doubt(side, 1.5, 0.0, 1.0)
    assert found == pytest.approx(ratios)

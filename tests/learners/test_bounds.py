"""The calculators against the formulas worked out by hand, and against runs."""

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole import Predictor, make, simulate
from keyhole.errors import InvalidError, TheoremError, TheoryWarning
from keyhole.feedback import Answer
from keyhole.learners import bounds
from keyhole.learners.bounds import _bound_miss_rate
from keyhole.learners.lateness import Excess, Lateness
from keyhole.learners.loss import Loss
from keyhole.learners.rules.ocp_bandit import ocp_bandit
from keyhole.learners.rules.ocp_unlock import ocp_unlock
from keyhole.learners.rules.ocp_unlock_plus import ocp_unlock_plus
from keyhole.learners.strategy import Epoch, tuned
from keyhole.simulation.simulate import complexity

# K = 200, T = 50,000, delta = .05:  ln K = 5.298317
R1 = math.sqrt(50_000 * 200 / 5.298317) * math.log(20)  # 4,115.6
R2 = math.sqrt(50_000 * 200 * 5.298317)  # 7,279.0
# v = 40 * .1 * 50,000^(-1/4) = .267496, L = .72 + v (1 + 1/.9 - 1/1.08) = 1.037033
GAP = 0.267496 / 0.9 / 1.037033  # e, .286604: what a hit at threshold 1 gains over one at 0


@pytest.mark.parametrize(
    ("name", "normalised"),
    [
        ("ocp-bandit", R1 + 5.15 * R2),
        ("ocp-unlock", R1 + 5.15 * R2 + GAP * 50_000),
        # C at its largest is K, and sqrt(T K ln K) is R2
        ("ocp-unlock+", R1 + 4.15 * R2 + R2 + GAP * 50_000),
    ],
)
def test_regret_bounds_are_those_of_the_theorems(name: str, normalised: float) -> None:
    learner = make(name, alpha=0.1, horizon=50_000, arms=200)
    span = bounds.loss_of(learner).span
    assert bounds.regret(learner) == pytest.approx(span * normalised, rel=1e-5)


def lost_by_expectation(alpha: float, *, arms: int, horizon: int, cost: float) -> float:
    """The regret a round, over L, of OCP-Unlock+ on scores that are 0 nine times in ten, else 1.

    Every estimate is replaced by its expectation over score and arm, and 300,000 rounds are one step,
    in which no weight changes by more than a part in two: at 10^9 rounds chance adds 3 10^-5.
    """
    loss = Loss(alpha=alpha, horizon=horizon, cost=cost)
    grid = np.linspace(0.0, 1.0, arms)
    hit, miss = (loss.gain(grid, missed=missed) for missed in (False, True))
    bonus, exploration, rate, _ = tuned(arms, horizon)
    truth = 0.1 * hit + 0.9 * np.where(grid == 0.0, hit, miss)
    gains, played, together = np.zeros(arms), 0.0, 300_000
    for _ in range(horizon // together):
        weights = np.exp(rate * (gains - gains.max()))
        p = (1.0 - exploration) * weights / weights.sum() + exploration / arms
        running = p.cumsum()
        played += together * (p @ truth)
        at_one = hit + 2.0 * bonus
        at_zero = p[0] * np.where(grid == 0.0, (hit + bonus) / p[0] + bonus, miss + bonus / running)
        for arm in range(1, arms):
            above = np.arange(arms) >= arm
            at_zero += p[arm] * np.where(above, miss + bonus / running, miss + bonus / p + bonus)
        gains += together * (0.1 * at_one + 0.9 * at_zero)
    return float(truth.max() - played / (horizon // together * together))


def test_the_printed_order_in_place_of_the_gap_would_be_crossed_and_the_gap_is_not() -> None:
    """With 2 T^(-1/4), as the paper prints it, the bound is below what this stream makes it lose."""
    learner = make("ocp-unlock+", alpha=0.25, horizon=10**9, arms=5, options={"cost": 1e6})
    lost = lost_by_expectation(0.25, arms=5, horizon=10**9, cost=1e6)
    bound = bounds.regret(learner) / bounds.loss_of(learner).span / 10**9
    printed = bound - bounds.gap_of(learner) + 2.0 * (10**9) ** -0.25
    assert printed < 0.012
    assert lost == pytest.approx(0.0154, abs=1e-4)
    assert lost < bound


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.25, 0.4, 0.49])
@pytest.mark.parametrize(
    "grid", [np.linspace(0, 1, 5), np.linspace(0, 1, 40), [0, 0.001, 0.002, 0.5, 0.6], [0, 0.01, 0.02]]
)
def test_the_gap_is_the_most_that_the_estimates_of_a_round_give_too_much(
    alpha: float, grid: Any
) -> None:
    """By the definition of both estimators, over every score, arm and worst weights; no bonus.

    Weights that sit on one or two arms are the worst, because the sum is linear in each weight.
    """
    for name in ("ocp-unlock", "ocp-unlock+"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TheoryWarning)
            learner = make(name, alpha=alpha, horizon=10**6, options={"thresholds": list(grid)})
        loss = bounds.loss_of(learner)
        gains = {missed: loss.gain(np.array(grid), missed=missed) for missed in (False, True)}
        worst = 0.0
        for last in range(len(grid)):  # the last arm that covers
            up_to = gains[False][: last + 1]
            above = gains[True][last + 1 :]
            above_most = above.max() if above.size else 0.0
            # On a hit the estimates give out a mean over those that cover, and the arm played got the
            # least of them; those above are credited as well, or one of them is withheld its gain.
            worst = max(worst, up_to.max() + above_most - up_to.min())
            if name == "ocp-unlock+" and above.size:  # on a miss: the pseudo-gains of all
                worst = max(worst, gains[True].max() - above.min())
        assert bounds.gap_of(learner) == pytest.approx(worst, rel=1e-9)


def test_published_constant_gives_way_where_its_rounding_is_too_low() -> None:
    """At 5 arms and 117 rounds, beta = .0524: 1.05 + .95 (1 + 2 beta) + 1 + 1/.95 = 4.1523 > 4.15."""
    learner = make("ocp-unlock+", alpha=0.1, horizon=117, arms=5)
    assert bounds.conditions_of(learner).hold
    rates, log = tuned(5, 117), math.log(5)
    general = (
        5 * rates.bonus * 117
        + rates.exploration * 117
        + (1 + 2 * rates.bonus) * rates.rate * 5 * 117
        + math.log(5 / 0.05) / rates.bonus
        + log / rates.rate
        + bounds.gap_of(learner) * 117
    )
    assert bounds.regret(learner) == pytest.approx(bounds.loss_of(learner).span * general, rel=1e-12)


def test_known_complexity_tightens_the_bound_of_unlock_plus() -> None:
    learner = make("ocp-unlock+", alpha=0.1, horizon=50_000, arms=200)
    span = bounds.loss_of(learner).span
    saved = bounds.regret(learner) - bounds.regret(learner, complexity=4.0)
    assert saved == pytest.approx(span * (R2 - math.sqrt(50_000 * 4 * 5.298317)), rel=1e-6)


def test_exp3p_bound_is_that_of_ocp_bandit_without_the_span() -> None:
    assert bounds.exp3p_regret(arms=200, horizon=50_000) == pytest.approx(R1 + 5.15 * R2, rel=1e-6)


def test_rates_of_the_paper() -> None:
    rates = tuned(200, 50_000)
    assert rates.bonus == pytest.approx(7.279e-4, rel=1e-3)
    assert rates.exploration == pytest.approx(0.15286, rel=1e-3)
    assert rates.rate == pytest.approx(6.915e-4, rel=1e-3)


def test_conditions_of_the_theorem() -> None:
    assert bounds.conditions(tuned(200, 50_000), arms=200).hold
    assert not bounds.conditions(tuned(200, 2_000), arms=200).moderate_exploration
    assert not bounds.conditions(tuned(4, 50_000), arms=4).enough_arms
    assert not bounds.conditions(Epoch(0.1, 0.1, 0.1, 1_000), arms=20).slow_enough


def test_rate_must_leave_room_for_two_bonuses() -> None:
    """Kills: (1 + beta) in place of (1 + 2 beta). At 5 arms and 116 rounds beta is .0527 > 1/19."""
    for rounds, holds in ((116, False), (117, True)):
        rates = tuned(5, rounds)
        assert (1.0 + rates.bonus) * 5 * rates.rate <= rates.exploration
        assert bounds.conditions(rates, arms=5).slow_enough == holds
    assert bounds.regret(make("ocp-unlock+", alpha=0.1, horizon=117, arms=5)) > 0.0
    with pytest.raises(TheoremError, match="conditions do not hold"):
        bounds.regret(make("ocp-unlock+", alpha=0.1, horizon=116, arms=5))


def test_horizon_from_which_a_bound_speaks_is_the_first_one() -> None:
    learner = make("ocp-unlock+", alpha=0.1, horizon=50_000, arms=20)
    first = int(bounds.regret_speaks_from(learner))
    for horizon, speaks in ((first - 1, False), (first, True)):
        one = make("ocp-unlock+", alpha=0.1, horizon=horizon, arms=20)
        assert (bounds.regret(one) / horizon < bounds.loss_of(one).span) == speaks
    first = int(bounds.miss_rate_speaks_from(learner, below=0.5))
    for horizon, speaks in ((first - 1, False), (first, True)):
        one = make("ocp-unlock+", alpha=0.1, horizon=horizon, arms=20)
        assert (bounds.miss_rate(one) < 0.5) == speaks


def test_epochs_add_up_and_share_delta() -> None:
    learner = make("ocp-bandit", alpha=0.1, arms=20)
    first, second = (int(length) for length in learner.settings.epochs[:2, -1])
    parts = [
        bounds.regret(
            make("ocp-bandit", alpha=0.1, horizon=T, arms=20, options={"delta": 0.05 / share})
        )
        for T, share in ((first, 2), (second, 6))
    ]
    assert bounds.regret(learner, rounds=first) == pytest.approx(parts[0])
    assert bounds.regret(learner, rounds=first + 1) == pytest.approx(sum(parts))


@pytest.mark.parametrize("name", ["ocp-bandit", "ocp-unlock", "ocp-unlock+"])
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.3, 0.49])
@pytest.mark.parametrize("arms", [5, 20, 200])
def test_epochs_cost_at_most_the_doubling_factor(name: str, alpha: float, arms: int) -> None:
    """At every tenth of every epoch up to 10^9 rounds, and just that in the first round of one."""
    unknown = make(name, alpha=alpha, arms=arms)
    starts = [0, *unknown.settings.epochs[:, -1].astype(int).cumsum().tolist()]
    ratios = []
    for start, end in itertools.pairwise(s for s in starts if s < 10**9):
        tenths = np.linspace(start + 1, end, 11).astype(int).tolist()
        for rounds in (r for r in tenths if r >= starts[1]):
            known = make(name, alpha=alpha, horizon=rounds, arms=arms)
            ratios.append(bounds.regret(unknown, rounds=rounds) / bounds.regret(known))
    factor = bounds.doubling_factor(unknown, rounds=rounds)
    assert factor == pytest.approx(max(ratios), rel=1e-12)
    assert 1.0 < factor < 10.0


def test_five_times_a_known_horizon_is_not_enough_for_some() -> None:
    """What was once promised of every learner; the factor grows as early losses span more."""
    factors = [
        bounds.doubling_factor(make("ocp-bandit", alpha=alpha, arms=arms), rounds=10**12)
        for alpha, arms in ((0.1, 20), (0.1, 5), (0.49, 5))
    ]
    assert factors[0] < 5.0 < factors[1] < factors[2]
    assert factors[2] == pytest.approx(9.3, abs=0.05)


def test_doubling_factor_asks_for_an_unknown_horizon_and_a_whole_epoch() -> None:
    with pytest.raises(InvalidError, match="knows its horizon, 50000"):
        bounds.doubling_factor(make("ocp-bandit", alpha=0.1, horizon=50_000), rounds=50_000)
    with pytest.raises(TheoremError, match="horizon below 265 rounds, such as 100"):
        bounds.doubling_factor(make("ocp-bandit", alpha=0.1, arms=20), rounds=100)


def test_a_first_epoch_costs_only_its_share_of_delta() -> None:
    """Kills: the first epoch's own length refused as too short."""
    unknown = make("ocp-bandit", alpha=0.1, arms=20)
    known = make("ocp-bandit", alpha=0.1, horizon=265, arms=20)
    ratio = bounds.regret(unknown, rounds=265) / bounds.regret(known)
    assert bounds.doubling_factor(unknown, rounds=265) == ratio > 1.0


def test_smaller_delta_costs_its_logarithm() -> None:
    parts = [
        make("ocp-bandit", alpha=0.1, horizon=50_000, arms=200, options={"delta": delta})
        for delta in (0.05, 0.005)
    ]
    spent = bounds.regret(parts[1]) - bounds.regret(parts[0])
    per_nat = bounds.loss_of(parts[0]).span * math.sqrt(50_000 * 200 / 5.298317)
    assert spent == pytest.approx(per_nat * math.log(10), rel=1e-6)


def test_miss_rate_bound_by_hand() -> None:
    """At alpha .2, T = 10^8 and c = 40: v = 8/100 = .08, u = .1, w = .8 * .6 = .48."""
    learner = make("ocp-bandit", alpha=0.2, horizon=10**8, arms=20)
    per_round = bounds.regret(learner) / 10**8
    assert bounds.miss_rate(learner) == pytest.approx((per_round + 0.1) / 0.58, rel=1e-9)


def test_miss_rate_bound_is_attained_by_the_worst_losses() -> None:
    """Hits at threshold 1 and misses at threshold 0 make both inequalities of its proof equations."""
    loss = make("ocp-bandit", alpha=0.2, horizon=10**8, arms=20).parameters.loss(10**8)
    hits, misses = 700, 300
    costs = hits * loss.loss(np.ones(1), missed=False) + misses * loss.loss(np.zeros(1), missed=True)
    regret = costs[0] - 1_000 * loss.loss(np.zeros(1), missed=False)[0]
    assert _bound_miss_rate(loss, regret / 1_000) == pytest.approx(0.3, rel=1e-9)


def test_coverage_bound_adds_the_slack_of_the_run() -> None:
    learner = make("ocp-bandit", alpha=0.1, horizon=50_000, arms=20)
    assert bounds.coverage(learner, slack=0.25) == bounds.regret(learner) / 50_000 + 0.25


@pytest.mark.parametrize(
    ("arguments", "rounds", "match"),
    [
        ({"horizon": 50_000}, 60_000, "horizon of 50000 rounds, not of 60000"),
        ({"horizon": 50_000, "options": {"rate": 5.0}}, None, "tuned rates"),
        ({"horizon": 150}, None, "conditions do not hold"),
        ({}, 10**14, "beyond the theorem"),
    ],
)
def test_where_the_theorem_is_silent_so_is_the_calculator(
    arguments: dict[str, Any], rounds: int | None, match: str
) -> None:
    learner = make("ocp-unlock+", alpha=0.1, arms=20, **arguments)
    with pytest.raises(TheoremError, match=match):
        bounds.regret(learner, rounds=rounds)


OCP = make("ocp-unlock+", alpha=0.1, horizon=5_000, arms=20)
ENDLESS = make("ocp-unlock+", alpha=0.1, arms=20)
KT = make("kt", alpha=0.1)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: bounds.excess(KT, rounds=0),
        lambda: bounds.excess(KT, rounds=-1),
        lambda: bounds.excess(KT, rounds=2.5),  # type: ignore[arg-type]
        lambda: bounds.regret(ENDLESS, rounds=-1),
        lambda: bounds.doubling_factor(ENDLESS, rounds=0),
        lambda: bounds.regret(OCP, complexity=-1.0),
        lambda: bounds.exp3p_regret(arms=5, horizon=100, delta=0.0),
        lambda: bounds.unlock_hedge_regret(arms=1, horizon=100),
        lambda: bounds.unlock_hedge_regret(arms=5, horizon=0),
        lambda: Predictor(KT).bound(rounds=-1),
    ],
)
def test_no_bound_speaks_of_numbers_that_are_none(ask: Callable[[], object]) -> None:
    """Kills: a calculator that takes any number, and answers with nonsense or a domain error."""
    with pytest.raises(InvalidError, match="give"):
        ask()


def test_conditions_are_those_of_a_theorem_that_there_is() -> None:
    for name in ("kt", "mvp", "exp3-ix"):
        with pytest.raises(TheoremError, match=f"no regret theorem speaks of {name}"):
            bounds.conditions_of(make(name, alpha=0.1))


@pytest.mark.parametrize("given", ["kt", keyhole.LEARNERS["kt"]])
def test_a_name_or_a_rule_is_told_how_to_become_a_learner(given: Any) -> None:
    for ask in (bounds.regret, bounds.excess, lambda one: simulate(one, [0.5])):
        with pytest.raises(InvalidError, match=r"make one: keyhole\.make\('kt', alpha=0\.1\)"):
            ask(given)


def test_complexity_of_a_run_by_hand() -> None:
    """The first round is uniform over five arms, and score .6 covers three: C = 1 + x + 2/3."""
    learner = make("ocp-unlock+", alpha=0.1, horizon=1_000, arms=5)
    expected = {0.0: 1, 0.25: 1, 0.5: 1, 0.75: 3, 1.0: 4}  # 1 on a hit, the arms below on a miss
    seen = set()
    for seed in range(12):
        played = simulate(learner, [0.6], seed=seed).thresholds[0, 0]
        seen.add(played)
        assert complexity(learner, [0.6], seed=seed) == pytest.approx(1 + expected[played] + 2 / 3)
    assert len(seen) == 5


def test_without_horizon_the_rounds_must_be_said() -> None:
    with pytest.raises(InvalidError, match="how many rounds"):
        bounds.regret(make("ocp-bandit", alpha=0.1, arms=20))
    with pytest.raises(InvalidError, match="give a horizon"):
        bounds.loss_of(make("ocp-bandit", alpha=0.1, arms=20))


@pytest.mark.parametrize(
    ("name", "options", "least", "most"),
    [
        # (1 - start) / step + alpha down, start / step + 1 - alpha up
        ("tracker", {"step": 0.01, "start": 0.2}, -80.1, 20.9),
        ("agaci", {"steps": (0.01, 0.5), "start": 0.2}, -80.1, 20.9),
        # the level alpha - step excess: (1 - alpha) / step + alpha down, alpha / step + 1 - alpha up
        ("aci", {"step": 0.01}, -90.1, 10.9),
        ("self-scaled", {"budget": 30.0}, -30.1, 30.9),
        ("contextual-tracker", {"guard": 30.0, "dead": 30.0}, -30.1, 30.9),
        # (1 + first) t^decay / first at t = 10^4
        ("tracker-decaying", {"first": 0.5, "decay": 0.25, "window": None}, -30.0, 30.0),
        # 1 + sqrt(2 t ln(e sqrt(pi t) (t + 1)))
        (
            "kt",
            {},
            -0.1,
            1.0 + math.sqrt(2e4 * (1.0 + 0.5 * math.log(math.pi * 1e4) + math.log(10_001))),
        ),
        # tan saturates a quarter turn, pi/2, of saturation (t + 1) / ln(t + 1) away
        (
            "pi",
            {"saturation": 0.01},
            -1.0 - math.pi / 2 * 0.01 * 10_001 / math.log(10_001),
            1.0 + math.pi / 2 * 0.01 * 10_001 / math.log(10_001),
        ),
    ],
)
def test_bounds_on_the_excess_by_hand(
    name: str, options: dict[str, Any], least: float, most: float
) -> None:
    limits = bounds.excess(make(name, alpha=0.1, options=options), rounds=10_000)
    assert limits == pytest.approx((least, most), rel=1e-12)


def test_bound_of_a_valve_by_hand() -> None:
    """Its budget, 1 unless told, times sqrt(t), and the one miss that passes it."""
    assert bounds.excess(make("kt+valve", alpha=0.1), rounds=10_000) == (-1_000.0, 100.9)


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.45])
@pytest.mark.parametrize("arms", [10, 100])
@pytest.mark.parametrize("horizon", [20_000, 10**7])
def test_unlock_plus_has_the_tightest_bound_while_sharing_saves_more_than_it_costs(
    alpha: float, arms: int, horizon: int
) -> None:
    """The paper's remark, with e where it writes 2 o(T)^-1: (sqrt K - sqrt C) sqrt(T ln K) > e T."""
    for cost in (0.0, 1e-3, 0.04, 1.0, 40.0):
        learners = [
            rule(alpha=alpha, arms=arms, horizon=horizon, cost=cost)
            for rule in (ocp_unlock_plus, ocp_unlock, ocp_bandit)
        ]
        for constant in (1.0, 0.5 * arms, 0.99 * arms):
            plus, *others = (bounds.regret(learner, complexity=constant) for learner in learners)
            saved = (arms**0.5 - constant**0.5) * (horizon * np.log(arms)) ** 0.5
            assert (plus < min(others)) == (saved > bounds.gap_of(learners[0]) * horizon)


def test_without_a_number_of_rounds_the_excess_is_that_of_any_number() -> None:
    learner = make("logit-tracker", alpha=0.1)
    assert bounds.excess(learner) == bounds.excess(learner, rounds=10**9)
    in_order = bounds.excess(learner, rounds=10**12, open=100, age=99)
    assert bounds.excess(learner, open=100) == in_order
    assert bounds.excess(learner, open=100, age=500) == bounds.excess(
        learner, rounds=10**12, open=100, age=500
    )


def test_a_bound_that_grows_with_the_rounds_asks_for_their_number() -> None:
    with pytest.raises(
        InvalidError, match=r"the bound of kt grows with the rounds; say after how many"
    ):
        bounds.excess(make("kt", alpha=0.1))


@pytest.mark.parametrize("truth", [0.0, 1.0])
@pytest.mark.parametrize("rate", [-0.7, 0.3])
def test_moments_of_what_chance_adds_by_enumeration(rate: float, truth: float) -> None:
    """Heard one time in four, and then wrong one time in ten; both mean what is true."""
    told, alpha = (-0.1 / 0.8, 0.9 / 0.8), 0.2
    high = (truth - told[0]) / (told[1] - told[0])
    total = 0.75 * math.exp(rate * (truth - alpha))
    for chance, at in ((high, told[1]), (1.0 - high, told[0])):
        total += 0.25 * chance * math.exp(rate * (truth - alpha - 4.0 * (at - alpha)))
    found = bounds._find_psi(rate, alpha, Lateness(weight=4.0, told=told), truth=truth)
    assert found == pytest.approx(math.log(total))


def test_as_answers_become_certain_the_bound_of_the_truth_becomes_the_certain_one() -> None:
    learner = make("logit-tracker", alpha=0.01)
    certain = bounds.excess(learner, rounds=10_000, lost=True)
    for wrong, room in ((1e-3, 40.0), (1e-6, 3.0), (1e-9, 1.5)):
        found = bounds.excess(learner, rounds=10_000, wrong=wrong, delta=0.05)
        assert certain.most < found.most < certain.most + room
        assert certain.least - room < found.least


@pytest.mark.parametrize("how", [Lateness(told=(-0.25, 1.25)), Lateness(weight=5.0)])
def test_the_truth_passes_its_bound_at_any_time_no_more_often_than_delta(how: Lateness) -> None:
    """A hundred misses, then hits; a quarter of the bound's width is passed in most runs."""
    rng, runs, rounds, delta = np.random.default_rng(7), 150, 400, 0.2
    truth = np.concatenate((np.ones(100), np.zeros(rounds - 100)))
    low, high = how.told
    told = np.where(rng.random((runs, rounds)) < (truth - low) / (high - low), high, low)
    heard = rng.random((runs, rounds)) < 1.0 / how.weight
    drift = np.cumsum(truth - 0.1 - np.where(heard, how.weight * (told - 0.1), 0.0), axis=1)
    known = np.cumsum(truth - 0.1) - drift  # the excess as it was told
    passed, near = np.zeros(runs, dtype=bool), np.zeros(runs, dtype=bool)
    for n in range(49, rounds, 50):
        for run in range(runs):
            at, real = known[run, n], float(np.sum(truth[: n + 1] - 0.1))
            least, most = bounds.bound_truth(Excess(at, at), 0.1, n + 1, how, delta=delta)
            passed[run] |= not least <= real <= most
            near[run] |= not (3.0 * at + least) / 4.0 <= real <= (3.0 * at + most) / 4.0
    assert passed.mean() <= delta < 0.5 < near.mean()


@pytest.mark.parametrize(
    "how", [Lateness(told=(-0.25, 1.25)), Lateness(weight=5.0), Lateness(weight=2.0, told=(-0.1, 1.1))]
)
def test_the_bound_of_the_truth_is_the_best_of_24_rates_on_each_side(how: Lateness) -> None:
    """By enumeration: the largest truth that a rate allows, found by halving, never by its formula."""
    alpha, rounds, delta, told = 0.2, 700, 0.05, Excess(-31.0, 42.0)
    low, high = how.told
    step = how.weight * (high - low)

    def moments(rate: float, truth: float) -> float:
        total = (1.0 - 1.0 / how.weight) * math.exp(rate * (truth - alpha))
        for share, at in (((truth - low) / (high - low), high), ((high - truth) / (high - low), low)):
            added = truth - alpha - how.weight * (at - alpha)
            total += share / how.weight * math.exp(rate * added)
        return math.log(total)

    def is_allowed(truth: float, rate: float, sign: float) -> bool:
        misses = alpha * rounds + truth
        psi = (rounds - misses) * moments(sign * rate, 0.0) + misses * moments(sign * rate, 1.0)
        farther = truth - told.most if sign > 0.0 else told.least - truth
        return rate * farther <= psi + math.log(48.0 / delta)

    found = []
    for sign in (-1.0, 1.0):
        ends = []
        for n in range(24):
            rate, near, far = 2.0 ** (6 - n) / step, 0.0, 1e5 * sign
            if is_allowed(far, rate, sign):
                continue  # This rate says nothing.
            for _ in range(100):
                middle = (near + far) / 2.0
                near, far = (middle, far) if is_allowed(middle, rate, sign) else (near, middle)
            ends.append(near)
        found.append(min(ends, key=abs))
    assert bounds.bound_truth(told, alpha, rounds, how, delta=delta) == pytest.approx(tuple(found))


def test_no_truth_is_beyond_what_so_many_rounds_can_hold_whatever_was_told() -> None:
    """Told, a miss counts 1.5 and a hit -0.5; true ones count 1 and 0, at the most and at the least."""
    learner = make("logit-tracker", alpha=0.1)
    assert bounds.excess(learner, rounds=10, wrong=0.25) == pytest.approx((-6.0, 14.0))
    assert bounds.excess(learner, rounds=10, wrong=0.25, delta=0.1) == pytest.approx((-1.0, 9.0))


def test_regret_of_the_logit_tracker_worked_out_by_hand() -> None:
    """Steps 0.5 / (1 + t / 10) until 0.1, at alpha 0.1, and Z = ln(999999)."""
    edge, ratio = math.log(1e6 - 1.0), 5.0
    warm = ratio * math.log(ratio) - (ratio - 1.0) * 0.9
    most = (edge + 0.5) / 0.1 + warm
    by_hand = (2.0 * edge + 0.5) ** 2 / 0.2
    by_hand += 0.1 * (0.09 * 5_000 + 0.8 * most) / 2.0 + 0.1 * warm * 0.81 / 0.2
    learner = make("logit-tracker", alpha=0.1)
    assert bounds.logit_regret(learner, rounds=5_000) == pytest.approx(by_hand)


def test_the_least_and_the_most_that_theorems_take() -> None:
    learner = make("ocp-unlock+", alpha=0.1, horizon=50_000, arms=20)
    assert bounds.regret(learner, complexity=0.0) < bounds.regret(learner, complexity=1.0)
    with pytest.raises(InvalidError, match=r"9,223,372,036,854,775,808 rounds are too many to count"):
        bounds.excess(make("logit-tracker", alpha=0.1), rounds=2**63)
    assert bounds.excess(make("logit-tracker", alpha=0.1), rounds=2**63 - 1).most < 149.0


@pytest.mark.parametrize("delta", [0.0, 1.0, "x"])
def test_delta_is_a_probability(delta: Any) -> None:
    with pytest.raises(InvalidError, match="is not a probability"):
        bounds.excess(make("logit-tracker", alpha=0.1), rounds=100, wrong=0.1, delta=delta)
    with pytest.raises(InvalidError, match="grows with the rounds; say after how many"):
        bounds.excess(make("logit-tracker", alpha=0.1), wrong=0.1, delta=0.1)


def _play_pinball(step: float, stream: str, rounds: int) -> float:
    """Return the regret of a logit tracker of this step, in the pinball loss of logits, by hand."""
    alpha, rng = 0.1, np.random.default_rng(5)
    learner = make("logit-tracker", alpha=alpha, options={"step": step, "first": step})
    edge, state = learner.parameters.edge, learner.start()
    played, truths = [], []
    for n in range(rounds):
        z = float(state.position[0])
        truth = {
            "normal": rng.normal(),
            "against": -edge if z > 0.0 else edge,
            "ends": edge * (-1) ** n,
        }
        s = min(max(truth[stream], -edge), edge)
        miss = z > edge or (z >= -edge and s < z)
        learner.observe(state, np.zeros(0), Answer(float(miss)))
        played.append(z)
        truths.append(s)
    at, real = np.array(played), np.array(truths)

    def lose(z: Any) -> float:
        return float(np.maximum((1 - alpha) * (z - real), alpha * (real - z)).sum())

    return lose(at) - min(lose(u) for u in np.linspace(-edge, edge, 2_001))


@pytest.mark.parametrize("stream", ["normal", "against", "ends"])
def test_regret_of_the_logit_tracker_on_pinball_loss_keeps_its_bound(stream: str) -> None:
    learner = make("logit-tracker", alpha=0.1, options={"step": 2.0, "first": 2.0})
    bound = bounds.logit_regret(learner, rounds=3_000)
    assert _play_pinball(2.0, stream, 3_000) <= bound


def test_steps_that_are_too_long_break_the_bound_of_short_ones() -> None:
    """The power of the test above: a player with steps of 30 has more than a step of 2 allows."""
    learner = make("logit-tracker", alpha=0.1, options={"step": 2.0, "first": 2.0})
    assert _play_pinball(30.0, "normal", 3_000) > bounds.logit_regret(learner, rounds=3_000)
    with pytest.raises(TheoremError, match="speaks of logit-tracker"):
        bounds.logit_regret(make("tracker", alpha=0.1), rounds=10)


def test_the_regret_of_unlock_hedge_is_twice_the_root_of_rounds_and_logarithm() -> None:
    assert bounds.unlock_hedge_regret(arms=5, horizon=100) == pytest.approx(20.0 * math.log(5.0) ** 0.5)


@pytest.mark.parametrize(("exploration", "moderate"), [(0.5, True), (0.51, False)])
def test_half_the_rounds_may_explore_and_no_more(exploration: float, moderate: bool) -> None:  # noqa: FBT001
    epoch = tuned(20, 50_000)._replace(exploration=exploration)
    assert bounds.conditions(epoch, arms=20).moderate_exploration is moderate


def _find_larger_share(alpha: float, rounds: int) -> float:
    """Return in which share of rounds sets are larger than at the 0.45-quantile less 2 logits."""
    rng, edge = np.random.default_rng(11), math.log(0.95 / 0.05)
    learner = make("logit-tracker", alpha=alpha, options={"margin": 0.05})
    scores = 1.0 / (1.0 + np.exp(-rng.uniform(-edge, edge, rounds)))
    run = simulate(learner, scores)
    lowest = edge * (2.0 * 0.45 - 1.0) - 2.0
    played = np.clip(run.thresholds[0], 1e-9, 1.0 - 1e-9)
    return float(np.mean(np.log(played / (1.0 - played)) < lowest))


def test_where_scores_are_dense_few_sets_are_larger_than_they_need_be() -> None:
    """The bound 2 b / (f x^2) of docs/guarantees.md, of uniform logits; another target breaks it."""
    rounds, density, far = 10_000, 1.0 / (2.0 * math.log(0.95 / 0.05)), 2.0
    learner = make("logit-tracker", alpha=0.45, options={"margin": 0.05})
    share = 2.0 * bounds.logit_regret(learner, rounds=rounds) / rounds / (density * far**2)
    assert share < 0.12
    assert _find_larger_share(0.45, rounds) <= share < 0.2 < _find_larger_share(0.1, rounds)
    default = make("logit-tracker", alpha=0.1)
    in_the_end = 2.0 * bounds.logit_regret(default, rounds=10**12) / 10**12 / 0.2
    assert in_the_end == pytest.approx(0.045, abs=1e-4)

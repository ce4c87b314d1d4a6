"""The gate tracker, round for round as worked out anew here, from its start and from any state."""

import math
from typing import Any

import numpy as np
import pytest

from keyhole import GATES, make
from keyhole.errors import InvalidError, TheoremError
from keyhole.feedback import Answer
from keyhole.learners.gates import ACCEPTED, CHANCE
from keyhole.learners.lateness import Lateness
from keyhole.numeric import Array

EDGE = math.log((1.0 - 1e-6) / 1e-6)


def sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z))


def logit(p: float) -> float:
    return min(
        EDGE, max(-EDGE, math.log(p / (1.0 - p)) if 0.0 < p < 1.0 else math.copysign(99, p - 0.5))
    )


class TrackerByHand:
    """The gate tracker in plain numbers: a guard around the excess, and a rank that moves."""

    def __init__(self, alpha: float, *, memory: float | None) -> None:
        self.alpha, self.memory = alpha, memory
        self.kept = [1.0 - alpha]
        self.z, self.back, self.on_trial = 2.0, 0.0, False
        self.excess, self.weight, self.grain, self.run = 0.0, 1.0, 1.0, 0.0
        self.judged = self.rounds = self.late = self.heard = self.quiet = 0
        self.curve, self.information = np.array([0.0, 0.5]), 2.0 * np.eye(2)

    def allow(self, rounds: int) -> float:
        return 20.0 + 0.3 * math.sqrt(rounds if self.memory is None else min(rounds, self.memory))

    @property
    def room(self) -> float:
        """The excess, in judgements, from which on the guard is shut."""
        now = self.rounds + 1
        known = 2.8 + 0.0095 * self.judged + 0.001 * now
        least = min(known, 4.0 * max(1.0, now / 1_000.0), self.allow(now))
        return least + 2.0 * self.late - (1.0 - self.alpha)

    def is_open(self) -> bool:
        return self.excess / self.weight <= self.room

    def is_trial_due(self) -> bool:
        if self.z <= 2.2 or not self.is_open():
            return False
        wait = min(1000.0, 100.0 + 250.0 * max(0.0, self.excess / self.weight))
        hopes = self.expect(2.2, self.trust()) < self.goal()
        if self.heard >= 20 and self.quiet * self.alpha >= 1.0 and hopes:
            return True
        return self.quiet >= (20.0 if self.heard >= 20 else 1.0) * wait

    def threshold(self, z: float) -> float:
        if abs(z) >= 3.0:
            return 2.0 if z > 0.0 else 0.0
        places = np.arange(len(self.kept))
        return float(np.interp(len(self.kept) * sigmoid(z), places, self.kept))

    def choose(self) -> tuple[float, Any]:
        own = self.threshold(2.2 if self.is_trial_due() else self.z)
        return (own if self.is_open() else 2.0), (self.is_open(), own)

    def note(self, score: float, *, accepted: bool) -> None:
        if self.is_trial_due():
            self.back, self.z, self.on_trial = self.z, 2.2, True
            self.quiet, self.run = 0, 0.0
        if len(self.kept) == 64 and self.rounds % int(min(self.rounds + 1, 20_000) / 64) == 0:
            del self.kept[int(self.rounds * 0.6180339887498949 % 1.0 * 64)]
        if len(self.kept) < 64:
            self.kept = sorted([*self.kept, score])
        self.rounds += 1
        if self.memory is not None and self.excess > 0.0:
            self.excess *= 1.0 - 1.0 / self.memory
        self.quiet = 0 if accepted else self.quiet + 1
        if accepted and (self.judged == 0 or self.on_trial):
            self.z = min(3.5, self.z + 0.1 / self.weight)
        if not accepted and self.excess < 0.0:
            credit = min(1.0, -self.excess / self.weight)
            self.z = max(-3.5, self.z - 0.01 * self.alpha * credit / self.weight)

    def judge(self, chance: float, answer: Answer) -> None:
        if self.judged == 0:
            self.z = 2.0
        elif self.on_trial:
            self.z -= 0.1
        before, spread = self.excess / self.grain, max(1.0, abs(2.0 * answer.miss - 1.0))
        self.late += answer.age > self.late
        self.excess += (answer.miss - self.alpha) / chance
        self.weight += (spread / chance - self.weight) / (self.judged + 2)
        self.grain += (spread / math.sqrt(chance) - self.grain) / (self.judged + 2)
        if self.memory is not None:
            self.excess = max(self.excess, -self.allow(self.rounds) * self.weight)
        self.judged += 1
        if self.heard:
            self.fit(answer)
        self.move(before, (1.0 - self.trust()) / math.sqrt(chance), answer)

    def move(self, before: float, scale: float, answer: Answer) -> None:
        spread, fresh = max(1.0, abs(2.0 * answer.miss - 1.0)), 1.0 / (1.0 + answer.stale / 120.0)
        young = 1.0 / math.sqrt(1.0 + self.judged / 300.0)
        haste = min(4.0, 1.0 + 0.3 * max(0.0, before - 1.5 * (1.0 + self.judged / 300.0) ** 0.75))
        later = haste * max(0.01, 2.0 * self.alpha * young)
        step = max(later, 1.0 / (1.0 + self.alpha * self.judged)) * fresh
        if answer.miss < self.alpha:
            self.run += fresh
            usual = (1.0 - 1.0 / spread) / 2.0 + self.alpha / spread
            self.on_trial = self.on_trial and self.run * usual < 1.0
        else:
            self.z = max(self.z, self.back) if self.on_trial else self.z
            self.run, self.on_trial = 0.0, False
        debt = min(20.0, self.excess / self.grain)
        if debt > 0.0:
            pull = (0.03 * self.alpha * (1.0 - young) + 0.02 * young) * step**2 * debt
            pull = min(self.alpha * step / 2.0, pull)
        else:
            spare = 6.0 / young + self.alpha * answer.stale
            pull = -self.alpha * step * min(1.0, 0.1 * max(0.0, -debt - spare))
        shift = step * (answer.miss - self.alpha) / spread * scale + pull
        self.z = min(3.5, max(-3.5, self.z + shift))

    def place(self, score: float) -> float:
        below = sum(one <= score for one in self.kept)
        return min(3.5, max(-3.5, logit((below + 0.5) / (len(self.kept) + 1))))

    def fit(self, answer: Answer) -> None:
        case = np.array([1.0, -self.place(answer.score)])
        chance, spread = sigmoid(float(self.curve @ case)), max(1.0, abs(2.0 * answer.miss - 1.0))
        counts = math.exp(-0.5 * (1.0 - self.trust()) * max(0.0, self.z + case[1]))
        told = counts * max(0.02, chance * (1.0 - chance)) / spread**2
        first, kept = 2.0 * np.eye(2), 1.0 - 0.0005 * counts
        self.information = first + kept * (self.information - first) + told * np.outer(case, case)
        step = np.linalg.solve(self.information, case * counts * (answer.miss - chance) / spread**2)
        self.curve = np.clip(self.curve + step, [-np.inf, 0.0], [np.inf, 4.0])

    def trust(self) -> float:
        return self.heard / (self.heard + 20) * (1.0 - 1.0 / self.weight)

    def goal(self) -> float:
        return self.alpha * (1.0 - 0.1 * self.trust() / math.sqrt(1.0 + self.judged / 300.0))

    def expect(self, z: float, errors: float) -> float:
        ranks = [1.0 - part * sigmoid(-z) for part in (0.25, 0.75)]
        cases = np.array([[1.0, -min(5.5, logit(rank))] for rank in ranks])
        wrong = 1.0 / (1.0 + np.exp(-cases @ self.curve))
        gradient = np.mean(cases * (wrong * (1.0 - wrong))[:, None], axis=0)
        error = math.sqrt(gradient @ np.linalg.inv(self.information) @ gradient)
        return float(wrong.mean()) + errors * error

    def hear(self, memo: Any, answer: Answer) -> None:
        was_open, own = memo
        self.heard += 1
        self.fit(answer)
        if not was_open and answer.score >= own:
            self.move(self.excess / self.grain, 1.0, answer)
        elif not self.on_trial:
            rest = 1.0 - self.trust()
            trust = self.heard / (self.heard + 20) * (1.0 + 2.0 * self.trust())
            trust /= 1.0 + self.alpha * self.judged / self.weight * rest
            beyond = self.expect(min(3.0, self.z), self.trust()) - self.goal()
            beyond = min(0.0, beyond) + max(0.0, beyond - 0.5 * self.alpha * rest)
            self.z = min(3.5, max(-3.5, self.z + trust * beyond / (1.0 + answer.stale / 120.0)))


def draw_state(rng: np.random.Generator, alpha: float, memory: float | None) -> TrackerByHand:
    """Return any state there may be: young or old, on a trial or not, its guard near or far."""
    by_hand = TrackerByHand(alpha, memory=memory)
    rounds = int(rng.choice([0, 1, 62, 63, 64, 127, 128, 640, 19_968, 20_000, 20_280, 64_000]))
    by_hand.rounds, kept = rounds, min(64, rounds + 1)
    by_hand.kept = np.sort(rng.choice([rng.random(), 0.5, 0.75, *rng.random(40)], kept)).tolist()
    by_hand.judged = min(rounds, int(rng.choice([0, 1, 50, 300, 9_000])))
    by_hand.heard = int(rng.choice([0, 1, 19, 20, 200]))
    by_hand.weight = float(rng.choice([1.0, 1.0 + 9.0 * rng.random()]))
    by_hand.grain = float(rng.uniform(1.0, by_hand.weight))
    by_hand.late = int(rng.choice([0, 1, 6]))
    guard = by_hand.room + rng.choice([-0.3, -0.01, 0.01, 0.3])
    by_hand.excess = float(rng.choice([0.0, guard, *rng.normal(0.0, [1.0, 5.0, 40.0])]))
    by_hand.excess *= by_hand.weight
    waits = [0, 1, 9, 10, 99, 100, 349, 350, 999, 1_000, 1_999, 2_000, 19_999, 20_000]
    by_hand.quiet, by_hand.run = int(rng.choice(waits)), float(rng.choice([0.0, 4.0, 9.0, 20.0]))
    by_hand.on_trial = bool(rng.random() < 0.3)
    by_hand.back = float(rng.uniform(2.2, 3.45)) if by_hand.on_trial else 0.0
    by_hand.z = float(rng.choice([2.0, 2.2, 3.0, -3.0, 3.45, 3.5, -3.5, *rng.uniform(-3.5, 3.5, 5)]))
    by_hand.curve = np.array([rng.normal(0.0, 2.0), rng.choice([0.0, 4.0, 4.0 * rng.random()])])
    cases = rng.normal(size=(int(rng.choice([0, 3])), 2))
    by_hand.information = 2.0 * np.eye(2) + cases.T @ cases * rng.choice([1.0, 30.0])
    return by_hand


def pack(by_hand: TrackerByHand) -> list[list[float]]:
    """Return its state in the order of the learner's."""
    (i, j), (_, k) = by_hand.information
    level, slope = by_hand.curve
    scores = by_hand.kept + [0.0] * (64 - len(by_hand.kept))
    one = (
        by_hand.z, by_hand.excess, by_hand.weight, by_hand.grain, by_hand.judged, by_hand.rounds,
        by_hand.late, by_hand.quiet, by_hand.run, by_hand.back if by_hand.on_trial else -3.5,
        by_hand.heard, level, slope,
    )  # fmt: skip
    return [scores, *([part] for part in one), [i, j, k]]


def check_same(state: Any, by_hand: TrackerByHand) -> None:
    scores, *numbers = pack(by_hand)
    assert list(state.scores) == scores
    for name, held, expected in zip(state._fields[1:], state[1:], numbers, strict=True):
        for one, other in zip(held, expected, strict=True):
            assert math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9), name


@pytest.mark.parametrize("memory", [None, 300.0])
@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.4])
def test_any_round_in_any_state_is_that_worked_out_by_hand(alpha: float, memory: float | None) -> None:
    """Kills: what the long runs notice, in a second."""
    rng = np.random.default_rng(3)
    learner = make("gate-tracker", alpha=alpha, options={"memory": memory})
    start = learner.start()
    check_same(start, TrackerByHand(alpha, memory=memory))
    for _ in range(200):
        by_hand = draw_state(rng, alpha, memory)
        state = type(start)(*pack(by_hand))
        threshold, memo = learner.choose(state)
        expected, remembered = by_hand.choose()
        assert threshold == pytest.approx(expected, abs=1e-9)
        assert (memo[2] > 0.0, memo[3]) == (remembered[0], pytest.approx(remembered[1], abs=1e-9))
        score = float(rng.choice([0.5, 1.0, 0.0, *by_hand.kept, *rng.random(9)]))
        accepted, chance = bool(rng.random() < 0.5), float(rng.choice([1.0, 0.25]))
        memo[ACCEPTED], memo[CHANCE] = float(accepted), chance
        learner.observe(state, memo, Answer(math.nan, score))
        by_hand.note(score, accepted=accepted)
        check_same(state, by_hand)
        miss = float(rng.choice([0.0, 1.0, 0.0, 1.0, alpha, -0.125, 1.125]))
        age = float(rng.choice([0, 1, by_hand.late, by_hand.late + 1, 300]))
        answer = Answer(miss, score, age, float(rng.choice([0.0, age, 60.0])))
        remembered = bool(rng.random() < 0.5), float(rng.choice([score, 0.3, 2.0]))
        memo[2], memo[3] = float(remembered[0]), remembered[1]
        learner.observe(state, memo, answer)
        if accepted:
            by_hand.judge(chance, answer)
        else:
            by_hand.hear(remembered, answer)
        check_same(state, by_hand)
        change = float(rng.choice([-1.0, 1.0, 0.5]))
        learner.observe(state, memo, Answer(alpha + change, score, amends=1.0))
        by_hand.excess += change / chance
        by_hand.z = min(3.5, max(-3.5, by_hand.z + 0.01 * change))
        check_same(state, by_hand)


def test_late_bounds_worked_out_by_hand() -> None:
    """After 400 rounds 4 of the budget, 2 for each of 4 levels, one wrong kept free: 11.1.

    Judgements of weight 2 that come to -1/4 or 1 count for 3 at most, and three that waited for 1.8.
    """
    given = make("gate-tracker", alpha=0.1).parameters
    found = given.late_excess(400, Lateness(open=3, age=4, weight=2.0, told=(-0.25, 1.0)))
    assert found == pytest.approx((2.0 * (-0.25 - 0.1) * 400, 3.0 * 11.1 + 3 * 1.8))
    found = given.late_excess(400, Lateness(open=9, age=4, told=(0.0, 1.25)))
    assert found == pytest.approx((-0.1 * 400, 1.5 * 11.1 + 5 * 1.15))
    assert given.late_excess(40_000, Lateness()).most == pytest.approx(20.0 + 0.3 * 200.0)


def test_the_bound_of_a_group_is_by_its_own_rounds_and_lateness() -> None:
    learner = make("gate-tracker", alpha=0.1)
    state = learner.start()
    assert learner.parameters.bound_group(state, Lateness()).most == pytest.approx(2.8105)
    state.rounds[0], state.late[0] = 100, 2.0
    found = learner.parameters.bound_group(state, Lateness(open=5))
    assert found == (-math.inf, pytest.approx(2.8 + 1.05 + 4.0 - 0.9 + 3 * 0.9))
    for rounds, most in ((200, 4.0), (1_000, 4.0), (5_000, 20.0), (10_000, 40.0), (20_000, 62.4264)):
        assert learner.parameters.excess(rounds).most == pytest.approx(most)
    forgetful = make("gate-tracker", alpha=0.1, options={"memory": 50.0}).parameters
    assert forgetful.bound_group(state, Lateness()) is None
    with pytest.raises(TheoremError, match="together with a memory"):
        forgetful.late_excess(100, Lateness())
    most = 2.8 + 0.0105 * 100
    budget = 20.0 + 0.3 * math.sqrt(50.0)
    assert forgetful.excess(100) == pytest.approx((-10.0, most + budget * 100 / 50))


def test_a_curve_that_a_file_made_up_raises_nothing() -> None:
    """What is known of the curve is then no information matrix, and its variance below 0."""
    learner = make("gate-tracker", alpha=0.1)
    state = learner.start()
    state.heard[0], state.weight[0], state.position[0], state.quiet[0] = 200, 5.0, 2.5, 50
    state.sure[:] = [2.0, -900.0, 2.0]
    threshold, memo = learner.choose(state)
    learner.observe(state, memo, Answer(1.0, 0.2))
    assert all(math.isfinite(one) for part in state for one in part)
    assert 0.0 <= threshold <= 2.0


def test_a_gate_takes_judgements_that_may_be_wrong_and_remembers_four_numbers() -> None:
    rule = GATES["gate-tracker"]
    assert (rule.graded, rule.kind.name, rule.draws) == (True, "gate", False)
    learner = make("gate-tracker", alpha=0.1)
    assert (learner.memory, learner.runs_interpreted) == (4, True)
    state = learner.start()
    for name in ("judged", "rounds"):
        for most, fits in ((2**53, True), (2**53 + 2, False)):
            spoilt = state._replace(**{name: [most]})
            if fits:
                assert learner.unpack(learner.pack(spoilt)) == spoilt
            else:
                with pytest.raises(InvalidError, match=f"the {name} of the state"):
                    learner.unpack(learner.pack(spoilt))


# alpha, memory, how often an accepted answer is judged, how often a judge errs, whether the referred
# are judged too, how late, and between which scores all of them lie
WORLDS = {
    "all are judged": (0.1, None, 1.0, 0.0, False, 0, (0.0, 1.0)),
    "the referred too": (0.1, None, 1.0, 0.0, True, 0, (0.0, 1.0)),
    "a lower target, both": (0.02, None, 1.0, 0.0, True, 3, (0.0, 1.0)),
    "audits": (0.1, None, 0.4, 0.0, False, 0, (0.0, 1.0)),
    "few audits, the referred too": (0.2, None, 0.1, 0.0, True, 0, (0.0, 1.0)),
    "judges who err, both": (0.2, None, 1.0, 0.1, True, 0, (0.0, 1.0)),
    "late": (0.1, None, 0.8, 0.05, True, 40, (0.0, 1.0)),
    "a memory": (0.1, 60.0, 1.0, 0.0, False, 0, (0.0, 1.0)),
    "a memory, audits and judges who err": (0.3, 200.0, 0.5, 0.1, True, 5, (0.0, 1.0)),
    "scores close together": (0.1, None, 1.0, 0.0, False, 0, (0.7, 0.8)),
    "scores close together and low, both": (0.1, None, 1.0, 0.0, True, 0, (0.2, 0.25)),
    "scores that are the same": (0.1, None, 1.0, 0.0, False, 0, (0.7, 0.7)),
}


def draw_world(rounds: int, *, seed: int) -> tuple[Array, Array]:
    """A model that is good, then wrong for 1,200 rounds, then good again, in turn."""
    rng = np.random.default_rng(seed)
    scores = 1.0 / (1.0 + np.exp(-rng.normal(1.0, 2.5, rounds)))
    scores[rng.random(rounds) < 0.02] = 1.0
    scores[rng.random(rounds) < 0.02] = 0.0
    bad = np.arange(rounds) % 1_700 >= 500
    return scores, np.where(bad & (rng.random(rounds) < 0.97), 1.0, rng.random(rounds) >= scores)


@pytest.mark.parametrize("world", WORLDS)
def test_the_gate_tracker_plays_the_thresholds_worked_out_by_hand(world: str) -> None:
    """Kills: any change of guard, ranks, steps, trials, creeping, audits, errors or lateness."""
    alpha, memory, chance, errs, both, late, (least, most) = WORLDS[world]
    learner = make("gate-tracker", alpha=alpha, options={"memory": memory})
    by_hand, state = TrackerByHand(alpha, memory=memory), learner.start()
    rng, waiting = np.random.default_rng(7), []
    scores, outcomes = draw_world(3_600, seed=5)
    scores = least + (most - least) * scores
    for number, (score, wrong) in enumerate(zip(scores, outcomes, strict=True)):
        threshold, memo = learner.choose(state)
        expected, remembered = by_hand.choose()
        assert threshold == pytest.approx(expected, abs=1e-9), number
        accepted = bool(score >= expected)
        memo[ACCEPTED], memo[CHANCE] = float(accepted), chance
        learner.observe(state, memo, Answer(math.nan, float(score)))
        by_hand.note(float(score), accepted=accepted)
        if (accepted and rng.random() < chance) or (not accepted and both):
            told = wrong if rng.random() >= errs else 1.0 - wrong
            due, miss = number + int(rng.integers(0, late + 1)), (told - errs) / (1.0 - 2.0 * errs)
            waiting.append((due, number, accepted, memo, remembered, float(score), float(miss)))
        for one in [w for w in waiting if w[0] <= number]:
            waiting.remove(one)
            _, then, accepted, memo, remembered, score, miss = one
            answer = Answer(miss, score, float(number - then), 2.0 * (number - then))
            learner.observe(state, memo, answer)
            if accepted:
                by_hand.judge(chance, answer)
            else:
                by_hand.hear(remembered, answer)
    assert state.excess[0] == pytest.approx(by_hand.excess, abs=1e-9)

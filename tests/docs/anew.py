"""The rules of docs/rules.md and docs/guarantees-gate.md, written from the pages alone."""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

EVERY, NONE = 0.0, 2.0
Z = math.log((1.0 - 1e-6) / 1e-6)
LARGEST = 1.7976931348623157e308


def sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0.0 else math.exp(z) / (1.0 + math.exp(z))


def clip(z: float, low: float, high: float) -> float:
    return min(max(z, low), high)


@dataclass
class Case:
    """What is known of a round: features, groups, and what the model says of each label."""

    features: Sequence[float] = ()
    groups: Sequence[int] = ()
    scores: Sequence[float] = ()
    is_cut: bool = False


@dataclass
class Opened:
    number: int
    then: int
    threshold: float
    case: Case
    asked: int = 0
    said: float = 0.0
    bare: float = 0.0
    cells: list[tuple[int, float, list[tuple[int, float]]]] = field(default_factory=list)


class Shared:
    """What all rules share: the delay of an answer, its pace, the level and the scale."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.predicted = self.answered = self.level = self.k = 0
        self.usual = self.scale = 1.0

    def open(self, threshold: float, case: Case) -> Opened:
        opened = Opened(self.predicted, self.answered, threshold, case)
        self.predicted += 1
        return opened

    def find_delay(self, opened: Opened) -> tuple[int, float]:
        age, since = self.answered - opened.then, self.predicted - 1 - opened.number
        return age, age + since * min(1.0, (self.answered + 1) / (opened.number + 1))

    def find_pace(self, weight: float) -> float:
        if weight == self.usual:
            return 1.0
        if self.answered == 0:
            self.usual = weight
            return 1.0
        pace = min(weight / self.usual, 10.0)
        self.usual += (weight - self.usual) / min(self.answered + 1, 100)
        return pace

    def count_late(self, age: int, weight: float, pace: float, *, scales: bool = True) -> None:
        self.level += age > self.level
        if scales:
            self.scale = max(self.scale, weight / pace)


def track(
    alpha: float, k: int, excess: float, error: float, stale: float, *, last: float = 0.1
) -> float:
    """The step of the logit tracker."""
    step = max(0.5 / (1.0 + alpha * k), last)
    if stale == 0.0:
        return step
    slower = 1.0 + stale / 60.0
    shorter = max(last, step / slower) / slower
    if error < 0.0 and excess + alpha * k < 0.5:
        shorter = max(shorter, min(step, 3.0 / (stale * -error)))
    return shorter


class LogitTracker(Shared):
    def __init__(self, alpha: float) -> None:
        super().__init__(alpha)
        self.z = self.excess = 0.0
        warm_up = 5.0 * math.log(5.0) - 4.0 * (1.0 - alpha)
        self.most = (Z + 0.5) / 0.1 + warm_up
        by_sum = (Z + 0.5 * alpha) / 0.1 + warm_up * (1.0 - alpha) / alpha
        self.least = min(by_sum, (Z + 0.5) * (2.0 / 0.1 - 1.0 / 0.5))

    def choose(self, case: Case) -> Opened:
        excess, slack = self.excess / self.scale, 2.0 * self.level
        if self.excess > self.most and excess > self.most + slack:
            return self.open(EVERY, case)
        if self.excess < -self.least and excess < -self.least - slack:
            return self.open(NONE, case)
        if abs(self.z) > Z:
            return self.open(EVERY if self.z < 0.0 else NONE, case)
        return self.open(sigmoid(self.z), case)

    def observe(
        self,
        opened: Opened,
        miss: float,
        *,
        weight: float,
        score: float | None,  # noqa: ARG002
    ) -> None:
        (age, stale), pace = self.find_delay(opened), self.find_pace(weight)
        error = miss - self.alpha
        step = track(self.alpha, self.k, self.excess, error, stale)
        self.z = clip(self.z - step * pace * error, -Z - 0.5, Z + 0.5)
        self.excess += weight * error
        self.k += 1
        self.count_late(age, weight, pace, scales=weight > 1.0)
        self.answered += 1


class InformedTracker(Shared):
    step, leak, pull = 0.1, 0.008, 0.04

    def __init__(self, alpha: float) -> None:
        super().__init__(alpha)
        self.x = self.excess = self.word = 0.0
        self.bins = [0] * 84
        self.total = self.place = self.below = self.told = self.left = 0
        self.bare = False

    def find_bin(self, score: float) -> int:
        if not 0.0 < score < 1.0:
            return 0 if score <= 0.0 else 83
        part, power = math.frexp((1.0 - 2.0**-30) * (score / (1.0 - score)))
        return int(clip(math.floor(3.0 * (power - 1 + 2.0 * part - 1.0 + 14.0)), 0, 83))

    def move_place(self) -> None:
        self.total = self.left + sum(self.bins)
        self.below = self.left + sum(self.bins[: self.place])
        need = self.alpha * self.total * self.total / (self.total + 32)
        while self.below > need and self.place > 0:
            self.place -= 1
            self.below -= self.bins[self.place]
        while self.below + self.bins[self.place] < need and self.place < 83:
            self.below += self.bins[self.place]
            self.place += 1

    def hear(self, case: Case) -> None:
        whole = sum(case.scores)
        if case.is_cut:
            self.hear_share(None, 1.0 - whole)
        for score in case.scores:
            self.hear_share(score, score if case.is_cut else score / whole)

    def hear_share(self, score: float | None, share: float) -> None:
        before = int(32.0 * self.word)
        self.word += share
        units = int(32.0 * self.word) - before
        if units > 0 and self.total + units <= 44_352:
            if score is not None:
                self.bins[self.find_bin(score)] += units
            elif self.k == 0:
                self.left += units
            self.move_place()

    def find_base(self) -> float:
        if self.total == 0:
            return 0.0
        need = self.alpha * self.total * self.total / (self.total + 32)
        held = self.bins[self.place]
        base = (self.place + (clip((need - self.below) / held, 0.0, 1.0) if held else 0.0)) / 3.0 - 14.0
        if self.word == 0.0:
            base *= self.total / (self.total + 640)
        if base > 0.0:
            base = min(base * min(1.0, self.k * self.alpha), 6.0)
        return max(base, -13.0)

    def find_odds(self, case: Case) -> float:
        heard = self.k < 20 and self.predicted < 1_000 and len(case.scores) > 1
        heard = heard and (self.k == 0 or self.word < 20.0 - 1e-6)
        if heard and (case.is_cut or 0.9 <= sum(case.scores) <= 1.01):
            self.hear(case)
        base = self.find_base()
        whole = math.floor(base)
        return float(2.0**whole * (1.0 + base - whole) * math.exp(self.x))

    def find_threshold(self, odds: float) -> float:
        threshold = odds / (1.0 + odds)
        if 1e-6 <= threshold <= 1.0 - 1e-6:
            return threshold
        return EVERY if threshold < 0.5 else NONE

    def choose(self, case: Case) -> Opened:
        threshold = self.find_threshold(self.find_odds(case))
        if abs(self.excess) > 150.0 and abs(self.excess) / self.scale > 150.0 + 2.0 * self.level:
            threshold = EVERY if self.excess > 0.0 else NONE
        return self.open(threshold, case)

    def find_step(self, opened: Opened, miss: float, stale: float) -> float:
        if self.bare and self.word == 0.0:
            error = miss - self.alpha
            return track(self.alpha, self.k, self.excess, error, stale, last=self.step)
        if stale == 0.0:
            return self.step
        step = self.step / (1.0 + stale / 60.0 + (stale / 400.0) ** 2)
        return self.find_news(opened, miss, stale) * min(step, self.find_longest(stale))

    def find_longest(self, stale: float) -> float:
        if stale == 0.0 or self.bare:
            return math.inf
        apart = math.floor(3.0 * abs(self.x) / math.log(2.0))
        near = self.bins[max(self.place - apart, 0) : min(self.place + apart, 83) + 1]
        held = stale * sum(near)
        most = math.log(2.0) / 3.0 * len(near) * self.total * (1.0 + stale / 1_000.0)
        if self.k >= stale:
            most *= max(1.0, self.excess / (self.scale * (self.alpha * stale + 10.0)))
        return most / held if held else math.inf

    def find_news(self, opened: Opened, miss: float, stale: float) -> float:
        if self.k >= stale or (self.bare and self.word == 0.0):
            return 1.0
        lower = self.left + sum(self.bins[: self.find_bin(opened.threshold)])
        usual = self.alpha * self.total
        if miss == 1.0 and lower > 2.0 * usual:
            return 2.0 * usual / lower
        return lower / usual if miss == 0.0 and lower < usual else 1.0

    def observe(self, opened: Opened, miss: float, *, weight: float, score: float | None) -> None:
        self.learn(opened, miss, weight, self.find_pace(weight), score)

    def learn(
        self, opened: Opened, miss: float, weight: float, pace: float, score: float | None
    ) -> None:
        age, stale = self.find_delay(opened)
        error = miss - self.alpha
        self.count_late(age, weight, pace, scales=stale > 0.0 or weight != 1.0)
        step = self.find_step(opened, miss, stale)
        if step == self.find_news(opened, miss, stale) * self.find_longest(stale):
            due = self.excess / (10.0 * self.scale * stale)
            self.x -= step * pace * clip(due, -self.alpha, self.alpha)
        self.x -= step * pace * error
        if self.told == 5 and 3 <= self.place < 60:
            aim = clip(-self.pull * self.excess / self.scale, -0.3, 0.3)
            self.x += step / self.step * max(self.leak * (aim - self.x), -0.3 * self.alpha * self.step)
        self.x = clip(self.x, -Z, Z)
        if opened.threshold > 1.0 and error < 0.0:
            self.excess = max(self.excess, 0.0)
        self.excess += weight * error
        if self.k == 0:
            self.left, held = 0, sum(self.bins)
            self.bins = [640 * one // held for one in self.bins] if held > 640 else self.bins
        elif self.k > 0 and self.total > 44_352:
            self.bins = [held // 2 for held in self.bins]
        self.k += 1
        self.learn_score(opened, miss, math.floor(32.0 * pace + 0.5), score)
        self.move_place()
        self.answered += 1

    def amend(self, change: float, *, weight: float, pace: float) -> None:
        self.x = clip(self.x - self.step * pace * change, -Z, Z)
        self.excess += weight * change

    def learn_score(self, opened: Opened, miss: float, units: int, score: float | None) -> None:
        if score is not None:
            self.bins[self.find_bin(score)] += units
            self.bare = self.bare and miss != 0.0
            self.told = min(self.told + (miss == 1.0), 5)
            return
        self.told = 0
        self.bare = self.bare or miss != 1.0
        at_start = self.word > 0.0 and self.k < 300 and miss in (0.0, 1.0)
        if at_start or (miss == 1.0 and not self.bare):
            self.spread(self.find_bin(opened.threshold), miss, units)

    def spread(self, edge: int, miss: float, units: int) -> None:
        possible = range(edge, -1, -1) if miss == 1.0 else range(edge, 84)
        less = 2.0 ** (-2 / 3 if self.bare else -1 / 6 if self.word > 5.5 else -1 / 4)
        extra = 16.0 if miss == 1.0 else 16.0 * self.alpha
        claims = extra / (1.0 - less) + sum(self.bins[place] for place in possible)
        claimed, given = 0.0, 0
        for place in possible:
            if given >= units:
                return
            claimed += self.bins[place] + extra
            extra *= less
            until = math.floor(units * (claimed / claims) + 0.5)
            self.bins[place] += until - given
            given = until


def leave_out(score: float, said: float) -> float:
    if not 0.0 < score < 1.0 or said == 0.0:
        return score
    odds = score / (1.0 - score) * math.exp(-said)
    return odds / (1.0 + odds)


class ContextualTracker(InformedTracker):
    def __init__(self, alpha: float, *, features: int, groups: int) -> None:
        super().__init__(alpha)
        self.longest = 1.0
        self.weights = [[0.0] * 9 for _ in range(features)]
        self.visits = [[0.0] * 9 for _ in range(features)]
        self.group_weights, self.group_visits = [0.0] * groups, [0.0] * groups
        self.samples: list[list[float]] = [[] for _ in range(features)]
        self.seen = [0] * features
        self.accounts = [0.0] * (1 + groups)
        self.cap = 18.0 if groups else 8.0

    def find_cells(self, case: Case) -> list[tuple[int, float, list[tuple[int, float]]]]:
        found = []
        for feature, given in enumerate(case.features):
            if given != given:
                found.append((feature, given, [(8, 1.0)]))
                continue
            value, sample = clip(given, -LARGEST, LARGEST), self.samples[feature]
            rank = (bisect_left(sample, value) + bisect_right(sample, value) + 1) / (
                2 * (len(sample) + 1)
            )
            lower = min(math.floor(7 * rank), 6)
            share = 7 * rank - lower
            found.append((feature, value, [(lower, 1.0 - share), (lower + 1, share)]))
        return found

    def say(self, cells: list[tuple[int, float, list[tuple[int, float]]]], case: Case) -> float:
        said = 0.0
        for feature, _, shares in cells:
            said += sum(self.weights[feature][cell] * share for cell, share in shares)
        dead = 50.0 * (1.0 + self.level / 60.0)
        for group in case.groups:
            excess = self.accounts[1 + group] / self.scale
            said += self.group_weights[group]
            said -= 0.1 * (max(excess - dead, 0.0) + min(excess + dead, 0.0))
        return clip(said, -self.cap, self.cap)

    def choose(self, case: Case) -> Opened:
        cells, odds = self.find_cells(case), self.find_odds(case)
        said, asked = self.say(cells, case), self.ask_guards(case)
        shown, bare = self.find_threshold(odds * math.exp(said)), self.find_threshold(odds)
        if asked:
            shown = bare = EVERY if asked > 0 else NONE
        opened = self.open(shown, case)
        opened.cells, opened.said, opened.asked, opened.bare = cells, said, asked, bare
        return opened

    def ask_guards(self, case: Case) -> int:
        bound = self.scale * (150.0 + 2.0 * self.level)
        accounts = [self.accounts[0], *(self.accounts[1 + group] for group in case.groups)]
        hot = [account for account in accounts if account >= bound]
        cold = [-account for account in accounts if -account >= bound]
        if not (hot and cold):
            return bool(hot) - bool(cold)
        high, low = (sum(max(e - bound - self.longest, 0.0) for e in side) for side in (hot, cold))
        return 1 if high >= low else -1

    def observe(self, opened: Opened, miss: float, *, weight: float, score: float | None) -> None:
        (_, stale), pace = self.find_delay(opened), self.find_pace(weight)
        always, k, x, owed = self.told == 5, self.k, self.x, self.accounts[0]
        self.excess = owed
        bare = replace(opened, threshold=opened.bare)
        step, news = self.find_step(bare, miss, stale), self.find_news(bare, miss, stale)
        most = self.find_longest(stale)
        now = self.find_threshold(self.find_odds(Case()))
        heard = None if score is None else leave_out(score, opened.said)
        self.learn(bare, miss, weight, pace, heard)
        self.count(opened, weight * (miss - self.alpha))
        if always and score is not None:
            left = leave_out(score, self.say(opened.cells, opened.case))
            if self.weights:
                errors = miss + float(left < now) - 2.0 * self.alpha
                x -= 0.6 * step * pace * errors
                x += 0.004 * (step / 0.1) * (-0.6 * step * owed / self.scale - x)
                self.x = clip(x, -Z, Z)
            miss = float(left < opened.bare)
        error, slower = miss - self.alpha, 1.0 + stale / 60.0
        cells = sum(len(shares) for _, _, shares in opened.cells) + len(opened.case.groups)
        pull, prior = news * pace * error, 0.5 * cells
        for feature, _, shares in opened.cells:
            for cell, share in shares:
                visits = self.visits[feature]
                first = 0.5 / slower / (prior + min(self.alpha * visits[cell], 50.0))
                longest = 0.5 * most * (k + 1) / (cells * (1.0 + visits[cell]))
                self.weights[feature][cell] -= pull * share * min(first, longest)
                visits[cell] += share**2
        for group in opened.case.groups:
            first = 0.5 / slower / (prior + min(self.alpha * self.group_visits[group], 50.0))
            longest = 0.5 * most * (k + 1) / (cells * (1.0 + self.group_visits[group]))
            self.group_weights[group] -= pull * min(first, longest)
            self.group_visits[group] += 1.0
        for feature, value, _ in opened.cells:
            if value == value:
                self.keep(feature, value, k)

    def count(self, opened: Opened, change: float) -> None:
        mine = [0, *(1 + group for group in opened.case.groups)]
        if opened.asked > 0 and change > 0.0:
            return
        for row in mine:
            if opened.asked < 0 and change < 0.0:
                self.accounts[row] = max(self.accounts[row], 0.0)
            else:
                self.accounts[row] += change
                self.longest = max(self.longest, abs(change))

    def amend_round(self, opened: Opened, change: float, *, weight: float, pace: float) -> None:
        self.amend(change, weight=weight, pace=pace)
        self.count(replace(opened, asked=0), weight * change)

    def keep(self, feature: int, value: float, k: int) -> None:
        self.seen[feature] += 1
        sample = self.samples[feature]
        if len(sample) == 100:
            draw = ((k % 2**31) * 2654435769 + feature * 1640531527 + 12345) % 2**32 / 2**32
            chance = 100 / min(self.seen[feature], 1_000)
            if draw >= chance:
                return
            del sample[int(100 * draw / chance)]
        insort(sample, value)


def logit(share: float, edge: float) -> float:
    return clip(math.log(share / (1.0 - share)), -edge, edge)


@dataclass
class Decided:
    number: int
    then: int
    score: float
    threshold: float
    own: float
    was_open: bool

    @property
    def accepted(self) -> bool:
        return self.score >= self.threshold


class GateTracker:
    def __init__(self, alpha: float, *, memory: float | None) -> None:
        self.alpha, self.memory = alpha, memory
        self.scores = [1.0 - alpha]
        self.y, self.back, self.excess, self.run = 2.0, -3.5, 0.0, 0.0
        self.weight = self.grain = 1.0
        self.judged = self.heard = self.rounds = self.level = self.quiet = self.answered = 0
        self.line, self.slope, self.known = 0.0, 0.5, [2.0, 0.0, 2.0]

    def budget(self, rounds: int) -> float:
        return 20.0 + 0.3 * math.sqrt(min(rounds, self.memory) if self.memory else rounds)

    def is_open(self) -> bool:
        known = 2.8 + 0.0095 * self.judged + 0.001 * (self.rounds + 1)
        first = max(4.0, (self.rounds + 1) / 250.0)
        room = min(self.budget(self.rounds + 1), first, known) + 2.0 * self.level
        return self.excess / self.weight + (1.0 - self.alpha) <= room

    def expect(self, position: float, errors: float) -> float:
        places = [logit(1.0 - part * sigmoid(-position), 5.5) for part in (0.25, 0.75)]
        wrong = [sigmoid(self.line - self.slope * place) for place in places]
        u = sum(one * (1.0 - one) for one in wrong) / 2.0
        v = -sum(one * (1.0 - one) * place for one, place in zip(wrong, places, strict=True)) / 2.0
        i, j, k = self.known
        error = math.sqrt((k * u * u - 2.0 * j * u * v + i * v * v) / (i * k - j * j))
        return sum(wrong) / 2.0 + errors * error

    def trust(self) -> float:
        return (1.0 - 1.0 / self.weight) * self.heard / (self.heard + 20)

    def goal(self) -> float:
        return self.alpha * (1.0 - 0.1 * self.trust() / math.sqrt(1.0 + self.judged / 300.0))

    def begins_trial(self) -> bool:
        if not self.is_open() or self.y <= 2.2:
            return False
        wait = min(1_000.0, 100.0 + 250.0 * max(0.0, self.excess / self.weight))
        if self.heard < 20:
            return self.quiet >= wait
        if self.quiet * self.alpha >= 1.0 and self.expect(2.2, self.trust()) < self.goal():
            return True
        return self.quiet >= 20.0 * wait

    def decide(self, score: float) -> Decided:
        trial, is_open = self.begins_trial(), self.is_open()
        position, kept = 2.2 if trial else self.y, len(self.scores)
        rank = kept * sigmoid(position)
        first, part = min(int(rank), kept - 1), rank - int(rank)
        own = self.scores[first]
        if first < kept - 1:
            own += part * (self.scores[first + 1] - own)
        if abs(position) >= 3.0:
            own = NONE if position > 0.0 else EVERY
        made = Decided(self.rounds, self.answered, score, own if is_open else NONE, own, is_open)
        if trial:
            self.back, self.y, self.quiet, self.run = self.y, 2.2, 0, 0.0
        self.keep(score)
        self.rounds += 1
        if self.memory and self.excess > 0.0:
            self.excess -= self.excess / self.memory
        self.quiet = 0 if made.accepted else self.quiet + 1
        if made.accepted and (self.judged == 0 or self.back > -3.5):
            self.y = min(3.5, self.y + 0.1 / self.weight)
        if not made.accepted and self.excess < 0.0:
            credit = min(1.0, -self.excess / self.weight)
            self.y = max(-3.5, self.y - 0.01 * self.alpha * credit / self.weight)
        return made

    def keep(self, score: float) -> None:
        if len(self.scores) == 64:
            if self.rounds % int(min(20_000, self.rounds + 1) / 64):
                return
            turn = 0.6180339887498949 * self.rounds
            del self.scores[int(64 * (turn - math.floor(turn)))]
        insort(self.scores, score)

    def learn(self, made: Decided, wrong: float, *, chance: float) -> None:
        age, since = self.answered - made.then, self.rounds - 1 - made.number
        stale = age + since * min(1.0, (self.answered + 1) / (made.number + 1))
        spread, before = max(1.0, abs(2.0 * wrong - 1.0)), self.excess / self.grain
        self.answered += 1
        if made.accepted:
            if self.judged == 0:
                self.y = 2.0
            elif self.back > -3.5:
                self.y -= 0.1
            self.level += age > self.level
            self.excess += (wrong - self.alpha) / chance
            self.weight += (spread / chance - self.weight) / (self.judged + 2)
            self.grain += (spread / math.sqrt(chance) - self.grain) / (self.judged + 2)
            if self.memory:
                self.excess = max(self.excess, -self.budget(self.rounds) * self.weight)
            self.judged += 1
            if self.heard:
                self.fit(made, wrong, spread)
            factor = (1.0 - self.trust()) / math.sqrt(chance)
            self.move(wrong, spread, before, factor, stale)
            return
        self.heard += 1
        self.fit(made, wrong, spread)
        if not made.was_open and made.score >= made.own:
            self.move(wrong, spread, before, 1.0, stale)
        elif self.back == -3.5:
            trust = self.trust()
            beyond = self.expect(min(3.0, self.y), trust) - self.goal()
            beyond = min(0.0, beyond) + max(0.0, beyond - 0.5 * self.alpha * (1.0 - trust))
            doubt = 1.0 + self.alpha * self.judged / self.weight * (1.0 - trust)
            beyond *= (1.0 + 2.0 * trust) / doubt / (1.0 + stale / 120.0)
            self.y = clip(self.y + self.heard / (self.heard + 20) * beyond, -3.5, 3.5)

    def move(self, wrong: float, spread: float, before: float, factor: float, stale: float) -> None:
        alpha, flow = self.alpha, 1.0 / (1.0 + stale / 120.0)
        young = 1.0 / math.sqrt(1.0 + self.judged / 300.0)
        haste = min(4.0, 1.0 + 0.3 * max(0.0, before - 1.5 / young**1.5))
        step = flow * max(max(0.01, 2.0 * alpha * young) * haste, 1.0 / (1.0 + alpha * self.judged))
        if wrong < alpha:
            self.run += flow
            if self.run * (0.5 - 0.5 / spread + alpha / spread) >= 1.0:
                self.back = -3.5
        else:
            self.y, self.run, self.back = max(self.y, self.back), 0.0, -3.5
        owed = self.excess / self.grain
        share = 0.03 * alpha * (1.0 - young) + 0.02 * young
        pull = min(0.5 * alpha * step, share * step**2 * min(20.0, max(0.0, owed)))
        pull -= alpha * step * clip(0.1 * (-owed - 6.0 / young - alpha * stale), 0.0, 1.0)
        self.y = clip(self.y + step * (wrong - alpha) / spread * factor + pull, -3.5, 3.5)

    def fit(self, made: Decided, wrong: float, spread: float) -> None:
        kept = len(self.scores)
        place = logit((bisect_right(self.scores, made.score) + 0.5) / (kept + 1), 3.5)
        chance = sigmoid(self.line - self.slope * place)
        near = min(1.0, math.exp((place - self.y) / 2.0 * (1.0 - self.trust()))) / spread**2
        told = near * max(0.02, chance * (1.0 - chance))
        i, j, k = self.known
        fade = near * spread**2 / 2_000.0
        i, k = i + fade * (2.0 - i) + told, k + fade * (2.0 - k) + told * place**2
        j = j - fade * j - told * place
        self.known = [i, j, k]
        step = near * (wrong - chance) / (i * k - j * j)
        self.line += step * (k + j * place)
        self.slope = clip(self.slope - step * (i * place + j), 0.0, 4.0)

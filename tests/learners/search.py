"""Adversaries who search for the worst sequence: greedily, looking ahead, and by random restarts.

They see the whole state of a learner and decide which round is asked or answered next, with which
outcome, what of its score is told, and for how many rounds it counts, within what a game allows.
``python -m tests.learners.search`` prints what they reached of the informed tracker's bounds, as
docs/guarantees.md has it.
"""

import copy
import math
import random
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from keyhole import bounds, make
from keyhole.feedback import Answer, correct_wrong, find_pace
from keyhole.learners import Learner
from keyhole.predictor.rounds import measure_delay

ALPHA, GUARD, ANSWERS = 0.2, 4.0, 100


class Game(NamedTuple):
    """What an adversary may do."""

    most_open: int = 1
    batches: bool = False
    lost: float = 0.0  # the share of rounds that is never answered
    chance: float = 1.0
    wrong: float = 0.0
    graded: bool = False


GAMES = {
    "prompt": Game(),
    "late": Game(most_open=4),
    "batched": Game(most_open=5, batches=True),
    "lost": Game(lost=0.5),
    "chance=0.2": Game(chance=0.2),
    "chance=0.2, late": Game(most_open=4, chance=0.2),
    "wrong=0.2": Game(wrong=0.2),
    "wrong=0.2, late": Game(most_open=4, wrong=0.2),
    "loss=": Game(graded=True),
    "loss=, batched": Game(most_open=5, batches=True, graded=True),
}


class Waiting(NamedTuple):
    threshold: float
    memo: Any
    number: int
    then: int


class Play:
    """One game so far; ``sign`` is 1 where misses are the aim, -1 where hits are."""

    def __init__(self, learner: Learner, game: Game, sign: float) -> None:
        self.learner, self.game, self.sign = learner, game, sign
        self.state = learner.start()
        self.waiting: list[Waiting] = []
        self.predicted = self.answered = 0
        self.usual, self.excess, self.worst = 1.0, 0.0, 0.0

    def split(self) -> "Play":
        """Return a copy that may be played on."""
        other = copy.copy(self)
        other.state = type(self.state)(*(part.copy() for part in self.state))
        other.waiting = list(self.waiting)
        return other

    def step(self, move: tuple[float, float, float]) -> None:
        """Ask or answer, as three numbers in [0, 1) say."""
        first, second, third = move
        game, count = self.game, len(self.waiting)
        if game.batches:
            asks = count == 0 or (count < game.most_open and self.waiting[-1].then == self.answered)
        else:
            asks = count == 0 or (count < game.most_open and first < 0.5)
        if asks:
            threshold, memo = self.learner.choose(self.state)
            if third >= game.lost or first < 0.5:
                self.waiting.append(Waiting(threshold, memo, self.predicted, self.answered))
            self.predicted += 1
        else:
            place = 0 if game.batches else int(third * count)
            self.answer(self.waiting.pop(place), second, third)

    def answer(self, one: Waiting, second: float, third: float) -> None:
        """Answer against the learner, or now and then with it; the score is told or not."""
        alpha, game = self.learner.alpha, self.game
        against = second < 0.85
        missed = float((self.sign > 0.0) == against)
        told = correct_wrong(missed, game.wrong)
        if game.graded and second * 7.0 % 1.0 < 0.3:
            told = (alpha + missed) / 2.0
        if one.threshold <= 0.0 or one.threshold > 1.0:  # The outcome is known, whatever is said.
            told = missed = float(one.threshold > 1.0)
        weight = 1.0
        if game.chance < 1.0:
            weight = 1.0 / game.chance if second * 13.0 % 1.0 < 0.7 else 1.0
        score = math.nan
        if third * 11.0 % 1.0 < 0.5 and missed in (0.0, 1.0) and not game.wrong:
            score = one.threshold * 0.9 if missed else min(1.0, one.threshold * 1.1)
        pace, self.usual = find_pace(weight, self.usual, self.answered)
        age, stale = measure_delay(one.number, one.then, self.predicted, self.answered)
        heard = Answer(told, score, age, stale, 0.0, weight, pace)
        self.learner.observe(self.state, one.memo, heard)
        self.answered += 1
        self.excess += weight * (told - alpha)
        self.worst = max(self.worst, self.sign * self.excess)

    def bound(self) -> float:
        """Return what is stated upwards or downwards, at the level of lateness that was reached."""
        game = self.game
        least, most = bounds.excess(
            self.learner, rounds=self.answered, open=game.most_open, age=int(self.state.lateness[0]),
            lost=game.lost > 0.0, chance=game.chance, wrong=game.wrong,
        )  # fmt: skip
        return most if self.sign > 0.0 else -least


Moves = list[tuple[float, float, float]]


def play_greedily(start: Play) -> Moves:
    """Open all that may be, then answer the oldest against the learner."""
    moves: Moves = []
    asks = answers = 0
    while answers < ANSWERS:
        filled = asks - answers >= start.game.most_open
        moves.append((0.9, 0.0, 0.0) if filled else (0.0, 0.0, 0.9))
        asks, answers = asks + (not filled), answers + filled
    return moves


def look_ahead(start: Play, rng: random.Random, *, depth: int = 4, tries: int = 6) -> Moves:
    """Of some ways to go on for a few moves take the first move of the one that leads farthest."""
    moves: Moves = []
    played = start.split()
    while played.answered < ANSWERS:
        found = []
        for _ in range(tries):
            ahead = draw_moves(rng, depth)
            trial = played.split()
            for move in ahead:
                trial.step(move)
            found.append((trial.sign * trial.excess, ahead[0]))
        moves.append(max(found)[1])
        played.step(moves[-1])
    return moves


def draw_moves(rng: random.Random, count: int) -> Moves:
    return [(rng.random(), rng.random(), rng.random()) for _ in range(count)]


def climb(start: Play, moves: Moves, rng: random.Random, *, tries: int) -> Play:
    """Change a stretch of the moves at random, again and again, and keep what leads no less far."""
    best = replay(start, moves)
    for _ in range(tries):
        first = rng.randrange(len(moves))
        length = rng.choice((1, 3, 10, 40))
        changed = [*moves[:first], *draw_moves(rng, length), *moves[first + length :]]
        trial = replay(start, changed)
        if trial.worst >= best.worst:
            best, moves = trial, changed
    return best


def replay(start: Play, moves: Moves) -> Play:
    played = start.split()
    for move in moves:
        if played.answered >= ANSWERS:
            break
        played.step(move)
    return played


SEARCHES: dict[str, Callable[[Play, random.Random], Play]] = {
    "greedy": lambda start, _: replay(start, play_greedily(start)),
    "looking ahead": lambda start, rng: replay(start, look_ahead(start, rng)),
    "random restarts": lambda start, rng: max(
        (climb(start, draw_moves(rng, 3 * ANSWERS), rng, tries=10) for _ in range(3)),
        key=lambda play: play.worst,
    ),
    "greedy, then climbing": lambda start, rng: climb(start, play_greedily(start), rng, tries=30),
}


@cache
def search(game: str, sign: float, *, guard: float = GUARD) -> dict[str, Play]:
    """Return the farthest play that each way of searching found."""
    learner = make("informed-tracker", alpha=ALPHA, options={"guard": guard})
    start = Play(learner, GAMES[game], sign)
    return {how: find(start, random.Random(5)) for how, find in SEARCHES.items()}  # noqa: S311


def write_table() -> str:
    """Return what was reached of each bound, and by whom, as docs/guarantees.md has it."""
    lines = [
        "| answers | upwards: reached | bound | by | downwards: reached | bound | by |",
        "|---|---|---|---|---|---|---|",
    ]
    for game in GAMES:
        row = [f"`{game}`" if "=" in game else game]
        for sign in (1.0, -1.0):
            plays = search(game, sign)
            how = max(plays, key=lambda one: plays[one].worst / plays[one].bound())
            row += [f"{sign * number:.1f}" for number in (plays[how].worst, plays[how].bound())]
            row.append(how)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(write_table(), end="")  # noqa: T201

"""Worlds in which lateness and outcome conspire, against anything that chooses and observes.

The player has ``choose() -> (threshold, memo)`` and ``observe(memo, miss)``. A world opens rounds and
answers them in any order it likes, never with more than so many open at once; it sees every
threshold. A score of 0 misses unless every label is shown, a score of 1 hits unless none is.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


class Player(Protocol):
    """What is attacked."""

    def choose(self) -> tuple[float, Any]:
        """Return a threshold and what the round must remember."""

    def observe(self, memo: Any, miss: float) -> None:
        """Learn what the round of this memo brought."""


class Open(NamedTuple):
    """A round that waits for its answer."""

    memo: Any
    miss: bool
    then: int  # answers counted before it was predicted


@dataclass
class World:
    """The rounds of one attack so far; ``excess`` is sum(miss - alpha) after each answer.

    ``ages`` says of each answer how many were counted since its round was predicted.
    """

    player: Player
    alpha: float
    waiting: list[Open] = field(default_factory=list)
    excess: list[float] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)
    most_open: int = 0

    def ask(self, score: float) -> bool:
        """Open a round whose true label has this score; return whether it will be a miss."""
        threshold, memo = self.player.choose()
        self.waiting.append(Open(memo, score < threshold, len(self.excess)))
        self.most_open = max(self.most_open, len(self.waiting))
        return self.waiting[-1].miss

    def tell(self, place: int) -> None:
        """Answer the open round at this place: 0 is the oldest, -1 the newest."""
        told = self.waiting.pop(place)
        self.ages.append(len(self.excess) - told.then)
        self.player.observe(told.memo, float(told.miss))
        before = self.excess[-1] if self.excess else 0.0
        self.excess.append(before + told.miss - self.alpha)

    def tell_all(self) -> None:
        """Answer every open round, the oldest first."""
        while self.waiting:
            self.tell(0)


Attack = Callable[[World, int, int], None]


def batch(score: float) -> Attack:
    """Ask for as many sets as may be open, answer them all, and so on."""

    def attack(world: World, most_open: int, answers: int) -> None:
        while len(world.excess) < answers:
            for _ in range(most_open):
                world.ask(score)
            world.tell_all()

    return attack


def queue(score: float) -> Attack:
    """Answer every round a fixed number of rounds late."""

    def attack(world: World, most_open: int, answers: int) -> None:
        while len(world.excess) < answers:
            world.ask(score)
            if len(world.waiting) == most_open:
                world.tell(0)
        world.tell_all()

    return attack


def hold_back(score: float, *, misses: bool) -> Attack:
    """Answer one outcome at once; hold the other back until no more rounds may be open, then burst."""

    def attack(world: World, most_open: int, answers: int) -> None:
        while len(world.excess) < answers:
            if world.ask(score) != misses:
                world.tell(-1)
            elif len(world.waiting) == most_open:
                world.tell_all()
        world.tell_all()

    return attack


def age_first(score: float) -> Attack:
    """Keep all rounds but one open while as many answers pass as make them old; then batches."""

    def attack(world: World, most_open: int, answers: int) -> None:
        pause = 1
        while len(world.excess) < answers // 2:
            while len(world.waiting) < most_open - 1:
                world.ask(1.0)
            for n in range(pause):
                world.ask(float(n % 2))
                world.tell(-1)
            pause += most_open
            world.tell_all()
        batch(score)(world, most_open, answers)

    return attack


def strike_when_high(world: World, most_open: int, answers: int) -> None:
    """Lure with hits answered at once until no label is shown, then hold back misses, and again."""
    while len(world.excess) < answers:
        for _ in range(answers // 8):
            world.ask(1.0)
            world.tell(-1)
        for _ in range(2 * most_open):
            world.ask(0.0)
            if len(world.waiting) == most_open:
                world.tell_all()
        world.tell_all()


def roll_dice(seed: int) -> Attack:
    """Draw a habit for a while: how likely a 0 is, who is answered, and how eagerly; then another."""

    def attack(world: World, most_open: int, answers: int) -> None:
        rng = random.Random(seed)  # noqa: S311
        while len(world.excess) < answers:
            hard, eager = rng.choice((0.0, 0.05, 0.5, 1.0)), rng.choice((0.02, 0.3, 1.0))
            whom = rng.choice(("oldest", "newest", "any", "misses", "hits"))
            for _ in range(rng.randrange(10, 400)):
                if len(world.waiting) < most_open:
                    world.ask(0.0 if rng.random() < hard else 1.0)
                if len(world.waiting) == most_open or rng.random() < eager:
                    world.tell(_pick(world, whom, rng))
        world.tell_all()

    return attack


def _pick(world: World, whom: str, rng: random.Random) -> int:
    """Return the place of the round that this habit answers next."""
    if whom in ("misses", "hits"):
        liked = [n for n, one in enumerate(world.waiting) if one.miss == (whom == "misses")]
        return liked[0] if liked else 0
    return {"oldest": 0, "newest": -1, "any": rng.randrange(len(world.waiting))}[whom]


ATTACKS: dict[str, Attack] = {
    "batches of misses": batch(0.0),
    "batches of hits": batch(1.0),
    "misses late": queue(0.0),
    "hits late": queue(1.0),
    "hits at once, misses held back": hold_back(0.0, misses=True),
    "misses at once, hits held back": hold_back(1.0, misses=False),
    "old answers, then misses": age_first(0.0),
    "old answers, then hits": age_first(1.0),
    "lure, then strike": strike_when_high,
    **{f"dice {seed}": roll_dice(seed) for seed in range(6)},
}


def attack(player: Player, name: str, *, alpha: float, most_open: int, answers: int) -> World:
    """Return the world after the attack of this name."""
    world = World(player, alpha)
    ATTACKS[name](world, most_open, answers)
    return world

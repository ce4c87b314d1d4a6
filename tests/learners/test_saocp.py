import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from keyhole import simulate
from keyhole.learners.rules.saocp import saocp
from keyhole.numeric import Array

Lived = Callable[..., tuple[list[float], Any]]


class Expert:
    """One scale-free descent with its bet, written from the paper's formulas."""

    def __init__(self, birth: int, radius: float) -> None:
        self.birth, self.radius = birth, radius
        self.lead = self.won = self.squares = 0.0
        self.age = 0
        power = birth & -birth
        self.life = 8 * power
        self.prior = 1.0 / (birth**2 * (1 + int(math.log2(birth))))

    @property
    def bet(self) -> float:
        return self.lead / self.age * (1.0 + self.won) if self.age else 0.0


def pinball(residual: float, radius: float) -> float:
    return max(0.9 * (residual - radius), 0.1 * (radius - residual))


def mixed(experts: list[Expert]) -> float:
    weights = [expert.prior * max(0.0, expert.bet) for expert in experts]
    if sum(weights) <= 0.0:
        weights = [expert.prior for expert in experts]
    total = sum(weights)
    return sum(w * e.radius for w, e in zip(weights, experts, strict=True)) / total if total else 0.0


def by_the_book(scores: Array) -> list[float]:
    experts: list[Expert] = []
    played = []
    for birth, score in enumerate(scores, start=1):
        residual, mix = 1.0 - score, mixed(experts)
        played.append(1.0 - mix)
        experts = [expert for expert in experts if expert.age <= expert.life]
        experts.append(Expert(birth, mix))
        loss = pinball(residual, mixed(experts))
        for expert in experts:
            bet = expert.bet
            gain = (loss - pinball(residual, expert.radius)) / 0.9
            gain = 0.0 if abs(gain) < 1e-12 else min(1.0, max(-1.0 if bet > 0.0 else 0.0, gain))
            expert.lead += gain
            expert.won += gain * bet
            expert.age += 1
            step = -0.9 if residual > expert.radius else 0.1 if residual < expert.radius else 0.0
            expert.squares += step**2
            if expert.squares > 0.0:
                expert.radius = max(0.0, expert.radius - step / math.sqrt(3.0 * expert.squares))
    return played


@pytest.mark.parametrize("digits", [17, 0])
def test_thresholds_are_those_of_the_published_rule(digits: int) -> None:
    """Rounded to 0 and 1, scores often lie on an expert's threshold, where it does not step."""
    scores = np.random.default_rng(7).beta(5, 2, 400).round(digits)
    run = simulate(saocp(alpha=0.1), scores, feedback="full")
    assert run.thresholds[0] == pytest.approx(np.maximum(by_the_book(scores), 0.0), abs=1e-9)


def test_few_experts_are_alive_however_long_it_runs(lived: Lived) -> None:
    _, state = lived(saocp(alpha=0.1), np.random.default_rng(7).beta(5, 2, 5_000))
    assert 10 < state.clock[1] < 6 * math.log2(5_000)

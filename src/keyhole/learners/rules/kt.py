"""Coin betting: the Krichevsky-Trofimov bettor wagers on misses, and its bet is the radius."""

import math
from typing import NamedTuple

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners.lateness import Excess
from keyhole.learners.layout import COUNT
from keyhole.learners.parameters import parameters, target
from keyhole.learners.rule import EVERY, ON_ANY, About, Ask, Rule
from keyhole.numeric import Array, kernel

_RICHEST = 1e100  # Only truths that no set covers, one after another, would make it richer.


@parameters
class KtParameters:
    alpha: float = target()

    def excess(self, rounds: int) -> Excess:
        """Return the bounds: the excess is the sum S of the coins.

        Below 0 the bet is negative, the set empty, and the next coin positive. The wealth is at least
        exp(S^2 / 2t) / (e sqrt(pi t)), so that a large S makes a bet above 1, which cannot miss.
        """
        longest = 2.0 * rounds * math.log(math.e * math.sqrt(math.pi * rounds) * (rounds + 1.0))
        return Excess(least=-self.alpha, most=1.0 + math.sqrt(longest))


class KtState(NamedTuple):
    wealth: Array = np.ones(1)
    coins: Array = np.zeros(1)  # their sum: misses less alpha a round
    rounds: Array = np.zeros(1)


@kernel
def _bet(state: KtState) -> float:
    """Return the share (sum of coins) / (number + 1) of the wealth."""
    return state.coins[0] / (state.rounds[0] + 1.0) * state.wealth[0]


@kernel
def choose(settings: KtParameters, state: KtState, memo: Array, ask: Ask) -> float:
    return max(EVERY, 1.0 - _bet(state))


@kernel
def observe(settings: KtParameters, state: KtState, memo: Array, answer: Answer) -> None:
    """Toss the coin miss - alpha: the bet pays that many times itself."""
    coin = answer.miss - settings.alpha
    # The present bet, not that of a round answered late: what is bet stays below the wealth.
    wealth = state.wealth[0] + coin * _bet(state)
    state.wealth[0] = wealth if wealth < _RICHEST else _RICHEST
    state.coins[0] += coin
    state.rounds[0] += 1.0


kt = Rule(
    name="kt",
    needs=Needs.HIT_OR_MISS,
    parameters=KtParameters,
    choose=choose,
    observe=observe,
    state=KtState,
    limits=lambda _: {"rounds": COUNT},
    about=About(
        summary="parameter-free coin betting on misses; errs on the side of small sets",
        guarantee="-alpha / T <= miss rate - alpha <= 1 / T + sqrt(2 ln(e sqrt(pi T) (T + 1)) / T) "
        f"{ON_ANY}",
        source="Orabona and Pal (2016), arXiv 1602.04128; Podkopaev, Xu and Lee (2024), arXiv "
        "2412.19318",
        late="every answer counts alike, however old, because shorter bets would lose its promise; so "
        "bets add up, and with answers 100 rounds late sets are thousands of times too large: use it "
        "only with prompt answers",
    ),
)

"""EXP3-IX: a bandit over thresholds that explores implicitly, on the loss of the OCP family."""

import math
from collections.abc import Sequence

import numpy as np

from keyhole.feedback import Answer, Needs
from keyhole.learners import ocp
from keyhole.learners.loss import Loss, cost
from keyhole.learners.ocp import OcpSettings
from keyhole.learners.parameters import arms, complete_grid, horizon, parameters, target, thresholds
from keyhole.learners.rule import About, Distribution, Rule
from keyhole.learners.strategy import Epoch, State, advance, is_current, recall, running_weights
from keyhole.learners.weights import shares
from keyhole.numeric import Array, kernel


@parameters
class Exp3IxParameters:
    alpha: float = target()
    horizon: int | None = horizon(
        "Number of rounds to come (T); None plays in doubling epochs.", default=None
    )
    arms: int | None = arms("Number of thresholds (K), evenly spaced; 20 unless given.", default=None)
    thresholds: Sequence[float] | None = thresholds(default=None)
    cost: float = cost(default=40.0)

    def complete(self) -> dict[str, object]:
        return complete_grid(self.thresholds, self.arms, default=20)

    def prepare(self) -> OcpSettings:
        return ocp.prepare(np.array(self.thresholds), self.horizon, self.loss, tune)

    def loss(self, length: int) -> Loss:
        return Loss(alpha=self.alpha, horizon=length, cost=self.cost)


def tune(arms: int, horizon: int) -> Epoch:
    """Return eta = 2 gamma = sqrt(2 ln K / (K T)); gamma, the implicit exploration, as the bonus."""
    rate = math.sqrt(2.0 * math.log(arms) / (arms * horizon))
    return Epoch(bonus=rate / 2.0, exploration=0.0, rate=rate, length=horizon)


def distribution(settings: OcpSettings, state: State) -> Distribution:
    rate = Epoch(*settings.epochs[state.clock[-1]]).rate
    return Distribution(settings.grid, shares(state.gains, rate))


@kernel
def charge(epochs: Array, state: State, memo: Array, loss: float) -> None:
    """Charge the chosen arm with loss / (p + gamma): a little less than an unbiased estimate."""
    if not is_current(state, memo):
        return
    # Gamma stands where other rules have their bonus; the floor is 0, nothing is explored on purpose.
    arm, _, implicit, share, _ = recall(epochs, memo)
    weights = running_weights(memo)  # sums up to each arm: an arm's own is a difference
    own = weights[arm] - weights[arm - 1] if arm > 0 else weights[0]
    state.gains[arm] -= loss / (share * own + implicit)
    advance(epochs, state)


@kernel
def observe(settings: OcpSettings, state: State, memo: Array, answer: Answer) -> None:
    """Charge the chosen arm with its own loss; the score is not used."""
    arm, epoch, _, _, _ = recall(settings.epochs, memo)  # not how likely the arm was
    gain = settings.miss_gains[epoch, arm] if answer.miss > 0.0 else settings.hit_gains[epoch, arm]
    charge(settings.epochs, state, memo, 1.0 - gain)


exp3_ix = Rule(
    name="exp3-ix",
    needs=Needs.HIT_OR_MISS,
    parameters=Exp3IxParameters,
    choose=ocp.choose,
    observe=observe,
    state=ocp.start,
    memory=ocp.count_memory,
    limits=ocp.list_limits,
    distribution=distribution,
    about=About(
        summary="a bandit with implicit exploration, on the loss of the OCP family",
        guarantee="regret <= L (2 sqrt(2 K T ln K) + (sqrt(2 K T / ln K) + 1) ln(2 / delta)) with "
        "probability 1 - delta, on any sequence",
        source="Neu (2015), arXiv 1506.03271",
    ),
)

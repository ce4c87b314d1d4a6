"""OCP-Unlock: an answer is shared by all thresholds whose outcome it tells."""

from keyhole.feedback import Answer, Needs, find_unlocked
from keyhole.learners import ocp
from keyhole.learners.ocp import OcpSettings
from keyhole.learners.strategy import State, add_bonuses, advance, is_current, recall, running_weights
from keyhole.numeric import Array, kernel


@kernel
def observe(settings: OcpSettings, state: State, memo: Array, answer: Answer) -> None:
    """Add bonus / p to every arm, and to those that shared the chosen arm's fate gain / (sum of p).

    On a hit these are the covering arms, on a miss the chosen one and all above it.
    """
    if not is_current(state, memo):
        return
    arm, epoch, bonus, share, floor = recall(settings.epochs, memo)
    weights = running_weights(memo)
    add_bonuses(state.gains, weights, bonus, share, floor)
    missed = answer.miss > 0.0
    covering, missing = find_unlocked(settings.grid, settings.grid[arm], missed, answer.score)
    arms = weights.size
    # Chances are sums over stretches of arms: share times a difference of running weights, and a floor.
    if missed:
        below = weights[missing - 1] if missing > 0 else 0.0  # Weights are running sums.
        seen = share * (weights[-1] - below) + floor * (arms - missing)
        for k in range(missing, arms):
            state.gains[k] += settings.miss_gains[epoch, k] / seen
    else:
        seen = share * weights[covering - 1] + floor * covering
        for k in range(covering):
            state.gains[k] += settings.hit_gains[epoch, k] / seen
    advance(settings.epochs, state)


ocp_unlock = ocp.rule(
    name="ocp-unlock",
    needs=Needs.LABEL_IF_HIT,
    observe=observe,
    about=ocp.about(
        summary="an answer updates every threshold with the outcome of the chosen one",
        guarantee="regret <= L (R1 + 5.15 R2 + e T) with probability 1 - delta, on any sequence",
    ),
)

"""OCP-Unlock+: every threshold is rewarded in every round, the unseen ones with a pseudo-gain."""

from keyhole.feedback import Answer, Needs, find_unlocked
from keyhole.learners import ocp
from keyhole.learners.ocp import OcpSettings
from keyhole.learners.strategy import State, add_bonuses, advance, is_current, recall, running_weights
from keyhole.numeric import Array, kernel


@kernel
def observe(settings: OcpSettings, state: State, memo: Array, answer: Answer) -> None:
    """Add its estimate to each arm, with P = F(last covering arm).

    On a hit, (g + bonus) / P + bonus if it covers and g + bonus / F if not. On a miss,
    g + bonus / F from the chosen arm on, and pseudo-g + bonus / p + bonus below it.
    """
    if not is_current(state, memo):
        return
    arm, epoch, bonus, share, floor = recall(settings.epochs, memo)
    weights = running_weights(memo)
    missed = answer.miss > 0.0
    covering, missing = find_unlocked(settings.grid, settings.grid[arm], missed, answer.score)
    if missed:  # ``missing`` is the chosen arm: whether those below it would have hit is not told
        add_bonuses(state.gains[:missing], weights[:missing], bonus, share, floor)
        for k in range(missing):  # row: the epoch, column: the arm
            state.gains[k] += settings.miss_gains[epoch, k] + bonus
    else:
        per_chance = 1.0 / (share * weights[covering - 1] + floor * covering)
        for k in range(covering):
            state.gains[k] += (settings.hit_gains[epoch, k] + bonus) * per_chance + bonus
    # Slices, because an index that starts at a variable could be negative and is not vectorised.
    gains, lost = state.gains[missing:], settings.miss_gains[epoch, missing:]
    running = weights[missing:]
    for k in range(gains.size):
        gains[k] += lost[k] + bonus / (share * running[k] + floor * (missing + k + 1))
    advance(settings.epochs, state)


ocp_unlock_plus = ocp.rule(
    name="ocp-unlock+",
    needs=Needs.LABEL_IF_HIT,
    observe=observe,
    about=ocp.about(
        summary="every threshold learns in every round; the paper's main rule",
        guarantee="regret <= L (R1 + 4.15 R2 + sqrt(T C ln K) + e T) with probability 1 - delta",
    ),
)

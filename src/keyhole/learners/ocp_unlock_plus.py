"""OCP-Unlock+: every threshold is rewarded in every round, the unseen ones with a pseudo-gain."""

from keyhole.feedback import Needs, unlocked
from keyhole.grid import Array
from keyhole.kernel import kernel
from keyhole.learners import _ocp
from keyhole.learners._ocp import OcpSettings
from keyhole.learners._rule import Rule
from keyhole.learners.strategy import State, advance, is_current, recall, running_weights


@kernel
def observe(settings: OcpSettings, state: State, memo: Array, missed: bool, score: float) -> None:
    """Add its estimate to each arm, with P = F(last covering arm).

    On a hit, (g + bonus) / P + bonus if it covers and g + bonus / F if not. On a miss,
    g + bonus / F from the chosen arm on, and pseudo-g + bonus / p + bonus below it.
    """
    if not is_current(state, memo):
        return
    arm, epoch, bonus, share, floor = recall(settings.rates, memo)
    weights = running_weights(memo)
    gains = state.gains
    hit_gains = settings.hit_gains[epoch]
    miss_gains = settings.miss_gains[epoch]
    covering, missing = unlocked(settings.thresholds, settings.thresholds[arm], missed, score)
    if missed:
        before = 0.0
        for k in range(missing):
            gains[k] += miss_gains[k] + bonus / (share * (weights[k] - before) + floor) + bonus
            before = weights[k]
    else:
        per_chance = 1.0 / (share * weights[covering - 1] + floor * covering)
        for k in range(covering):
            gains[k] += (hit_gains[k] + bonus) * per_chance + bonus
    for k in range(missing, weights.size):
        gains[k] += miss_gains[k] + bonus / (share * weights[k] + floor * (k + 1))
    advance(settings.lengths, state)


ocp_unlock_plus = Rule(
    name="ocp-unlock+",
    needs=Needs.LABEL_IF_HIT,
    parameters=_ocp.OcpParameters,
    prepare=_ocp.prepare,
    start=_ocp.start,
    memory=_ocp.memory,
    choose=_ocp.choose,
    observe=observe,
    distribution=_ocp.distribution,
    summary="every threshold learns in every round; the paper's main rule",
    guarantee="regret <= L (R1 + 4.15 R2 + sqrt(T C ln K) + 2 T^(3/4)) with probability 1 - delta",
    source=_ocp.SOURCE,
)

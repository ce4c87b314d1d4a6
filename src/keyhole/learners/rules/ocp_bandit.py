"""OCP-Bandit: EXP3.P on the paper's loss, which needs only hit or miss."""

from keyhole.feedback import Answer, Needs
from keyhole.learners import ocp
from keyhole.learners.ocp import OcpSettings
from keyhole.learners.strategy import State, recall, reward
from keyhole.numeric import Array, kernel


@kernel
def observe(settings: OcpSettings, state: State, memo: Array, answer: Answer) -> None:
    """Reward the chosen arm with its own gain; the score is not used."""
    arm, epoch, _, _, _ = recall(settings.epochs, memo)  # How likely the arm was, reward looks up.
    gain = settings.miss_gains[epoch, arm] if answer.miss > 0.0 else settings.hit_gains[epoch, arm]
    reward(settings.epochs, state, memo, gain)


ocp_bandit = ocp.rule(
    name="ocp-bandit",
    needs=Needs.HIT_OR_MISS,
    observe=observe,
    about=ocp.about(
        summary="EXP3.P over thresholds on the paper's loss",
        guarantee="regret <= L (R1 + 5.15 R2) with probability 1 - delta, on any sequence",
    ),
)

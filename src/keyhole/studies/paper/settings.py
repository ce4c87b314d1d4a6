"""What a run of an experiment is: a scenario, a learner, and the numbers both are given."""

from dataclasses import dataclass
from functools import cache

from keyhole.learners import Learner, make_suited
from keyhole.learners.loss import Loss

AIRFOIL, IMAGENET = "airfoil", "imagenet"
VARIANTS = ("ocp-bandit", "ocp-unlock", "ocp-unlock+")
SCENARIOS = ("iid", "shift")
LITERAL = "shift-literal"
_COST = 40.0  # the paper's c


@dataclass(frozen=True)
class Setting:
    """One learner on one kind of scenario."""

    data: str
    scenario: str
    learner: str
    alpha: float
    horizon: int
    arms: int | None = None

    @property
    def shift(self) -> bool:
        """Whether the scenario changes on its way."""
        return self.scenario != "iid"

    @property
    def literal(self) -> bool:
        """Whether it changes every 10,000 rounds, as the paper writes, however long the horizon."""
        return self.scenario == LITERAL

    @property
    def name(self) -> str:
        """A readable name, fit for a file."""
        arms = "" if self.arms is None else f"_K{self.arms}"
        return f"{self.scenario}/{self.learner}_alpha{self.alpha:g}{arms}_T{self.horizon}"

    @property
    def cost(self) -> int:
        """How long a run takes, in no unit."""
        return self.horizon * (80 + (self.arms or 40))

    @property
    def loss(self) -> Loss:
        """The loss of the paper that belongs to alpha and the horizon."""
        return Loss(alpha=self.alpha, horizon=self.horizon, cost=_COST)


@cache
def learner_of(setting: Setting) -> Learner:
    """Return the learner of a setting."""
    return make_suited(setting.learner, alpha=setting.alpha, horizon=setting.horizon, arms=setting.arms)

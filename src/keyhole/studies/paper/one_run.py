"""What a run of an experiment is: a scenario, a learner, and the numbers both are given."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.learners import Learner, make_suited
from keyhole.learners.loss import Loss
from keyhole.scenarios import Scenario, imagenet
from keyhole.scenarios.airfoil import airfoil
from keyhole.scenarios.imagenet_like import imagenet_like
from keyhole.simulation.metrics import coverage_slack, running_mean
from keyhole.simulation.simulate import play_clear

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
        return self.scenario != "iid"

    @property
    def literal(self) -> bool:
        """Whether it changes every 10,000 rounds, as the paper writes, however long the horizon."""
        return self.scenario == LITERAL

    @property
    def name(self) -> str:
        arms = "" if self.arms is None else f"_K{self.arms}"
        return f"{self.scenario}/{self.learner}_alpha{self.alpha:g}{arms}_T{self.horizon}"

    @property
    def cost(self) -> int:
        """How long a run takes, in no unit."""
        return self.horizon * (80 + (self.arms or 40))

    @property
    def loss(self) -> Loss:
        return Loss(alpha=self.alpha, horizon=self.horizon, cost=_COST)


@cache
def learner_of(setting: Setting) -> Learner:
    return make_suited(setting.learner, alpha=setting.alpha, horizon=setting.horizon, arms=setting.arms)


@dataclass(frozen=True)
class Source:
    """Where a data set's rounds come from.

    ``path`` and ``digest`` tell a file of classifier outputs; both are empty where none is needed.
    """

    data: str
    name: str
    title: str
    path: str = ""
    digest: str = ""

    def scenario(self, setting: Setting, *, seed: int) -> Scenario:
        if self.data == AIRFOIL:
            return airfoil(setting.horizon, seed=seed, shift=setting.shift)
        segment = imagenet.SEGMENT if setting.literal else None
        return imagenet.imagenet(
            self.outputs(), setting.horizon, seed=seed, shift=setting.shift, segment=segment
        )

    def outputs(self) -> imagenet.ClassifierOutputs:
        """Return the classifier's outputs, read or generated once in each process."""
        return _load(self.path) if self.path else imagenet_like()

    @property
    def accuracy(self) -> tuple[float, float]:
        """How often the true label is the most plausible, and among the five most plausible."""
        outputs = self.outputs()
        return round(outputs.accuracy(1), 6), round(outputs.accuracy(5), 6)


@dataclass(frozen=True)
class Pair:
    source: Source
    setting: Setting


@cache
def _load(path: str) -> imagenet.ClassifierOutputs:
    return imagenet.load(Path(path))


MEASURED = Source(AIRFOIL, "airfoil", "1,503 measurements")
GENERATED = Source(IMAGENET, "imagenet-like", "generated")


def from_file(path: Path, *, model: str | None = None) -> Source:
    """Return the source of a file of classifier outputs, which is read and checked."""
    path = path.resolve()  # A cluster may work in another folder.
    images = _load(str(path)).images
    called = model or path.stem
    name = "imagenet-" + "".join(c if c.isalnum() else "-" for c in called.lower())
    return Source(
        IMAGENET, name, f"{called}, {images:,} images", path=str(path), digest=imagenet.digest(path)
    )


POINTS = 500


class RunOutcome(NamedTuple):
    """What is kept of one run; the curves hold the means up to evenly spaced rounds."""

    miss_rate: float
    mean_size: float
    slack: float
    miss_rates: NDArray[np.float32]
    mean_sizes: NDArray[np.float32]


def play_run(unit: tuple[Pair, int]) -> RunOutcome:
    """Play one run of a pair, by its seed, and keep of it the metrics and thinned curves alone."""
    pair, seed = unit
    setting = pair.setting
    scenario = pair.source.scenario(setting, seed=seed)
    thresholds = np.empty(setting.horizon)
    misses = np.empty(setting.horizon, dtype=np.bool_)
    play_clear(learner_of(setting), scenario.scores, seed, thresholds, misses)
    sizes = scenario.sizes(thresholds)
    kept = rounds_kept(setting.horizon) - 1
    return RunOutcome(
        miss_rate=float(misses.mean()),
        mean_size=float(sizes.mean()),
        slack=float(coverage_slack(thresholds, misses, loss=setting.loss)),
        miss_rates=running_mean(misses.astype(np.float64))[kept].astype(np.float32),
        mean_sizes=running_mean(sizes)[kept].astype(np.float32),
    )


def rounds_kept(horizon: int) -> NDArray[np.int64]:
    """Return the rounds at which the curves are kept, evenly spaced, the last one included."""
    points = min(POINTS, horizon)
    return np.arange(1, points + 1) * horizon // points

"""The paper's figures: which settings are drawn together, and how."""

from dataclasses import dataclass

from keyhole.studies.paper.settings import AIRFOIL, IMAGENET, SCENARIOS, VARIANTS, Setting

CURVES, BOXES = "curves", "boxes"
ALPHAS = (0.1, 0.2, 0.3, 0.4)
BASELINES = ("sps", "mvp")
HORIZON = 50_000
_ALPHA = {IMAGENET: 0.15, AIRFOIL: 0.1}
_ARMS = {IMAGENET: 200, AIRFOIL: 20}


@dataclass(frozen=True)
class Panel:
    """One scenario of a figure; its id reads ``exp1/imagenet/iid``."""

    experiment: str
    data: str
    scenario: str
    kind: str
    settings: tuple[Setting, ...]

    @property
    def id(self) -> str:
        """What ``--only`` selects by."""
        return f"{self.experiment}/{self.data}/{self.scenario}"


def panels() -> tuple[Panel, ...]:
    """Return every panel, in the paper's order."""
    against_baselines = [
        _curves(experiment, data, scenario, ("ocp-unlock+", *BASELINES))
        for experiment, data in (("exp1", IMAGENET), ("exp2", AIRFOIL))
        for scenario in SCENARIOS
    ]
    both = [(data, scenario) for data in (IMAGENET, AIRFOIL) for scenario in SCENARIOS]
    variants = [_curves("exp4", data, scenario, VARIANTS) for data, scenario in both]
    boxes = [_boxes(data, scenario) for data, scenario in both]
    return (*against_baselines, *variants, *boxes)


def _curves(experiment: str, data: str, scenario: str, learners: tuple[str, ...]) -> Panel:
    settings = tuple(
        Setting(
            data,
            scenario,
            learner,
            _ALPHA[data],
            HORIZON,
            None if learner in BASELINES else _ARMS[data],
        )
        for learner in learners
    )
    return Panel(experiment, data, scenario, CURVES, settings)


def _boxes(data: str, scenario: str) -> Panel:
    settings = tuple(
        Setting(data, scenario, "ocp-unlock+", alpha, HORIZON, _ARMS[data]) for alpha in ALPHAS
    )
    return Panel("exp5", data, scenario, BOXES, settings)

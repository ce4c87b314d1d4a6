"""The scenarios that a contest can be asked for by name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from keyhole.checks import find_near
from keyhole.errors import InvalidError
from keyhole.scenarios import Scenario, imagenet, log
from keyhole.scenarios.airfoil import airfoil
from keyhole.scenarios.contextual import CONTEXTUAL
from keyhole.scenarios.digits import digits
from keyhole.scenarios.drifts import DRIFTS
from keyhole.scenarios.imagenet_like import imagenet_like
from keyhole.simulation.adversaries import ADVERSARIES

_DRIFTS = {
    "steady": "synthetic scores that do not drift",
    "fall": "scores fall at once, halfway",
    "rise": "scores rise at once, halfway",
    "slope": "scores fall all the time",
    "waves": "scores fall and rise five times",
    "seasons": "easy and hard rounds in turn, ten times",
    "lumps": "many tied scores",
}
_FORECASTS = {
    "heteroscedastic": "forecast errors that grow with a feature",
    "hourly": "forecast errors that follow hour, weekend and season",
    "overlapping-groups": "forecast errors that differ between groups that overlap",
    "useless-features": "forecast errors, and twenty features that say nothing",
    "reversal": "forecast errors that grow with a feature, then fall with it",
}


@dataclass(frozen=True)
class Listed:
    """A scenario that can be asked for by name; an adversary has none before it is played."""

    name: str
    about: str
    unit: str
    build: Callable[..., Scenario] | None = None  # from the number of rounds, and seed=
    rounds: int | None = None  # how many there are, if they are counted


def list_scenarios(*, imagenet_file: Path | None = None) -> dict[str, Listed]:
    """Return every scenario by name; the real ImageNet ones need a file of classifier outputs."""
    noise = "airfoil self-noise"
    shifted, in_order = partial(airfoil, shift=True), partial(airfoil, in_order=True)
    by_label = partial(digits, by_label=True)
    of_file: list[Listed] = []
    if imagenet_file is not None:
        about = f"classifier outputs in {imagenet_file.name}"
        of_file = _list_classifier("imagenet", about, cache(partial(imagenet.load, imagenet_file)))
    scenarios = [
        *(Listed(name, about, "1 - threshold", DRIFTS[name]) for name, about in _DRIFTS.items()),
        Listed("airfoil", f"{noise}, rows at random", "dB", airfoil),
        Listed("airfoil-shift", f"{noise}, the paper's covariate shift", "dB", shifted),
        Listed("airfoil-in-order", f"{noise}, one experiment after another", "dB", in_order),
        Listed("digits", "handwritten digits at random", "labels", digits),
        Listed("digits-by-label", "handwritten digits, first all zeros", "labels", by_label),
        *_list_classifier("imagenet-like", "generated ImageNet outputs", imagenet_like),
        *of_file,
        *(
            Listed(name, about, "interval length", CONTEXTUAL[name])
            for name, about in _FORECASTS.items()
        ),
        *(Listed(name, adversary.about, "1 - threshold") for name, adversary in ADVERSARIES.items()),
    ]
    return {listed.name: listed for listed in scenarios}


def read_log(path: Path) -> list[Listed]:
    return [_list_reading(path.name, scenario) for scenario in log.read_log(path)]


def _list_reading(name: str, scenario: log.LogScenario) -> Listed:
    return Listed(
        f"{name} ({scenario.reading})" if scenario.reading else name,
        scenario.about,
        "1 - threshold" if scenario.labels is None else "labels",
        lambda rounds, *, seed: scenario.first(rounds),  # noqa: ARG005
        rounds=scenario.scores.size,
    )


def pick_scenarios(names: Iterable[str], scenarios: dict[str, Listed]) -> list[Listed]:
    unknown = [name for name in names if name not in scenarios]
    if unknown:
        near = find_near(unknown[0], scenarios)
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(scenarios)}"
        raise InvalidError(f"there is no scenario {unknown[0]!r}; {hint}")
    return [scenarios[name] for name in names]


def _list_classifier(
    name: str, about: str, outputs: Callable[[], imagenet.ClassifierOutputs]
) -> list[Listed]:
    def draw(rounds: int, *, seed: int, shift: bool = False) -> imagenet.ImagenetScenario:
        return imagenet.imagenet(outputs(), rounds, seed=seed, shift=shift)

    return [
        Listed(name, about, "labels", draw),
        Listed(
            f"{name}-shift", f"{about}, exponent changing 4 times", "labels", partial(draw, shift=True)
        ),
    ]

"""The scenarios by name, each with the rounds at which it is known to change."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keyhole.checks import find_near
from keyhole.errors import InvalidError
from keyhole.scenarios import Scenario, digits, imagenet, log
from keyhole.scenarios.airfoil import airfoil
from keyhole.scenarios.contextual import CONTEXTUAL
from keyhole.scenarios.drifts import DRIFTS
from keyhole.scenarios.imagenet_like import imagenet_like
from keyhole.simulation.adversaries import ADVERSARIES

_PIECES = 10


class Staged(NamedTuple):
    """A scenario, and the rounds at which its segments begin."""

    scenario: Scenario
    changes: tuple[int, ...]


@dataclass(frozen=True)
class Listed:
    """A scenario that can be asked for by name; an adversary has none before it is played."""

    name: str
    about: str
    unit: str
    build: Callable[[int, int], Staged] | None = None
    rounds: int | None = None  # how many there are, if they are counted


def list_scenarios(*, imagenet_file: Path | None = None) -> dict[str, Listed]:
    """Return every scenario by name; the real ImageNet ones need a file of classifier outputs."""
    scenarios = [
        *_list_drifts(),
        *_list_measured(),
        *_list_pictures(imagenet_file),
        *_list_forecasts(),
        *_list_adversaries(),
    ]
    return {listed.name: listed for listed in scenarios}


def read_log(path: Path) -> list[Listed]:
    """Return a scenario for every reading of a user's own log."""
    return [_list_reading(path.name, scenario) for scenario in log.read_log(path)]


def _list_reading(name: str, scenario: log.LogScenario) -> Listed:
    def build(rounds: int, _seed: int) -> Staged:
        return Staged(scenario.first(rounds), _spread_evenly(rounds))

    return Listed(
        f"{name} ({scenario.reading})" if scenario.reading else name,
        scenario.about,
        "1 - threshold" if scenario.labels is None else "labels",
        build,
        rounds=scenario.scores.size,
    )


def pick_scenarios(names: Iterable[str], scenarios: dict[str, Listed]) -> list[Listed]:
    """Return the scenarios of these names, or raise with those there are."""
    unknown = [name for name in names if name not in scenarios]
    if unknown:
        near = find_near(unknown[0], scenarios)
        said = f"did you mean {near!r}?" if near else f"there are {', '.join(scenarios)}"
        raise InvalidError(f"there is no scenario {unknown[0]!r}; {said}")
    return [scenarios[name] for name in names]


def _spread_evenly(rounds: int, pieces: int = _PIECES) -> tuple[int, ...]:
    return tuple(sorted({rounds * piece // pieces for piece in range(pieces)}))


def _list_drifts() -> list[Listed]:
    def make_builder(name: str) -> Callable[[int, int], Staged]:
        def build(rounds: int, seed: int) -> Staged:
            scenario = DRIFTS[name](rounds, seed=seed)
            return Staged(scenario, scenario.changes)

        return build

    about = {
        "steady": "synthetic scores that do not drift",
        "fall": "scores fall at once, halfway",
        "rise": "scores rise at once, halfway",
        "slope": "scores fall all the time",
        "waves": "scores fall and rise five times",
        "seasons": "easy and hard rounds in turn, ten times",
        "lumps": "many tied scores",
    }
    return [Listed(name, about[name], "1 - threshold", make_builder(name)) for name in DRIFTS]


def _list_measured() -> list[Listed]:
    def draw_still(rounds: int, seed: int) -> Staged:
        return Staged(airfoil(rounds, seed=seed), (0,))

    def draw_shifted(rounds: int, seed: int) -> Staged:
        return Staged(airfoil(rounds, seed=seed, shift=True), (0, rounds // 3))

    def draw_in_order(rounds: int, seed: int) -> Staged:
        return Staged(airfoil(rounds, seed=seed, in_order=True), _spread_evenly(rounds))

    return [
        Listed("airfoil", "airfoil self-noise, rows at random", "dB", draw_still),
        Listed("airfoil-shift", "airfoil self-noise, the paper's covariate shift", "dB", draw_shifted),
        Listed(
            "airfoil-in-order", "airfoil self-noise, one experiment after another", "dB", draw_in_order
        ),
    ]


def _list_forecasts() -> list[Listed]:
    def make_builder(name: str) -> Callable[[int, int], Staged]:
        def build(rounds: int, seed: int) -> Staged:
            scenario = CONTEXTUAL[name](rounds, seed=seed)
            return Staged(scenario, scenario.changes)

        return build

    about = {
        "heteroscedastic": "forecast errors that grow with a feature",
        "hourly": "forecast errors that follow hour, weekend and season",
        "overlapping-groups": "forecast errors that differ between groups that overlap",
        "useless-features": "forecast errors, and twenty features that say nothing",
        "reversal": "forecast errors that grow with a feature, then fall with it",
    }
    return [Listed(name, about[name], "interval length", make_builder(name)) for name in CONTEXTUAL]


def _list_pictures(file: Path | None) -> list[Listed]:
    def draw_digits(rounds: int, seed: int) -> Staged:
        return Staged(digits.digits(rounds, seed=seed), (0,))

    def draw_by_label(rounds: int, seed: int) -> Staged:
        scenario = digits.digits(rounds, seed=seed, by_label=True)
        starts = np.flatnonzero(np.diff(scenario.digits, prepend=-1))
        return Staged(scenario, tuple(int(start) for start in starts))

    scenarios = [
        Listed("digits", "handwritten digits at random", "labels", draw_digits),
        Listed("digits-by-label", "handwritten digits, first all zeros", "labels", draw_by_label),
        *_list_classifier("imagenet-like", "generated ImageNet outputs", imagenet_like),
    ]
    if file is not None:
        scenarios += _list_classifier(
            "imagenet", f"classifier outputs in {file.name}", lambda: _load_outputs(file)
        )
    return scenarios


@cache
def _load_outputs(path: Path) -> imagenet.ClassifierOutputs:
    return imagenet.load(path)


def _list_classifier(
    name: str, about: str, outputs: Callable[[], imagenet.ClassifierOutputs]
) -> list[Listed]:
    def draw_still(rounds: int, seed: int) -> Staged:
        return Staged(imagenet.imagenet(outputs(), rounds, seed=seed), (0,))

    def draw_shifted(rounds: int, seed: int) -> Staged:
        scenario = imagenet.imagenet(outputs(), rounds, seed=seed, shift=True)
        starts = np.flatnonzero(np.diff(scenario.powers, prepend=-1.0))
        return Staged(scenario, tuple(int(start) for start in starts))

    return [
        Listed(name, about, "labels", draw_still),
        Listed(f"{name}-shift", f"{about}, exponent changing 4 times", "labels", draw_shifted),
    ]


def _list_adversaries() -> list[Listed]:
    return [Listed(name, adversary.about, "1 - threshold") for name, adversary in ADVERSARIES.items()]

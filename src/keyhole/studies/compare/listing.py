"""The scenarios by name, each with the rounds at which it is known to change."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from keyhole.checks import find_near
from keyhole.errors import InvalidError
from keyhole.scenarios import Scenario, imagenet, log
from keyhole.scenarios.airfoil import airfoil
from keyhole.scenarios.contextual import CONTEXTUAL
from keyhole.scenarios.digits import digits
from keyhole.scenarios.drifts import DRIFTS
from keyhole.scenarios.imagenet_like import imagenet_like
from keyhole.simulation.adversaries import ADVERSARIES

_PIECES = 10
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


class Rounds(NamedTuple):
    """A scenario, and the rounds at which its segments begin."""

    scenario: Scenario
    changes: tuple[int, ...]


@dataclass(frozen=True)
class Listed:
    """A scenario that can be asked for by name; an adversary has none before it is played."""

    name: str
    about: str
    unit: str
    build: Callable[[int, int], Rounds] | None = None  # from the number of rounds and the seed
    rounds: int | None = None  # how many there are, if they are counted


def list_scenarios(*, imagenet_file: Path | None = None) -> dict[str, Listed]:
    """Return every scenario by name; the real ImageNet ones need a file of classifier outputs."""
    noise = "airfoil self-noise"
    in_order, by_label = partial(airfoil, in_order=True), partial(digits, by_label=True)
    scenarios = [
        *(Listed(name, about, "1 - threshold", _draw(DRIFTS[name])) for name, about in _DRIFTS.items()),
        Listed("airfoil", f"{noise}, rows at random", "dB", _draw(airfoil, _never)),
        Listed(
            "airfoil-shift", f"{noise}, the paper's covariate shift", "dB",
            _draw(partial(airfoil, shift=True), lambda _, rounds: (0, rounds // 3)),
        ),
        Listed(
            "airfoil-in-order", f"{noise}, one experiment after another", "dB",
            _draw(in_order, lambda _, rounds: _spread_evenly(rounds)),
        ),
        Listed("digits", "handwritten digits at random", "labels", _draw(digits, _never)),
        Listed(
            "digits-by-label", "handwritten digits, first all zeros", "labels",
            _draw(by_label, lambda drawn, _: _find_changes(drawn.digits)),
        ),
        *_list_classifier("imagenet-like", "generated ImageNet outputs", imagenet_like),
        *_list_file(imagenet_file),
        *(
            Listed(name, about, "interval length", _draw(CONTEXTUAL[name]))
            for name, about in _FORECASTS.items()
        ),
        *(Listed(name, adversary.about, "1 - threshold") for name, adversary in ADVERSARIES.items()),
    ]  # fmt: skip
    return {listed.name: listed for listed in scenarios}


def read_log(path: Path) -> list[Listed]:
    return [_list_reading(path.name, scenario) for scenario in log.read_log(path)]


def _list_reading(name: str, scenario: log.LogScenario) -> Listed:
    return Listed(
        f"{name} ({scenario.reading})" if scenario.reading else name,
        scenario.about,
        "1 - threshold" if scenario.labels is None else "labels",
        lambda rounds, _seed: Rounds(scenario.first(rounds), _spread_evenly(rounds)),
        rounds=scenario.scores.size,
    )


def pick_scenarios(names: Iterable[str], scenarios: dict[str, Listed]) -> list[Listed]:
    unknown = [name for name in names if name not in scenarios]
    if unknown:
        near = find_near(unknown[0], scenarios)
        hint = f"did you mean {near!r}?" if near else f"there are {', '.join(scenarios)}"
        raise InvalidError(f"there is no scenario {unknown[0]!r}; {hint}")
    return [scenarios[name] for name in names]


def _spread_evenly(rounds: int) -> tuple[int, ...]:
    return tuple(sorted({rounds * piece // _PIECES for piece in range(_PIECES)}))


def _find_changes(values: ArrayLike) -> tuple[int, ...]:
    return tuple(np.flatnonzero(np.diff(values, prepend=-1)).tolist())


def _never(_drawn: Scenario, _rounds: int) -> tuple[int, ...]:
    return (0,)


def _draw(
    make: Callable[..., Any],
    find_changes: Callable[[Any, int], tuple[int, ...]] = lambda drawn, _: drawn.changes,
) -> Callable[[int, int], Rounds]:
    def build(rounds: int, seed: int) -> Rounds:
        scenario = make(rounds, seed=seed)
        return Rounds(scenario, find_changes(scenario, rounds))

    return build


def _list_file(file: Path | None) -> Iterator[Listed]:
    if file is not None:
        load = cache(lambda: imagenet.load(file))
        yield from _list_classifier("imagenet", f"classifier outputs in {file.name}", load)


def _list_classifier(
    name: str, about: str, outputs: Callable[[], imagenet.ClassifierOutputs]
) -> list[Listed]:
    def draw(rounds: int, *, seed: int, shift: bool = False) -> imagenet.ImagenetScenario:
        return imagenet.imagenet(outputs(), rounds, seed=seed, shift=shift)

    shifted = _draw(partial(draw, shift=True), lambda drawn, _: _find_changes(drawn.powers))
    return [
        Listed(name, about, "labels", _draw(draw, _never)),
        Listed(f"{name}-shift", f"{about}, exponent changing 4 times", "labels", shifted),
    ]

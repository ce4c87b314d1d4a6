"""The main job on real data: a fixed threshold, the paper's learner and the default, side by side."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keyhole.errors import InvalidError
from keyhole.feedback import MISS
from keyhole.learners import CONTEXTUAL, DEFAULT, Learner, make, strategy
from keyhole.numeric import Array
from keyhole.predictor.predictor import Predictor
from keyhole.scenarios import airfoil
from keyhole.scenarios.digits import digit_guesses
from keyhole.scores import Probabilities, Region, Score
from keyhole.simulation.metrics import window_mean
from keyhole.studies.figure_files import check_picture, open_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALPHA = 0.1
ROUNDS = 10_000
SEED = 7
WINDOW = 1000
_ARMS = 20
_PICKED_ON = WINDOW  # the answers that the fixed threshold was picked on
_FEWEST = max(strategy.shortest_horizon(_ARMS), 2 * WINDOW)
_MOST = 10**7
NEXT = """
What to try next:
  the loop in the README, with your own scores in place of the digits
  keyhole learners                    what else there is, and what each promises
  keyhole compare --scores log.csv    every learner on a log of your own
  make serve                          label digits by hand, see the curves move"""


@dataclass(frozen=True)
class DemoScenario:
    """Real rounds: what the model said and what was true, and how to read it."""

    name: str
    change: str
    unit: str
    score: Score[Region]
    outputs: list[Any]
    truths: list[Any]
    features: Array | None = None  # a row a round, where something is known of a case


@dataclass(frozen=True)
class Run:
    """What one way to choose sets came to in one scenario, round by round."""

    name: str
    misses: Array
    sizes: Array

    @property
    def miss_rates(self) -> Array:
        """The share of misses in the last ``WINDOW`` rounds, from the first full window on."""
        return window_mean(self.misses, WINDOW)

    @property
    def mean_sizes(self) -> Array:
        return window_mean(self.sizes, WINDOW)


@dataclass(frozen=True)
class Result:
    scenario: DemoScenario
    runs: list[Run]


def check(rounds: int, picture: Path) -> None:
    if rounds < _FEWEST:
        raise InvalidError(f"{rounds} rounds are too few to show; use at least {_FEWEST}")
    if rounds > _MOST:
        raise InvalidError(f"{rounds:,} rounds are too many to show; use at most {_MOST:,}")
    check_picture(picture)


def scenarios(rounds: int) -> Iterator[DemoScenario]:
    """Yield the digits, writer after writer, and the airfoils, other conditions after a third."""
    guesses = digit_guesses(rounds, seed=SEED)
    yield DemoScenario(
        "handwritten digits",
        "new writers keep coming",
        "labels",
        Probabilities(),
        list(guesses.probabilities),
        guesses.digits.tolist(),
    )
    air = airfoil.airfoil(rounds, seed=SEED, shift=True)
    yield DemoScenario(
        "airfoil noise",
        "other conditions after a third",
        "dB",
        airfoil.SCORE,
        air.centres.tolist(),
        air.outcomes.tolist(),
        air.measured,
    )


def play(scenario: DemoScenario, *, report: Callable[[str], None]) -> Result:
    """Play a scenario in every way; ``report`` gets the name of each before it begins."""
    ways: dict[str, Iterator[Any]] = {
        f"threshold picked on the first {_PICKED_ON:,}": _show_fixed(scenario)
    }
    for name, learner in _learners(scenario).items():
        ways[name] = _show_learnt(scenario, learner)
    runs = []
    for name, shown in ways.items():
        report(f"{scenario.name}, {name}")
        rounds = zip(shown, scenario.truths, strict=True)
        played = [(truth not in one, one.size) for one, truth in rounds]
        runs.append(Run(name, *np.array(played, dtype=np.float64).T))
    return Result(scenario, runs)


def _learners(scenario: DemoScenario) -> dict[str, Learner]:
    horizon = len(scenario.truths)
    learners = {
        "ocp-unlock+ (the paper's)": make("ocp-unlock+", alpha=ALPHA, horizon=horizon, arms=_ARMS),
        f"{DEFAULT} (default)": make(DEFAULT, alpha=ALPHA),
    }
    if scenario.features is not None:
        count = scenario.features.shape[1]
        known = {"features": count}
        learners["the default with features"] = make(CONTEXTUAL, alpha=ALPHA, options=known)
    return learners


def _show_learnt(scenario: DemoScenario, learner: Learner) -> Iterator[Any]:
    """Yield the sets of a predictor that learns the label only if it was in the set."""
    predictor = Predictor(learner, score=scenario.score, seed=SEED)
    known = scenario.features if learner.features else None
    for number, (output, truth) in enumerate(zip(scenario.outputs, scenario.truths, strict=True)):
        shown = predictor.predict(output, features=None if known is None else known[number])
        yield shown
        if truth in shown:
            predictor.learn(shown, label=truth)
        else:
            predictor.learn(shown, MISS)


def _show_fixed(scenario: DemoScenario) -> Iterator[Region]:
    """Yield the sets of the threshold that misses alpha of the first answers, with every label seen."""
    cases = [scenario.score.read(output) for output in scenario.outputs]
    seen = zip(cases[:_PICKED_ON], scenario.truths, strict=False)
    threshold = float(np.quantile([case.score(truth) for case, truth in seen], ALPHA))
    for number, case in enumerate(cases):
        yield case.region(number, threshold)


def tabulate(results: list[Result]) -> str:
    lines = []
    for result in results:
        scenario = result.scenario
        heading = f"{scenario.name}: {scenario.change}"
        lines += ["", f"{heading:<48}{'missed':>8}{'worst*':>9}{f'shown ({scenario.unit})':>15}"]
        for run in result.runs:
            rates, worst = np.mean(run.misses), run.miss_rates.max()
            lines.append(f"  {run.name:<46}{rates:>8.1%}{worst:>9.1%}{np.mean(run.sizes):>15.2f}")
    lines.append(f"\n* missed in the worst {WINDOW:,} rounds in a row")
    return "\n".join(lines)


def draw(results: list[Result], path: Path) -> None:
    """Write the picture: misses in a window above, sizes below, one column per scenario."""
    save_figure(make_figure(results), path, dpi=160)


def make_figure(results: list[Result]) -> Any:
    """Return the picture, so small in inches that its letters can be read on a phone."""
    figure = open_figure(3.8 * len(results), 6.2)
    axes = figure.subplots(2, len(results), sharex="col", squeeze=False)
    for column, result in enumerate(results):
        _draw_result(axes[0, column], axes[1, column], result)
    axes[0, 0].set_ylabel(f"missed, of the last {WINDOW:,}")
    handles, labels = axes[0, -1].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper center",  # where it is seen before the curves
        ncols=2,
        frameon=False,
        fontsize=12,
        title=f"Asked for: {ALPHA:.0%} misses, with sets as small as possible",
        title_fontsize=13,
    )
    return figure


def _draw_result(top: "Axes", bottom: "Axes", result: Result) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

    styles = {0: ("#8a8f98", 1.6), 1: ("#d08a1d", 1.6), 3: ("#2a7a4b", 2.0)}
    highest = 0.0
    for place, run in enumerate(result.runs):
        colour, width = styles.get(place, ("#1f5fa8", 2.4))
        rounds = np.arange(WINDOW, len(run.misses) + 1)
        top.plot(rounds, run.miss_rates, color=colour, linewidth=width, label=run.name)
        bottom.plot(rounds, run.mean_sizes, color=colour, linewidth=width)
        highest = max(highest, float(run.miss_rates.max()))
    top.axhline(ALPHA, color="#b3261e", linestyle="--", linewidth=1.3, label=f"asked for: {ALPHA:.0%}")
    top.set(ylim=(0.0, 1.08 * highest))
    top.set_title(f"{result.scenario.name}\n{result.scenario.change}", fontsize=11)
    top.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    bottom.set(ylim=(0.0, None), xlabel="round")
    bottom.xaxis.set_major_locator(MaxNLocator(4))
    bottom.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.0f}"))
    bottom.set_ylabel(f"size ({result.scenario.unit})")

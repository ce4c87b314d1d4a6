"""The main job on real streams: propose a set, hear part of the truth, learn; then draw it all."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from keyhole.checks import is_whole
from keyhole.errors import InvalidError, MissingExtraError
from keyhole.feedback import MISS, Missed, Revealed, outcomes
from keyhole.grid import Array, uniform
from keyhole.learners import strategy
from keyhole.metrics import running_mean
from keyhole.predictor import Predictor
from keyhole.progress import track
from keyhole.scores import Region, Score
from keyhole.streams import airfoil, digits

ALPHA = 0.1
ARMS = 20
ROUNDS = 20_000
SEED = 7
_FEWEST = strategy.shortest_horizon(ARMS)
_PICTURES = (".png", ".svg", ".pdf")


@dataclass
class Diary:
    """What happened to one stream, round by round."""

    name: str
    unit: str
    misses: list[bool] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)

    @property
    def miss_rates(self) -> Array:
        """The share of misses so far."""
        return running_mean(np.array(self.misses, dtype=np.float64))

    @property
    def mean_sizes(self) -> Array:
        """The mean size so far."""
        return running_mean(np.array(self.sizes))


def check(rounds: int, picture: Path) -> None:
    """Raise before the work if it could not be done."""
    if not is_whole(rounds, least=_FEWEST):
        raise InvalidError(f"{rounds} rounds are too few for {ARMS} arms; use at least {_FEWEST}")
    if picture.suffix not in _PICTURES:
        raise InvalidError(f"{picture} is not a picture's name; end it in {' or '.join(_PICTURES)}")


def diaries(learner: str, rounds: int) -> Iterator[Diary]:
    """Yield one diary per stream that is installed."""
    air = airfoil.airfoil(rounds, seed=SEED)
    cases: Iterable[tuple[Any, Any]] = zip(air.centres.tolist(), air.outcomes.tolist(), strict=True)
    yield _lived(Diary("airfoil self-noise", "dB"), learner, airfoil.SCORE, cases, rounds)
    try:
        pictures = digits.digits(rounds, seed=SEED)
    except MissingExtraError:
        return
    cases = zip(pictures.probabilities, pictures.digits.tolist(), strict=True)
    yield _lived(Diary("handwritten digits", "labels"), learner, digits.SCORE, cases, rounds)


def _lived(
    diary: Diary,
    learner: str,
    score: Score[Region],
    cases: Iterable[tuple[Any, Any]],
    rounds: int,
) -> Diary:
    """Pass the cases through a predictor that hears the label only if it was in the set."""
    predictor = Predictor(learner, alpha=ALPHA, horizon=rounds, arms=ARMS, score=score, seed=SEED)
    grid = uniform(ARMS)
    for output, truth in track(itertools.islice(cases, rounds), diary.name, rounds):
        prediction = predictor.predict(output)
        if truth in prediction:
            answer: Revealed | Missed = Revealed(max(0.0, score.read(output).score(truth)))
            predictor.learn(prediction, label=truth)
        else:
            answer = MISS
            predictor.learn(prediction, MISS)
        told = outcomes(answer, threshold=prediction.threshold, thresholds=grid)
        diary.misses.append(answer is MISS)
        diary.sizes.append(prediction.size)
        diary.seen.append(float((told >= 0).mean()))
    return diary


def draw(lived: list[Diary], path: Path, *, learner: str) -> None:
    """Write the picture: miss rate above, set size below, one column per stream."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("the picture needs matplotlib; pip install 'keyhole[plot]'") from None
    figure = Figure(figsize=(5.2 * len(lived), 5.2), layout="constrained")
    axes = figure.subplots(2, len(lived), sharex="col", squeeze=False)
    for column, diary in enumerate(lived):
        top, bottom = axes[0, column], axes[1, column]
        rounds = np.arange(1, len(diary.misses) + 1)
        top.plot(rounds, diary.miss_rates, color="#1f5fa8", label="misses so far")
        top.axhline(ALPHA, color="#c2410c", linestyle="--", label=f"target {ALPHA:g}")
        top.set(title=diary.name, ylim=(0.0, 3 * ALPHA))
        bottom.plot(rounds, diary.mean_sizes, color="#1f5fa8", label="mean size so far")
        bottom.set(xlabel="round", ylim=(0.0, None))
        bottom.set_ylabel(f"set size ({diary.unit})")
        top.set_ylabel("miss rate")
        top.legend(frameon=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.suptitle(f"{learner}: the label is seen only if it was in the set", fontsize=12)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)

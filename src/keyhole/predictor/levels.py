"""Several target miss rates at once: a predictor for each, whose sets or intervals are nested."""

import copy
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self

import numpy as np

from keyhole.checks import is_real
from keyhole.errors import FeedbackError, InvalidError, SnapshotError, UnknownRoundError
from keyhole.feedback import MISS, Answer
from keyhole.numeric import Array
from keyhole.predictor import file
from keyhole.predictor.batch import check_answers, check_rows
from keyhole.predictor.context import Features, Groups
from keyhole.predictor.play import Plan, Shown, measure_bands
from keyhole.predictor.predictor import Predictor
from keyhole.predictor.rounds import MISSING, R
from keyhole.predictor.tally import Tally, amend_misses
from keyhole.scores import Interval, LabelSet, Score

TELLS_TOO_LITTLE = (
    "it does not say which of the inner levels contain the truth; give label=..., score=..., or "
    "keyhole.MISS if the outermost one misses"
)


@dataclass(frozen=True)
class Levels(Mapping[float, R]):
    """The nested sets or intervals of one round, by their alpha, from the smallest to the largest.

    The smallest alpha has the largest of them, ``outermost``; each holds all that come after it.
    """

    id: int
    regions: Mapping[float, R]

    def __getitem__(self, alpha: float) -> R:
        return self.regions[alpha]

    def __iter__(self) -> Iterator[float]:
        return iter(self.regions)

    def __len__(self) -> int:
        return len(self.regions)

    @property
    def outermost(self) -> R:
        """The largest: whoever is to choose from a set is shown this one."""
        return next(iter(self.regions.values()))


_State = tuple[list[Predictor[R]], list[Tally], dict[int, Sequence[float]]]


class LevelPredictor(Generic[R]):
    """Predicts nested sets or intervals for several alphas at once; each level keeps its promise.

    ``Predictor(alpha=[0.05, 0.1, 0.2])`` makes one. Every level has a predictor of its own, which
    ``predictor[0.1]`` returns and which hears the outcome of what it chose itself. Where an inner level
    chose more than an outer one, the outer one shows what the inner one chose, so that no two cross;
    that can only prevent misses. ``levels`` counts what was shown.

    An answer must tell the outcome of every level: the true label or value, its score, or that the
    outermost one missed, as then all do.

    Examples
    --------
    >>> predictor = Predictor(alpha=[0.05, 0.2], seed=7)
    >>> shown = predictor.predict({"cat": 0.71, "lynx": 0.22, "dog": 0.07})
    >>> {alpha: len(one) for alpha, one in shown.items()}
    {0.05: 3, 0.2: 2}
    >>> predictor.learn(shown, label="dog")
    >>> predictor.levels[0.2].miss_rate
    1.0
    """

    def __init__(
        self,
        learner: str | None = None,
        *,
        alpha: Sequence[float],
        score: Score[R] | None = None,
        **options: Any,
    ) -> None:
        self._predictors: dict[float, Predictor[R]] = {
            one: Predictor(learner, alpha=one, score=score, **options)
            for one in read_alphas(learner, alpha)
        }
        self._tallies = {one: Tally() for one in self._predictors}
        # Of the rounds that may be amended: which of the levels that were shown missed.
        self._missed: dict[int, Sequence[float]] = {}
        self._lock = threading.RLock()  # All levels of a round have one number.
        setup = self._first.setup
        setup.kind.check_levels(setup)

    def __repr__(self) -> str:
        levels = ", ".join(
            f"{alpha:g} missed {tally.miss_rate:.4f}" if tally.answered else f"{alpha:g}"
            for alpha, tally in self._tallies.items()
        )
        return f"<LevelPredictor {self._first.learner.name}, alpha {levels}: {self.rounds:,} rounds>"

    def __getitem__(self, alpha: float) -> Predictor[R]:
        """Return the predictor of one level: its bound, notes, groups, watch and history."""
        if alpha not in self._predictors:
            known = ", ".join(f"{one:g}" for one in self._predictors)
            raise InvalidError(f"there is no level {alpha!r}; the levels are {known}", field="alpha")
        return self._predictors[alpha]

    @property
    def _first(self) -> Predictor[R]:
        return next(iter(self._predictors.values()))

    @property
    def alpha(self) -> tuple[float, ...]:
        """The target miss rates, from the smallest to the largest."""
        return tuple(self._predictors)

    @property
    def levels(self) -> dict[float, Tally]:
        """What each level has shown: ``answered`` rounds, ``miss_rate``, ``mean_size`` and others."""
        return copy.deepcopy(self._tallies)

    @property
    def rounds(self) -> int:
        """How many rounds have been answered."""
        return self._first.rounds

    @property
    def open_rounds(self) -> int:
        """How many rounds are waiting for their answer."""
        return self._first.open_rounds

    @property
    def notes(self) -> list[str]:
        """What a user should know about the current state, level by level."""
        return [
            f"alpha {alpha:g}: {note}" for alpha, one in self._predictors.items() for note in one.notes
        ]

    def predict(
        self,
        output: object = MISSING,
        *,
        outputs: Mapping[float, object] | None = None,
        features: Features | None = None,
        groups: Groups = (),
    ) -> Levels[R]:
        """Return the nested sets or intervals; what is given is as for ``Predictor.predict``.

        A model of intervals may have an output for each alpha, such as two quantiles: ``outputs``.
        """
        given = {"groups": groups} if groups else {}
        each = dict.fromkeys(self._predictors, output) if outputs is None else outputs
        if output is MISSING and (outputs is None or outputs.keys() != self._predictors.keys()):
            known = ", ".join(f"{one:g}" for one in self._predictors)
            raise InvalidError(f"give the model's output, or outputs of each alpha: {known}")
        if outputs is not None and self._first.setup.score.kind == "labels":
            raise InvalidError("outputs of each alpha are of intervals; give one output for all sets")
        if outputs is not None:
            for alpha, one in self._predictors.items():  # all, before any is opened
                one.setup.score.read(each[alpha])
        with self._lock:
            return self._nest(
                [
                    one.predict(each[alpha], features=features, **given)
                    for alpha, one in self._predictors.items()
                ]
            )

    def predict_batch(
        self,
        outputs: Iterable[object],
        *,
        features: Any = None,
        groups: Sequence[Groups] | None = None,
    ) -> list[Levels[R]]:
        """Return the nested sets or intervals of each output."""
        check_rows(outputs)
        given = outputs if hasattr(outputs, "__len__") else list(outputs)
        with self._lock:
            columns = [
                one.predict_batch(given, features=features, groups=groups)
                for one in self._predictors.values()
            ]
            return [self._nest(row) for row in zip(*columns, strict=True)]

    def _nest(self, chosen: Sequence[R]) -> Levels[R]:
        return nest(self._predictors, chosen)

    def learn(
        self,
        prediction: Levels[R] | int,
        answer: Answer | None = None,
        *,
        label: object = MISSING,
        score: float | None = None,
        chance: float = 1.0,
    ) -> None:
        """Answer a round on every level: by the true label or value, its score, or ``keyhole.MISS``.

        ``MISS`` says that the outermost one misses. A bare hit is refused: it does not tell which of
        the inner ones hold the truth. Else as for ``Predictor.learn``.
        """
        if answer is not None and answer != MISS:
            raise FeedbackError(f"a hit is about the outermost one only: {TELLS_TOO_LITTLE}")
        with self._lock:
            shown = self._find(prediction)
            _check_miss(shown, answer)
            for one in self._predictors.values():  # If an answer is refused at all, it is by the first.
                one.learn(shown.id, answer, label=label, score=score, chance=chance)
            self._count(shown, label, score, 1.0 / chance)

    def _count(self, shown: Levels[R], label: object, score: float | None, weight: float) -> None:
        missed = [_judge(region, label, score) for region in shown.values()]
        for (alpha, region), miss in zip(shown.items(), missed, strict=True):
            self._tallies[alpha].count(miss, region.size, weight)
        self._remember(shown.id, missed)

    def _remember(self, number: int, missed: Sequence[float]) -> None:
        limit = self._first._answered.limit  # noqa: SLF001
        if limit:
            self._missed[number] = missed
            if len(self._missed) > limit:
                del self._missed[next(iter(self._missed))]

    def amend(
        self,
        prediction: Levels[R] | int,
        answer: Answer | None = None,
        *,
        label: object = MISSING,
        score: float | None = None,
    ) -> None:
        """Correct the answer of a round on every level, as ``Predictor.amend`` does."""
        if answer is not None and answer != MISS:
            raise FeedbackError(f"a hit is about the outermost one only: {TELLS_TOO_LITTLE}")
        number = prediction.id if isinstance(prediction, Levels) else prediction
        with self._lock:
            kept = [one._answered.find(number) for one in self._predictors.values()]  # noqa: SLF001
            shown = self._nest([answered.prediction for answered, _ in kept])
            for one in self._predictors.values():
                one.amend(number, answer, label=label, score=score)
            missed = [_judge(region, label, score) for region in shown.values()]
            number = shown.id
            for alpha, (_, before), was, miss in zip(
                shown, kept, self._missed[number], missed, strict=True
            ):
                amend_misses(self._tallies[alpha], before.weight * (miss - was), ())
            self._missed[number] = missed

    def _find(self, prediction: Levels[R] | int) -> Levels[R]:
        """Return what an open round has shown, or raise if it is not open."""
        number = prediction.id if isinstance(prediction, Levels) else prediction
        found = self._nest([one._find(number).prediction for one in self._predictors.values()])  # noqa: SLF001
        if isinstance(prediction, Levels) and prediction != found:
            raise UnknownRoundError(
                f"{prediction} is not round {number} of this predictor; answer it where it was made"
            )
        return found

    def learn_batch(self, predictions: Sequence[Levels[R] | int], answers: Sequence[object]) -> None:
        """Answer many rounds in order, each with ``MISS`` or its true label; all or none."""
        check_answers(predictions, answers)
        if any(isinstance(answer, Answer) and answer != MISS for answer in answers):
            raise FeedbackError(f"a hit is about the outermost one only: {TELLS_TOO_LITTLE}")
        with self._lock:
            shown = [self._find(one) for one in predictions]
            for levels, answer in zip(shown, answers, strict=True):
                _check_miss(levels, answer)
            for one in self._predictors.values():  # If an answer is refused at all, it is by the first.
                one.learn_batch([levels.id for levels in shown], answers)
            for levels, answer in zip(shown, answers, strict=True):
                label = MISSING if isinstance(answer, Answer) else answer
                self._count(levels, label, None, 1.0)

    def _play(self, plans: Sequence[Plan]) -> Shown | None:
        """Play many rounds of bands as ``Predictor._play`` does, by a plan for each level."""
        with self._lock:
            pairs = zip(self._predictors.values(), plans, strict=True)
            played = [one._play([plan]) for one, plan in pairs]  # noqa: SLF001
            chosen = [one for one in played if one is not None]
            if not chosen:  # If they can be played by one level, they can by all.
                return None
            ends = nest_ends([one.ends[0] for one in chosen])
            _, _, truths, _, events, _ = plans[0]
            told = -1 - events[events < 0]
            misses = []
            for tally, (lower, upper) in zip(self._tallies.values(), ends, strict=True):
                missed = ((truths < lower) | (truths > upper))[told].astype(float).tolist()
                sizes = measure_bands(lower, upper)[told].tolist()
                for miss, size in zip(missed, sizes, strict=True):
                    tally.count(miss, size)
                misses.append(missed)
            for place, each in zip(told.tolist(), zip(*misses, strict=True), strict=True):
                self._remember(chosen[0].numbers[place], each)
            return Shown(chosen[0].numbers, ends)

    def skip(self, prediction: Levels[R] | int) -> None:
        """Close a round that nobody will answer; it teaches nothing."""
        with self._lock:
            number = self._find(prediction).id
            for one in self._predictors.values():
                one.skip(number)

    def calibrate(self, outputs: Iterable[object], labels: Iterable[object], **known: Any) -> None:
        """Learn from labelled history before the first round, as ``Predictor.calibrate`` does."""
        history, truths = list(outputs), list(labels)
        for one in self._predictors.values():
            one.calibrate(history, truths, **known)

    def save(self, path: str | Path) -> None:
        """Write everything to a file, whole or not at all; open rounds and draws included."""
        file.write(Path(path), self.dump())

    @classmethod
    def load(cls, path: str | Path, *, score: Score[R] | None = None) -> Self:
        """Return what was saved; it continues bit for bit."""
        return cls.restore(Path(path).read_bytes(), score=score)

    def dump(self) -> bytes:
        """Return what ``save`` writes."""
        with self._lock:
            parts = [one.dump() for one in self._predictors.values()]
            tallies = [one.dump() for one in self._tallies.values()]
        header = {"levels": [len(part) for part in parts], "tallies": tallies}
        return file.pack(header, b"".join(parts))

    @classmethod
    def restore(cls, content: bytes, *, score: Score[R] | None = None) -> Self:
        """Return the object that ``dump`` wrote, or raise ``SnapshotError``."""
        header, rest = file.unpack(content)
        try:
            ends = np.cumsum(header["levels"]).tolist()
            parts = [rest[end - size : end] for size, end in zip(header["levels"], ends, strict=True)]
            tallies = [Tally(**one) for one in header["tallies"]]
        except (KeyError, TypeError) as error:
            raise SnapshotError(
                f"the snapshot of several levels lacks or mistypes {error}; that of a single alpha is "
                "restored with keyhole.Predictor"
            ) from None
        made = cls.__new__(cls)
        made.__setstate__(([Predictor.restore(part, score=score) for part in parts], tallies, {}))
        return made

    def __getstate__(self) -> "_State[R]":
        with self._lock:
            missed = dict(self._missed)
            return list(self._predictors.values()), list(self._tallies.values()), missed

    def __setstate__(self, state: "_State[R]") -> None:
        predictors, tallies, self._missed = state
        self._lock = threading.RLock()
        self._predictors = {one.alpha: one for one in predictors}
        self._tallies = dict(zip(self._predictors, tallies, strict=True))


def nest(alphas: Iterable[float], chosen: Sequence[R]) -> Levels[R]:
    """Return what is shown where the levels, the smallest alpha first, have chosen these."""
    shown = [chosen[-1]]
    for own in reversed(chosen[:-1]):
        shown.append(_join(own, shown[-1]))
    return Levels(chosen[0].id, dict(zip(alphas, reversed(shown), strict=True)))


def nest_ends(chosen: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    """Return the ends that are shown where the levels, the smallest alpha first, have chosen these."""
    shown = [chosen[-1]]
    for lower, upper in reversed(chosen[:-1]):
        shown.append((np.minimum(lower, shown[-1][0]), np.maximum(upper, shown[-1][1])))
    return shown[::-1]


def _join(outer: R, inner: R) -> R:
    """Return the smallest set or interval that holds both."""
    if isinstance(outer, LabelSet):
        return outer if outer.threshold <= inner.threshold else inner
    one: Any = outer
    other: Any = inner
    if one.lower <= other.lower and other.upper <= one.upper:
        return outer
    if other.lower <= one.lower and one.upper <= other.upper:
        return inner
    threshold = min(one.threshold, other.threshold)
    joined: Any = Interval(one.id, threshold, min(one.lower, other.lower), max(one.upper, other.upper))
    return joined


def _check_miss(shown: Levels[Any], answer: object) -> None:
    """Raise if a miss is told of the whole line, which one level alone may have shown."""
    if isinstance(answer, Answer) and math.isinf(shown.outermost.size):
        raise FeedbackError(
            f"interval {shown.id} is the whole line, which cannot miss; tell the true value, label=..."
        )


def _judge(region: Any, label: object, score: float | None) -> float:
    """Return whether what was shown missed; where neither label nor score is told, all have."""
    if label is not MISSING:
        return float(label not in region)
    return float(score is None or score < region.threshold)


def read_alphas(learner: object, alphas: Sequence[float]) -> list[float]:
    """Return the target miss rates in order, or raise; each predictor then checks its own."""
    if learner is not None and not isinstance(learner, str):
        raise InvalidError("a learner has one alpha; for several levels name its rule instead")
    for one in alphas:
        if not is_real(one):
            raise InvalidError(f"alpha {one!r} is not a number; try [0.05, 0.1, 0.2]", field="alpha")
    ordered = sorted({float(one) for one in alphas})
    if len(ordered) < max(1, len(alphas)):
        raise InvalidError(
            f"alpha {list(alphas)!r} holds no level, or one twice; try [0.05, 0.1, 0.2]", field="alpha"
        )
    return ordered

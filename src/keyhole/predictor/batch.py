"""Many rounds at once, over a table of scores, without the overhead of each."""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from keyhole.checks import is_list
from keyhole.errors import FeedbackError, ScoreError
from keyhole.feedback import Answer, usable_score, usable_scores
from keyhole.learners import Learner
from keyhole.learners.entries import check_choice
from keyhole.numeric import Array
from keyhole.predictor.monitor import find_monitor
from keyhole.predictor.progress import Progress
from keyhole.predictor.rounds import R, Round, is_listening, listen, read_answer
from keyhole.predictor.tally import Outcome
from keyhole.scores import Case, LabelSet, TableScore

_SHOWN = 5  # sets of a batch, in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class LabelSets(Sequence[LabelSet]):
    """The sets of a batch, each made when it is looked at.

    ``mask`` says for each round and label whether the set holds it.
    """

    first: int
    then: int
    thresholds: Array
    scores: Array
    score: TableScore
    memos: Sequence[Any]

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Which labels each set holds, a row for each round."""
        return self.scores >= self.thresholds[:, None]

    @property
    def sizes(self) -> Array:
        return self.mask.sum(axis=1).astype(np.float64)

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + len(self))

    def __len__(self) -> int:
        return int(self.scores.shape[0])

    def __repr__(self) -> str:
        low, high = self.thresholds.min(), self.thresholds.max()
        played = f"threshold {low:g}" if low == high else f"thresholds {low:g} to {high:g}"
        return (
            f"<{len(self):,} sets, rounds {self.first} to {self.first + len(self) - 1}, {played}: mean "
            f"size {self.sizes.mean():.4g}>"
        )

    def _repr_html_(self) -> str:
        shown = "<br>".join(one._repr_html_() for one in self[:_SHOWN])
        rest = f"<br>and {len(self) - _SHOWN:,} more" if len(self) > _SHOWN else ""
        return f"{shown}{rest}"

    @overload
    def __getitem__(self, place: int) -> LabelSet: ...

    @overload
    def __getitem__(self, place: slice) -> list[LabelSet]: ...

    def __getitem__(self, place: int | slice) -> LabelSet | list[LabelSet]:
        if isinstance(place, slice):
            return [self[k] for k in range(len(self))[place]]
        place = range(len(self))[place]
        return self.case(place).region(self.first + place, self.thresholds.item(place))

    def __iter__(self) -> Iterator[LabelSet]:
        return (self[place] for place in range(len(self)))

    def case(self, place: int) -> Case[LabelSet]:
        return self.score.read_row(self.scores[place])

    def open(self, number: int) -> Round[LabelSet]:
        """Return a round of the batch as any other round that waits."""
        place = number - self.first
        return Round(self[place], self.case(place), self.memos[place], self.then)


def check_rows(outputs: object) -> None:
    """Raise for a table that would be gone through by the names of its columns."""
    if hasattr(outputs, "columns"):
        raise ScoreError(
            f"a {type(outputs).__name__} is not a row for each round; give table.to_numpy(), with the "
            "labels by score=keyhole.Probabilities(labels=[...]), or a dict for each row"
        )


def fits(learner: Learner, score: object, outputs: object) -> bool:
    """Return whether a table of scores can be played at once: nothing is drawn or cut."""
    return (
        isinstance(outputs, np.ndarray)
        and outputs.ndim == 2
        and len(outputs) > 0
        and learner.runs_interpreted
        and not learner.rule.draws
        and hasattr(score, "read_table")
        and getattr(score, "is_unlimited", False)
    )


def propose_batch(learner: Learner, progress: Progress, score: TableScore, outputs: Array) -> LabelSets:
    """Return the sets of a table of scores, a row each, as ``propose`` would one by one."""
    scores, rows = score.read_table(np.array(outputs)), len(outputs)
    chosen: list[tuple[float, Any]] = []
    while len(chosen) < rows and is_listening(learner, progress, len(chosen)):
        listen(learner, progress, score.read_row(scores[len(chosen)]))
        chosen.append(learner.choose(progress.state))
    chosen += [learner.choose(progress.state)] * (rows - len(chosen))
    thresholds, memos = zip(*chosen, strict=True)
    check_choice(learner.name, thresholds[-1])
    tally = progress.tally
    return LabelSets(tally.predicted, tally.answered, np.array(thresholds), scores, score, memos)


def list_outputs(outputs: Any) -> list[Any]:
    if not is_list(outputs):
        raise ScoreError(
            f"outputs {outputs!r} are not a list; give what the model says of each round: [...]"
        )
    return list(outputs)


def list_labels(labels: Any) -> list[Any]:
    if not is_list(labels):
        raise FeedbackError(f"labels {labels!r} are not a list; give the truth of each round: [...]")
    return list(labels)


def check_answers(predictions: Sized, answers: Sized) -> None:
    for given, what in ((predictions, "rounds"), (answers, "answers")):
        if not (is_list(given) and isinstance(given, Sized)):
            raise FeedbackError(f"{given!r} is not a list of {what}; give one for each round: [...]")
    if len(predictions) != len(answers):
        raise FeedbackError(
            f"{len(answers)} answers came for {len(predictions)} rounds; give one for each"
        )


def read_answers(
    learner: Learner, waiting: Sequence[Round[R]], answers: Sequence[object]
) -> list[Outcome]:
    outcomes = [
        read_answer(learner, one, given)
        if isinstance(given, Answer)
        else read_answer(learner, one, label=given)
        for one, given in zip(waiting, answers, strict=True)
    ]
    for outcome in outcomes:
        usable_score(learner.name, learner.needs, outcome.miss, outcome.score)
    return outcomes


def settle_batch(
    learner: Learner, progress: Progress, batch: LabelSets, places: NDArray[np.int64]
) -> None:
    """Teach the progress in which columns the true labels of a batch are, answered whole, in order."""
    true = batch.scores[np.arange(len(batch)), places]
    missed, sizes = true < batch.thresholds, batch.sizes
    misses, (ages, stales) = missed.astype(float), _measure_delays(progress, batch)
    observe_all = getattr(learner.parameters, "observe_all", None)
    if observe_all is not None:
        observe_all(progress.state, batch.memos, (misses, true, ages, stales))
    else:
        used = true if learner.informed else usable_scores(learner.needs, missed, true)
        columns = (misses, used, ages, stales)
        for memo, *answer in zip(batch.memos, *(one.tolist() for one in columns), strict=True):
            learner.observe(progress.state, memo, Answer(*answer))
    tally, watch = progress.tally, progress.watch
    if watch is None:
        tally.count_all(misses, sizes, stales)
        return
    monitor, heard = find_monitor(learner.alpha), tally.calibrated + batch.then
    for miss, size, stale in zip(misses.tolist(), sizes.tolist(), stales.tolist(), strict=True):
        monitor.observe(watch, miss, heard=heard, stale=tally.stale)
        tally.count(miss, size, 1.0, stale)


def find_places(batch: LabelSets, answers: Sequence[object]) -> NDArray[np.int64] | None:
    """Return in which column each true label is; None unless every answer is one of the labels."""
    names, columns = batch.score.labels, batch.scores.shape[1]
    try:
        if names is not None:
            known = {name: place for place, name in enumerate(names)}
            return np.array([known[label] for label in answers])
        places = np.asarray(answers)
    except (KeyError, TypeError, ValueError):
        return None
    fit = places.ndim == 1 and places.dtype.kind in "iu" and places.min() >= 0
    return places.astype(np.int64) if fit and places.max() < columns else None


def _measure_delays(progress: Progress, batch: LabelSets) -> tuple[Array, Array]:
    tally, rows = progress.tally, np.arange(len(batch), dtype=np.float64)
    answered = tally.answered + rows
    ages = answered - batch.then
    gaps = tally.predicted - 1.0 - (batch.first + rows)
    shares = np.minimum(1.0, (answered + 1.0) / (batch.first + rows + 1.0))
    return ages, ages + gaps * shares

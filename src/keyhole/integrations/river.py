"""river: sets and intervals around a model that learns one case at a time.

The classes inherit because river finds out by its own bases what a model can do.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Self

from keyhole.checks import is_missing
from keyhole.errors import FeedbackError, LabelError, MissingExtraError, ScoreError
from keyhole.feedback import Answer
from keyhole.integrations._cases import read_case, start_predictor
from keyhole.predictor.predictor import Predictor
from keyhole.scores import Interval, LabelSet, Probabilities, ScaledResiduals, Score

try:
    from river import base
except ImportError:
    raise MissingExtraError(
        "this adapter needs river; pip install 'keyhole-conformal[river]'"
    ) from None

__all__ = ["OnlineIntervalRegressor", "OnlineSetClassifier"]

Case = dict[Any, object]  # what river calls x

_NOTHING_KNOWN = LabelSet(-1, 0.0, ())  # what is shown before the model has seen a label


class _OpenRounds:
    """Predictions that wait for ``learn_one`` to bring the same case again, the oldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ids: dict[Hashable, deque[int]] = {}
        self._count = 0

    def put(self, x: Case, number: int) -> None:
        self._ids.setdefault(_key(x), deque()).append(number)
        self._count += 1
        if self._count > self._limit:  # The oldest is forgotten.
            self._take(next(iter(self._ids)))

    def take(self, x: Case) -> int | None:
        """Return the oldest prediction for such a case, and forget it; None if there is none."""
        key = _key(x)
        return self._take(key) if key in self._ids else None

    def put_back(self, x: Case, number: int) -> None:
        """Let a prediction that was taken wait again, before all others for such a case."""
        self._ids.setdefault(_key(x), deque()).appendleft(number)
        self._count += 1

    def _take(self, key: Hashable) -> int:
        numbers = self._ids[key]
        number = numbers.popleft()
        if not numbers:
            del self._ids[key]
        self._count -= 1
        return number


def _key(x: Case) -> Hashable:
    """Return what is the same for equal cases, whatever the order of their features."""
    return frozenset((name, repr(value)) for name, value in x.items())


class _Online(base.Wrapper):
    """What both wrappers do; each gives ``_output``, what its score reads of the wrapped model."""

    predictor: Predictor[Any]

    def _start(self, kind: Score[Any]) -> None:
        self.predictor = start_predictor(self, kind, seed=self.seed)
        self._open = _OpenRounds(limit=10_000)

    def predict_one(self, x: Case, **kwargs: object) -> Any:
        """Return the model's one answer."""
        return self._wrapped_model.predict_one(x, **kwargs)

    def learn_one(self, x: Case, y: object, **kwargs: object) -> None:
        """Answer the round of this case, then teach the model its truth."""
        number = self._open.take(x)
        if number is not None:
            try:
                self._answer(number, y)
            except (FeedbackError, LabelError, ScoreError):  # It is open as before.
                self._open.put_back(x, number)
                raise
        elif (shown := self._propose(x, {})) is not None:
            try:
                self._answer(shown.id, y)
            except (FeedbackError, LabelError, ScoreError):
                self.predictor.skip(shown.id)  # Nobody has seen it.
                raise
        if not isinstance(y, Answer):
            self._wrapped_model.learn_one(x, y, **kwargs)

    def _answer(self, number: int, y: object) -> None:
        if isinstance(y, Answer):
            self.predictor.learn(number, y)
        else:
            self.predictor.learn(number, label=y)  # one not seen by then was in no set: a miss

    def calibrate(self, cases: Iterable[tuple[Case, object]]) -> Self:
        """Teach model and predictor labelled cases of the past, in order; the counts stay at zero.

        What the predictor learns from a case is what the model predicted before it saw the truth.

        Examples
        --------
        >>> from river import datasets, naive_bayes
        >>> model = OnlineSetClassifier(naive_bayes.GaussianNB(), alpha=0.1)
        >>> model = model.calibrate(datasets.Phishing().take(300))
        >>> model.predictor.rounds
        0
        """
        outputs, labels, known = [], [], []
        for x, y in cases:
            if is_missing(y):
                raise LabelError(f"{y!r} does not say what was true; leave the case out")
            output = self._output(x, {})
            if output is not None:
                outputs.append(output)
                labels.append(y)
                known.append(read_case(self, x))
            self._wrapped_model.learn_one(x, y)
        self.predictor.calibrate(
            outputs,
            labels,
            features=[one["features"] for one in known] if self.features else None,
            groups=[one["groups"] for one in known] if self.groups else None,
        )
        return self

    def _propose(self, x: Case, kwargs: dict[str, object]) -> Any:
        """Return a prediction; None if the model predicts nothing yet."""
        output = self._output(x, kwargs)
        return None if output is None else self.predictor.predict(output, **read_case(self, x))

    def _show(self, x: Case, kwargs: dict[str, object]) -> Any:
        """Return a prediction that waits for the case to come again; None as above."""
        shown = self._propose(x, kwargs)
        if shown is not None:
            self._open.put(x, shown.id)
        return shown


class OnlineSetClassifier(_Online, base.Classifier):
    """A classifier that predicts sets of labels, of which a share alpha may miss the true one.

    ``learn_one`` answers the set that was shown for the same case; where none was shown, it plays
    that round itself, so that ``progressive_val_score`` calibrates too. With ``keyhole.HIT`` or
    ``keyhole.MISS`` in place of the label only the size of the sets is learnt, not the model.

    Parameters
    ----------
    classifier
        A river classifier with ``predict_proba_one``.
    alpha
        The share of sets that may miss the true label.
    features, groups
        Names of entries of a case: features that the threshold depends on, and groups that must each be
        covered; a case belongs to a group if its entry is true.
    learner
        The name of a rule in ``keyhole.LEARNERS``; by default that of a predictor.
    feedback
        What an answer can reveal: "bandit", "semi-bandit" or "full".
    seed
        Fixes every draw.
    history
        How many answered rounds to keep for ``predictor.plot()`` and ``predictor.history()``.

    Examples
    --------
    >>> from river import datasets, linear_model, preprocessing
    >>> model = OnlineSetClassifier(
    ...     preprocessing.StandardScaler() | linear_model.LogisticRegression(), alpha=0.1
    ... )
    >>> for x, y in datasets.Phishing():
    ...     shown = model.predict_set_one(x)
    ...     model.learn_one(x, y)
    >>> model.predictor.rounds, round(model.predictor.miss_rate, 2)
    (1250, 0.1)
    """

    def __init__(
        self,
        classifier: Any,
        alpha: float = 0.1,
        features: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        learner: str | None = None,
        feedback: str = "semi-bandit",
        seed: int = 0,
        history: int = 0,
    ) -> None:
        self.classifier, self.alpha, self.learner = classifier, alpha, learner
        self.features, self.groups = features, groups
        self.feedback, self.seed, self.history = feedback, seed, history
        self._start(Probabilities())

    @property
    def _wrapped_model(self) -> Any:
        return self.classifier

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, naive_bayes, preprocessing

        yield {"classifier": preprocessing.StandardScaler() | linear_model.LogisticRegression()}
        yield {"classifier": naive_bayes.GaussianNB()}

    def predict_proba_one(self, x: Case, **kwargs: object) -> dict[Any, float]:
        """Return the classifier's probabilities."""
        return self.classifier.predict_proba_one(x, **kwargs)

    def predict_set_one(self, x: Case, **kwargs: object) -> LabelSet:
        """Return the labels to show, open until ``learn_one`` brings the same case again.

        Before the classifier has seen a label the set is empty, and there is nothing to answer.
        """
        shown = self._show(x, kwargs)
        return _NOTHING_KNOWN if shown is None else shown

    def _output(self, x: Case, kwargs: dict[str, object]) -> dict[Any, float] | None:
        chances = self.classifier.predict_proba_one(x, **kwargs)
        return {label: min(1.0, max(0.0, p)) for label, p in chances.items()} or None


class OnlineIntervalRegressor(_Online, base.Regressor):
    """A regressor that predicts intervals, of which a share alpha may miss the true value.

    ``learn_one`` answers the interval that was shown for the same case; where none was shown, it
    plays that round itself. With ``keyhole.HIT`` or ``keyhole.MISS`` in place of the value only the
    width of the intervals is learnt, not the model.

    Parameters
    ----------
    regressor
        A river regressor.
    alpha
        The share of intervals that may miss the true value.
    residuals
        A score kind for real outcomes; by default ``keyhole.ScaledResiduals``.
    features, groups, learner, feedback, seed, history
        As for ``OnlineSetClassifier``.

    Examples
    --------
    >>> from river import datasets, linear_model, preprocessing
    >>> model = OnlineIntervalRegressor(
    ...     preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1)
    ... )
    >>> for x, y in datasets.TrumpApproval():
    ...     shown = model.predict_interval_one(x)
    ...     model.learn_one(x, y)
    >>> model.predictor.rounds, round(model.predictor.miss_rate, 2)
    (1001, 0.08)
    """

    def __init__(
        self,
        regressor: Any,
        alpha: float = 0.1,
        residuals: Score[Interval] | None = None,
        features: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        learner: str | None = None,
        feedback: str = "semi-bandit",
        seed: int = 0,
        history: int = 0,
    ) -> None:
        self.regressor, self.alpha, self.learner = regressor, alpha, learner
        self.residuals, self.features, self.groups = residuals, features, groups
        self.feedback, self.seed, self.history = feedback, seed, history
        self._start(ScaledResiduals() if residuals is None else residuals)

    @property
    def _wrapped_model(self) -> Any:
        return self.regressor

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, preprocessing

        yield {"regressor": preprocessing.StandardScaler() | linear_model.LinearRegression()}

    def predict_interval_one(self, x: Case, **kwargs: object) -> Interval:
        """Return the interval to show, open until ``learn_one`` brings the same case again."""
        shown: Interval = self._show(x, kwargs)
        return shown

    def _output(self, x: Case, kwargs: dict[str, object]) -> Any:
        return self.regressor.predict_one(x, **kwargs)

"""scikit-learn: sets around a classifier, intervals around a regressor.

The classes inherit because scikit-learn finds tags, parameters and scorers through its own bases.
"""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from keyhole.errors import MissingExtraError, ScoreError
from keyhole.integrations._cases import Columns, learn_rows, read_context, start_predictor
from keyhole.learners import Learner
from keyhole.predictor.predictor import Predictor
from keyhole.scores import Interval, LabelSet, Probabilities, Region, ScaledResiduals, Score

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted, column_or_1d
except ImportError:
    raise MissingExtraError(
        "this adapter needs scikit-learn; pip install 'keyhole-conformal[sklearn]'"
    ) from None

__all__ = ["IntervalRegressor", "SetClassifier"]


def _estimator_has(name: str) -> Any:
    """Return a test for ``available_if``: whether the estimator, fitted or not, has the method."""
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), name)


class _Wrapper:
    """What both wrappers do; each fits its estimator and gives ``_outputs``, what its score reads."""

    estimator: Any
    alpha: float
    features: Columns
    groups: Columns
    learner: str | Learner | None
    feedback: str
    seed: int | None
    history: int
    warm_start: bool
    predictor_: Predictor[Any]

    def predict(self, X: Any) -> Any:
        """Return the estimator's one answer for every row."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    def learn(self, shown: Iterable[Region | int], answers: Iterable[object]) -> None:
        """Answer predictions, or their ids, each with the truth, ``keyhole.HIT`` or ``keyhole.MISS``.

        Where the answer is None the round stays open.
        """
        check_is_fitted(self)
        learn_rows(self.predictor_, shown, answers)

    def calibrate(self, X: Any, y: ArrayLike, *, features: Any = None, groups: Any = None) -> Self:
        """Calibrate on labelled rows that the estimator was not fitted to.

        The first prediction then starts from what these rows taught; the counts stay at zero.
        Fitting again starts a new predictor, which must be calibrated again, unless ``warm_start``.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> rng = np.random.default_rng(7)
        >>> X = rng.normal(size=(300, 1))
        >>> y = X[:, 0] + rng.normal(size=300)
        >>> model = IntervalRegressor(LinearRegression(), alpha=0.1, seed=7).fit(X[:100], y[:100])
        >>> model = model.calibrate(X[100:], y[100:])
        >>> 2.5 < model.predict_interval([[0.0]])[0].width < 5.0
        True
        """
        check_is_fitted(self)
        known = read_context(self, X, features=features, groups=groups)
        self.predictor_.calibrate(self._outputs(X), np.asarray(y).tolist(), **known)
        return self

    def _outputs(self, X: Any) -> Any:
        raise NotImplementedError

    def _fit(self, X: Any, y: Any) -> None:
        fitted = clone(self.estimator).fit(X, y)
        self._check(fitted)
        self.estimator_ = fitted
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def _check(self, fitted: Any) -> None:
        """Raise if the fitted estimator cannot be used; nothing has changed then."""

    def _start(self, kind: Score[Any]) -> None:
        if not (self.warm_start and hasattr(self, "predictor_")):
            self.predictor_ = start_predictor(self, kind, seed=self.seed)

    def _predict_batch(self, X: Any, features: Any, groups: Any) -> list[Any]:
        check_is_fitted(self)
        known = read_context(self, X, features=features, groups=groups)
        return list(self.predictor_.predict_batch(self._outputs(X), **known))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of scikit-learn's bases, which follow
        try:
            inner = self.estimator.__sklearn_tags__()
        except AttributeError:
            return tags
        tags.input_tags = inner.input_tags
        tags.target_tags.multi_output = False
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        return tags


class SetClassifier(_Wrapper, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier that predicts sets of labels, of which a share alpha may miss the true one.

    Parameters
    ----------
    estimator
        A classifier with ``predict_proba``; a clone of it is fitted. For one that is fitted already
        give ``FrozenEstimator(model)``.
    alpha
        The share of sets that may miss the true label.
    features, groups
        The features of a case, and the groups that must each be covered: columns of X, by name or
        number, unless they are arguments of ``predict_set``. The column of a group is true or false.
    learner
        The name of a rule in ``keyhole.LEARNERS``, or a learner; by default that of a predictor.
    feedback
        What an answer can reveal: "bandit", "semi-bandit" or "full".
    seed
        Fixes every draw; without one nobody can guess them.
    history
        How many answered rounds to keep for ``predictor_.plot()`` and ``predictor_.history()``.
    warm_start
        Whether fitting again goes on with the predictor, its open rounds and its counts, instead of
        starting a new one: for a model that is trained anew on the same labels.
    at_least, at_most
        The fewest and the most labels that a set may have; see ``keyhole.Probabilities``.

    Attributes
    ----------
    estimator_, classes_
        The fitted classifier and its labels.
    predictor_
        The ``keyhole.Predictor``: its ``miss_rate``, ``mean_size``, ``save``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> flowers = load_iris(as_frame=True)
    >>> names = flowers.target_names[flowers.target]
    >>> model = SetClassifier(LogisticRegression(C=0.01), alpha=0.1, seed=7)
    >>> model = model.fit(flowers.data[::2], names[::2])
    >>> sets = model.predict_set(flowers.data[1:4:2])
    >>> sets[0].labels
    ('setosa', 'versicolor')
    >>> model.learn(sets, ["setosa", "setosa"])
    >>> model.predictor_.rounds
    2
    """

    def __init__(
        self,
        estimator: Any,
        *,
        alpha: float = 0.1,
        at_least: int = 0,
        at_most: int | None = None,
        features: Columns = None,
        groups: Columns = None,
        learner: str | Learner | None = None,
        feedback: str = "semi-bandit",
        seed: int | None = None,
        history: int = 0,
        warm_start: bool = False,
    ) -> None:
        self.estimator, self.alpha, self.at_least, self.at_most = estimator, alpha, at_least, at_most
        self.features, self.groups, self.learner = features, groups, learner
        self.feedback, self.seed, self.history = feedback, seed, history
        self.warm_start = warm_start

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a clone of the estimator, and start a predictor unless ``warm_start`` keeps the last."""
        self._fit(X, y)
        self.classes_ = self.estimator_.classes_
        labels = self.classes_.tolist()
        self._start(Probabilities(labels=labels, at_least=self.at_least, at_most=self.at_most))
        return self

    def _check(self, fitted: Any) -> None:
        if not hasattr(fitted, "classes_"):
            raise ScoreError(
                f"{type(fitted).__name__} has no classes, so that no labels can be shown; "
                "for a number take IntervalRegressor"
            )
        known = getattr(self, "classes_", fitted.classes_)
        if self.warm_start and not np.array_equal(known, fitted.classes_):
            raise ScoreError(
                f"the labels are now {fitted.classes_.tolist()} and were {known.tolist()}, so that the "
                "predictor cannot go on; fit with warm_start=False, and calibrate"
            )

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the estimator's probabilities."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the estimator's decision function."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def predict_set(self, X: Any, *, features: Any = None, groups: Any = None) -> list[LabelSet]:
        """Return a set of labels for every row; each stays open until it is answered.

        Features and groups, where they are not columns of X, are a row of numbers and a list of groups
        for each of its rows.
        """
        return self._predict_batch(X, features, groups)

    def _outputs(self, X: Any) -> Any:
        if not hasattr(self.estimator_, "predict_proba"):
            raise ScoreError(
                f"{type(self.estimator_).__name__} has no predict_proba, so that its labels have no "
                "scores; wrap it in sklearn.calibration.CalibratedClassifierCV"
            )
        return np.clip(self.estimator_.predict_proba(X), 0.0, 1.0)  # rounding may leave 1 + 2e-16


class IntervalRegressor(_Wrapper, RegressorMixin, MetaEstimatorMixin, BaseEstimator):
    """A regressor that predicts intervals, of which a share alpha may miss the true value.

    Parameters
    ----------
    estimator
        A regressor; a clone of it is fitted. For one that is fitted already give
        ``FrozenEstimator(model)``.
    alpha
        The share of intervals that may miss the true value.
    residuals
        A score kind for real outcomes, such as ``keyhole.scores.BoundedResiduals(bound=18.5)``; by
        default ``keyhole.ScaledResiduals``.
    features, groups, learner, feedback, seed, history, warm_start
        As for ``SetClassifier``.

    Attributes
    ----------
    estimator_
        The fitted regressor.
    predictor_
        The ``keyhole.Predictor``: its ``miss_rate``, ``mean_size``, ``save``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.arange(20.0).reshape(-1, 1)
    >>> model = IntervalRegressor(LinearRegression(), alpha=0.1, seed=7).fit(X, 3 * X[:, 0])
    >>> intervals = model.predict_interval(X[:2])
    >>> 3.0 in intervals[1]
    True
    >>> model.learn(intervals, [0.0, 3.0])
    >>> model.predictor_.miss_rate
    0.0
    """

    def __init__(
        self,
        estimator: Any,
        *,
        alpha: float = 0.1,
        residuals: Score[Interval] | None = None,
        features: Columns = None,
        groups: Columns = None,
        learner: str | Learner | None = None,
        feedback: str = "semi-bandit",
        seed: int | None = None,
        history: int = 0,
        warm_start: bool = False,
    ) -> None:
        self.estimator, self.alpha, self.residuals = estimator, alpha, residuals
        self.features, self.groups, self.learner = features, groups, learner
        self.feedback, self.seed, self.history = feedback, seed, history
        self.warm_start = warm_start

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a clone of the estimator, and start a predictor unless ``warm_start`` keeps the last."""
        values = None if y is None else column_or_1d(y, warn=True)  # an interval is of one outcome
        self._fit(X, values)
        self._start(ScaledResiduals() if self.residuals is None else self.residuals)
        return self

    def predict_interval(self, X: Any, *, features: Any = None, groups: Any = None) -> list[Interval]:
        """Return an interval for every row; each stays open until it is answered.

        Features and groups, where they are not columns of X, are a row of numbers and a list of groups
        for each of its rows.
        """
        return self._predict_batch(X, features, groups)

    def _outputs(self, X: Any) -> Any:
        centres = np.asarray(self.estimator_.predict(X), dtype=np.float64)
        if centres.ndim != 1:
            raise ScoreError(
                f"the estimator predicts {centres.shape[1]} outcomes a row; an interval is of one: "
                "fit one IntervalRegressor for each outcome"
            )
        return centres

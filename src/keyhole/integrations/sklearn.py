"""scikit-learn: sets around a classifier, intervals around a regressor.

The classes inherit because scikit-learn finds tags, parameters and scorers through its own bases.
"""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from keyhole.errors import MissingExtraError, ScoreError
from keyhole.integrations._answers import default_residuals, learn_rows, start_predictor
from keyhole.integrations._context import Columns
from keyhole.integrations._estimators import (
    copy_input_names,
    estimator_has,
    know,
    tags_of_estimator,
)
from keyhole.scores import Interval, LabelSet, Probabilities, Score

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted, column_or_1d
except ImportError:
    raise MissingExtraError(
        "this adapter needs scikit-learn; pip install 'keyhole-conformal[sklearn]'"
    ) from None

__all__ = ["IntervalRegressor", "SetClassifier"]


class SetClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier that answers with sets of labels, of which at most alpha miss the true one.

    Parameters
    ----------
    estimator
        A classifier with ``predict_proba``; a clone of it is fitted. For one that is fitted already
        give ``FrozenEstimator(model)``.
    alpha
        The share of sets that may miss the true label.
    features, groups
        What is known of a case, and the groups that must each be covered: columns of X, by name or
        number, where ``predict_set`` is not given them beside it. A group's column is true or false.
    learner
        The name of a rule in ``keyhole.LEARNERS``, or a learner; by default that of a predictor.
    feedback
        What the world can tell: "bandit", "semi-bandit" or "full".
    seed
        Fixes every draw; without one nobody can guess them.
    history
        How many answered rounds to keep for ``predictor_.plot()`` and ``predictor_.history()``.

    Attributes
    ----------
    estimator_, classes_
        The fitted classifier and its labels.
    predictor_
        The ``keyhole.Predictor`` at work: its ``miss_rate``, ``mean_size``, ``save``.

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
    ('setosa',)
    >>> model.learn(sets, ["setosa", "setosa"])
    >>> model.predictor_.rounds
    2
    """

    def __init__(
        self,
        estimator: Any,
        *,
        alpha: float = 0.1,
        features: Columns = None,
        groups: Columns = None,
        learner: Any = None,
        feedback: str = "semi-bandit",
        seed: int | None = None,
        history: int = 0,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.features = features
        self.groups = groups
        self.learner = learner
        self.feedback = feedback
        self.seed = seed
        self.history = history

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Fit a clone of the estimator and start a predictor that has seen nothing yet."""
        self.estimator_ = clone(self.estimator).fit(X, y)
        if not hasattr(self.estimator_, "classes_"):
            raise ScoreError(
                f"{type(self.estimator_).__name__} has no classes, so that no labels can be shown; "
                "for a number take IntervalRegressor"
            )
        self.classes_ = self.estimator_.classes_
        copy_input_names(self)
        self.predictor_ = start_predictor(
            self, Probabilities(labels=self.classes_.tolist()), seed=self.seed
        )
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the estimator's one label for every row."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Return the estimator's probabilities."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(estimator_has("decision_function"))
    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """Return the estimator's decision function."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def predict_set(self, X: Any, *, features: Any = None, groups: Any = None) -> list[LabelSet]:  # noqa: N803
        """Return a set of labels for every row; each stays open until it is answered.

        Features and groups, where they are not columns of X, are a row of numbers and a list of groups
        for each of its rows.
        """
        check_is_fitted(self)
        known = know(self, X, features, groups)
        return list(self.predictor_.predict_batch(self._scores(X), **known))

    def learn(self, sets: Iterable[LabelSet | int], answers: Iterable[Any]) -> None:
        """Answer sets, or their ids, each with its true label, ``keyhole.HIT`` or ``keyhole.MISS``.

        Where the answer is None the round stays open.
        """
        check_is_fitted(self)
        learn_rows(self.predictor_, sets, answers)

    def calibrate(self, X: Any, y: ArrayLike, *, features: Any = None, groups: Any = None) -> Self:  # noqa: N803
        """Calibrate on labelled rows that the estimator was not fitted to.

        The first set is then as good as a late one. The predictor's own counts stay at zero.
        """
        check_is_fitted(self)
        known = know(self, X, features, groups)
        self.predictor_.calibrate(self._scores(X), np.asarray(y).tolist(), **known)
        return self

    def _scores(self, X: Any) -> Any:  # noqa: N803
        if not hasattr(self.estimator_, "predict_proba"):
            raise ScoreError(
                f"{type(self.estimator_).__name__} has no predict_proba, so that its labels have no "
                "scores; wrap it in sklearn.calibration.CalibratedClassifierCV"
            )
        return np.clip(self.estimator_.predict_proba(X), 0.0, 1.0)  # rounding may leave 1 + 2e-16

    def __sklearn_tags__(self) -> Any:
        return tags_of_estimator(super().__sklearn_tags__(), self.estimator)


class IntervalRegressor(RegressorMixin, MetaEstimatorMixin, BaseEstimator):
    """A regressor that answers with intervals, of which at most alpha miss the true value.

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
    features, groups, learner, feedback, seed, history
        As for ``SetClassifier``.

    Attributes
    ----------
    estimator_
        The fitted regressor.
    predictor_
        The ``keyhole.Predictor`` at work: its ``miss_rate``, ``mean_size``, ``save``.

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
        learner: Any = None,
        feedback: str = "semi-bandit",
        seed: int | None = None,
        history: int = 0,
    ) -> None:
        self.estimator = estimator
        self.alpha = alpha
        self.residuals = residuals
        self.features = features
        self.groups = groups
        self.learner = learner
        self.feedback = feedback
        self.seed = seed
        self.history = history

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Fit a clone of the estimator and start a predictor that has seen nothing yet."""
        values = None if y is None else column_or_1d(y, warn=True)  # an interval is of one outcome
        self.estimator_ = clone(self.estimator).fit(X, values)
        copy_input_names(self)
        kind = default_residuals() if self.residuals is None else self.residuals
        self.predictor_ = start_predictor(self, kind, seed=self.seed)
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the estimator's one value for every row."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    def predict_interval(self, X: Any, *, features: Any = None, groups: Any = None) -> list[Interval]:  # noqa: N803
        """Return an interval for every row; each stays open until it is answered.

        Features and groups, where they are not columns of X, are a row of numbers and a list of groups
        for each of its rows.
        """
        check_is_fitted(self)
        known = know(self, X, features, groups)
        return list(self.predictor_.predict_batch(self._centres(X), **known))

    def learn(self, intervals: Iterable[Interval | int], answers: Iterable[Any]) -> None:
        """Answer intervals, or their ids, each with its true value, ``keyhole.HIT`` or ``MISS``.

        Where the answer is None the round stays open.
        """
        check_is_fitted(self)
        learn_rows(self.predictor_, intervals, answers)

    def calibrate(self, X: Any, y: ArrayLike, *, features: Any = None, groups: Any = None) -> Self:  # noqa: N803
        """Calibrate on rows of known outcome that the estimator was not fitted to.

        The first interval is then as good as a late one. The predictor's own counts stay at zero.
        """
        check_is_fitted(self)
        known = know(self, X, features, groups)
        self.predictor_.calibrate(self._centres(X), np.asarray(y).tolist(), **known)
        return self

    def _centres(self, X: Any) -> Any:  # noqa: N803
        centres = np.asarray(self.estimator_.predict(X), dtype=np.float64)
        if centres.ndim != 1:
            raise ScoreError(
                f"the estimator predicts {centres.shape[1]} outcomes a row; an interval is of one: "
                "fit one IntervalRegressor for each outcome"
            )
        return centres

    def __sklearn_tags__(self) -> Any:
        return tags_of_estimator(super().__sklearn_tags__(), self.estimator)

"""scikit-learn's own checks pass, and sets come and are answered through its ordinary calls."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import keyhole
from keyhole.errors import FeedbackError, InvalidError, ScoreError
from keyhole.integrations.sklearn import IntervalRegressor, SetClassifier

# Nothing is exempt. scikit-learn itself skips check_array_api_input unless SCIPY_ARRAY_API is set.


@pytest.mark.filterwarnings("ignore")  # the checks provoke warnings of the estimators
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        SetClassifier(LogisticRegression()),
        IntervalRegressor(Ridge()),
        SetClassifier(make_pipeline(StandardScaler(), LogisticRegression())),
    ]
)
def test_conventions_of_scikit_learn_are_kept(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def names() -> Any:
    """Digits called by numbers that start at 1, as a user's classes may."""
    data = load_digits()
    return data.data, data.target + 1


@pytest.fixture
def model(names: Any) -> Any:
    X, y = names
    fitted = SetClassifier(LogisticRegression(C=0.01, max_iter=500), alpha=0.1, seed=7)
    return fitted.fit(X[:150], y[:150])


def test_sets_hold_the_labels_of_the_estimator_not_their_places(model: Any, names: Any) -> None:
    X, y = names
    for n in range(150, 1650, 10):
        sets = model.predict_set(X[n : n + 10])
        model.learn(sets, y[n : n + 10])
    assert abs(model.predictor_.miss_rate - 0.1) < 0.04  # 1,500 rounds: 5 standard errors of 0.008
    assert model.predictor_.mean_size < 3.0
    assert {label for one in model.predict_set(X[:300]) for label in one} <= set(range(1, 11))


def test_text_labels_come_back_as_text(names: Any) -> None:
    X, y = names
    fitted = SetClassifier(LogisticRegression(C=0.01), seed=7).fit(X[:150], [f"d{k}" for k in y[:150]])
    (shown,) = fitted.predict_set(X[:1])
    assert all(type(label) is str for label in shown)
    fitted.learn([shown], np.array(["d1"]))
    assert fitted.predictor_.rounds == 1


def test_answers_may_be_hit_miss_or_not_there_yet(model: Any, names: Any) -> None:
    sets = model.predict_set(names[0][:3])
    model.learn(sets, [keyhole.HIT, None, keyhole.MISS])
    assert (model.predictor_.rounds, model.predictor_.open_rounds) == (2, 1)
    model.learn([sets[1].id], [keyhole.MISS])
    assert model.predictor_.miss_rate == pytest.approx(2 / 3)


def test_as_many_answers_as_sets_are_asked_for(model: Any, names: Any) -> None:
    sets = model.predict_set(names[0][:3])
    with pytest.raises(FeedbackError, match="2 answers came for 3 predictions"):
        model.learn(sets, [1, 2])
    assert model.predictor_.rounds == 0


def test_a_label_that_the_estimator_never_saw_counts_as_out_of_reach(model: Any, names: Any) -> None:
    model.learn(model.predict_set(names[0][:1]), [0])  # the classes are 1 to 10
    assert (model.predictor_.miss_rate, model.predictor_.unreachable) == (1.0, 1)


def test_a_calibrated_model_starts_as_others_end_and_its_counts_stay_clean(names: Any) -> None:
    X, y = names
    fitted = SetClassifier(LogisticRegression(C=0.01, max_iter=500), alpha=0.1, seed=7)
    fitted.fit(X[:150], y[:150])
    cold = fitted.predict_set(X[900:901])[0].threshold
    assert fitted.fit(X[:150], y[:150]).calibrate(X[150:900], y[150:900]).predictor_.rounds == 0
    warm = fitted.predict_set(X[900:901])[0].threshold
    assert warm > cold  # So little trained, the model is too shy of itself.
    sets = fitted.predict_set(X[900:1200])
    missed = np.mean([label not in one for one, label in zip(sets, y[900:1200].tolist(), strict=True)])
    assert abs(missed - 0.1) < 0.1  # other writers: within twice the target, from the first round on


def test_an_estimator_without_probabilities_is_told_what_to_do(names: Any) -> None:
    X, y = names
    fitted = SetClassifier(LinearSVC(max_iter=50, tol=1.0)).fit(X[:100], y[:100] > 5)
    assert not hasattr(fitted, "predict_proba")
    with pytest.raises(ScoreError, match="CalibratedClassifierCV"):
        fitted.predict_set(X[:1])
    wrapped = SetClassifier(CalibratedClassifierCV(LinearSVC(max_iter=50, tol=1.0)))
    assert wrapped.fit(X[:100], y[:100] > 5).predict_set(X[:1])[0].labels


def test_clones_start_afresh_and_parameters_can_be_searched(model: Any, names: Any) -> None:
    X, y = names
    assert not hasattr(clone(model), "predictor_")
    search = GridSearchCV(clone(model), {"estimator__C": [0.001, 0.1]}, cv=2).fit(X[:200], y[:200])
    assert search.best_estimator_.set_params(alpha=0.2).fit(X[:150], y[:150]).predictor_.alpha == 0.2


def test_it_is_the_last_step_of_a_pipeline(names: Any) -> None:
    X, y = names
    pipeline = make_pipeline(StandardScaler(), SetClassifier(LogisticRegression(), seed=7))
    pipeline.fit(X[:150], y[:150])
    assert pipeline.score(X[150:300], y[150:300]) > 0.8
    sets = pipeline[-1].predict_set(pipeline[:-1].transform(X[150:160]))
    pipeline[-1].learn(sets, y[150:160])
    assert pipeline[-1].predictor_.rounds == 10


def test_a_pickled_model_goes_on_bit_for_bit(model: Any, names: Any) -> None:
    X, y = names
    model.learn(model.predict_set(X[:50]), y[:50])
    other = pickle.loads(pickle.dumps(model))
    assert model.predict_set(X[50:60]) == other.predict_set(X[50:60])


def test_intervals_of_a_regressor_miss_as_often_as_asked() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 2))
    y = X @ [3.0, -1.0] + rng.normal(scale=5.0, size=3000)
    model = IntervalRegressor(LinearRegression(), alpha=0.2, seed=7).fit(X[:500], y[:500])
    for n in range(500, 3000, 5):
        model.learn(model.predict_interval(X[n : n + 5]), y[n : n + 5])
    assert abs(model.predictor_.miss_rate - 0.2) < 0.04  # 5 standard errors of 0.008
    assert model.score(X, y) > 0.2


def test_residuals_may_be_bounded() -> None:
    X = np.arange(10.0).reshape(-1, 1)
    model = IntervalRegressor(LinearRegression(), residuals=keyhole.scores.BoundedResiduals(bound=2.0))
    (interval,) = model.fit(X, X[:, 0]).predict_interval(X[:1])
    assert interval.width <= 4.0


def _noise_that_grows(rounds: int = 1_200) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.random((rounds, 2)), columns=["load", "hour"])
    table["weekend"] = rng.random(rounds) < 0.3
    spread = (0.1 + 2.0 * table["load"]) * np.where(table["weekend"], 2.0, 1.0)
    return table, (3.0 * table["hour"] + spread * rng.standard_normal(rounds)).to_numpy()


def _play(model: Any, X: Any, y: Any, **known: Any) -> list[tuple[float, float]]:  # noqa: N803
    shown = []
    for n in range(200, len(y), 10):
        rows = slice(n, n + 10)
        intervals = model.predict_interval(X[rows], **{name: v[rows] for name, v in known.items()})
        model.learn(intervals, y[rows])
        shown += [(one.lower, one.upper) for one in intervals]
    return shown


def test_features_and_groups_are_columns_or_come_beside_the_table() -> None:
    X, y = _noise_that_grows()
    options: dict[str, Any] = {"features": ["load"], "groups": ["weekend"], "alpha": 0.1, "seed": 1}
    by_column = IntervalRegressor(Ridge(), **options).fit(X[:200], y[:200])
    beside = IntervalRegressor(Ridge(), **options).fit(X[["hour"]][:200], y[:200])
    numbered = IntervalRegressor(Ridge(), features=[0], groups=[2], alpha=0.1, seed=1)
    numbered.fit(X.to_numpy(dtype=float)[:200], y[:200])
    members = [["weekend"] if flag else [] for flag in X["weekend"]]
    shown = _play(by_column, X, y)
    assert by_column.predictor_.learner.name == "contextual-tracker"
    assert np.allclose(_play(numbered, X.to_numpy(dtype=float), y), shown)
    _play(beside, X[["hour"]], y, features=X[["load"]].to_numpy(), groups=members)
    for model in (by_column, beside):
        group = model.predictor_.groups["weekend"]
        assert group.rounds == X["weekend"][200:].sum()
        assert abs(group.miss_rate - 0.1) < 5 * 0.3 / np.sqrt(group.rounds)
    widths = np.diff(np.array(shown), axis=1)[-500:, 0]
    heavy = X["load"].to_numpy()[-500:] > 0.5
    assert widths[heavy].mean() > 1.5 * widths[~heavy].mean()


def test_calibration_takes_features_and_clones_keep_them() -> None:
    X, y = _noise_that_grows(400)
    model = clone(IntervalRegressor(Ridge(), features=["load"], seed=1)).fit(X[:200], y[:200])
    model.calibrate(X[200:], y[200:])
    assert model.predictor_.rounds == 0
    assert model.get_params()["features"] == ["load"]


def test_a_column_that_is_not_there_is_named_with_the_remedy(names: Any) -> None:
    X, y = names
    model = SetClassifier(LogisticRegression(max_iter=5000), features=["load"]).fit(X[:300], y[:300])
    with pytest.raises(InvalidError, match=r"has no column 'load'; give features=\.\.\. beside it"):
        model.predict_set(X[:2])
    assert len(model.predict_set(X[:2], features=[[0.1], [None]])) == 2


def test_rounds_are_kept_for_those_who_want_to_see_them(names: Any) -> None:
    X, y = names
    model = SetClassifier(LogisticRegression(max_iter=5000), seed=1, history=2).fit(X[:300], y[:300])
    model.learn(model.predict_set(X[300:303]), y[300:303])
    assert model.predictor_.history()["round"].tolist() == [1.0, 2.0]


def test_a_regressor_is_told_that_it_has_no_labels(names: Any) -> None:
    X, y = names
    with pytest.raises(ScoreError, match=r"Ridge has no classes.*IntervalRegressor"):
        SetClassifier(Ridge()).fit(X[:50], y[:50])


def test_probabilities_that_rounding_takes_out_of_0_to_1_are_taken_back() -> None:
    model = SetClassifier(LogisticRegression(), alpha=0.1, seed=7).fit([[0], [1]], ["a", "b"])
    model.estimator_.predict_proba = lambda rows: np.tile([1 + 2**-52, -(2**-60)], (len(rows), 1))
    model.calibrate([[0]] * 3, ["a", "b", "a"])
    (shown,) = model.predict_set([[0]])
    assert "a" in shown


def test_a_regressor_without_a_scale_refuses_bare_answers_and_bandit_feedback() -> None:
    X, y = np.arange(20.0).reshape(-1, 1), np.arange(20.0)
    model = IntervalRegressor(LinearRegression(), seed=7).fit(X, y)
    with pytest.raises(FeedbackError, match=r"ScaledResiduals\(scale="):
        model.learn(model.predict_interval(X[:2]), [keyhole.HIT, keyhole.MISS])
    with pytest.raises(FeedbackError, match="bandit"):
        IntervalRegressor(LinearRegression(), feedback="bandit").fit(X, y)


def test_fitting_again_starts_a_predictor_that_is_not_calibrated(names: Any) -> None:
    X, y = names
    model = SetClassifier(LogisticRegression(C=0.01, max_iter=500), alpha=0.1, seed=7)
    fresh = model.fit(X[:150], y[:150]).predictor_.dump()
    model.calibrate(X[150:300], y[150:300])
    assert model.predictor_.dump() != fresh
    assert model.fit(X[:150], y[:150]).predictor_.dump() == fresh


def test_a_warm_start_keeps_the_predictor_through_a_new_fit(names: Any) -> None:
    X, y = names
    model = SetClassifier(LogisticRegression(C=0.01, max_iter=500), seed=7, warm_start=True)
    model.fit(X[:150], y[:150]).calibrate(X[150:400], y[150:400])
    waiting = model.predict_set(X[400:402])
    first, coefficients = model.predictor_, model.estimator_.coef_
    model.fit(X[:400], y[:400])
    assert model.predictor_ is first
    assert not np.array_equal(model.estimator_.coef_, coefficients)
    model.learn(waiting, y[400:402])
    assert first.rounds == 2


def test_a_warm_start_with_other_labels_is_refused_and_changes_nothing(names: Any) -> None:
    X, y = names
    model = SetClassifier(LogisticRegression(C=0.01, max_iter=500), warm_start=True)
    model.fit(X[:150], y[:150])
    kept = model.estimator_
    with pytest.raises(ScoreError, match=r"cannot go on; fit with warm_start=False, and calibrate"):
        model.fit(X[:150], y[:150] + 1)
    assert model.estimator_ is kept
    assert len(model.predict_set(X[:1])) == 1


def test_intervals_warm_start_too() -> None:
    X = np.arange(40.0).reshape(-1, 1)
    model = IntervalRegressor(LinearRegression(), warm_start=True).fit(X, X[:, 0])
    model.learn(model.predict_interval(X[:3]), [0.5, 1.5, 2.5])
    assert model.fit(X, 2 * X[:, 0]).predictor_.rounds == 3


def test_sets_have_at_least_and_at_most_so_many_labels(names: Any) -> None:
    X, y = names
    model = SetClassifier(LogisticRegression(C=0.01, max_iter=500), at_least=2, at_most=3, seed=7)
    model.fit(X[:150], y[:150]).calibrate(X[150:400], y[150:400])
    sizes = {len(one) for one in model.predict_set(X[400:700])}
    assert 2 in sizes
    assert sizes <= {2, 3}


def test_a_set_classifier_has_a_decision_function_where_its_estimator_has_one() -> None:
    assert hasattr(SetClassifier(LogisticRegression()), "decision_function")
    assert not hasattr(SetClassifier(GaussianNB()), "decision_function")


def test_a_column_before_the_first_or_past_the_last_is_refused() -> None:
    table = np.zeros((4, 2))
    for column in (-1, 2):
        model = SetClassifier(LogisticRegression(), groups=[column])
        with pytest.raises(InvalidError, match=str(column)):
            model.fit(table, [0, 1, 0, 1]).predict_set(table)

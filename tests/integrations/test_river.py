"""river's own checks pass, and its loops calibrate the sets."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from river import base, datasets, evaluate, linear_model, metrics, naive_bayes, preprocessing
from river.checks import yield_checks

import keyhole
from keyhole.errors import LabelError
from keyhole.integrations.river import OnlineIntervalRegressor, OnlineSetClassifier, _OpenRounds


def _checks() -> Iterator[Any]:
    for kind in (OnlineSetClassifier, OnlineIntervalRegressor):
        for parameters in kind._unit_test_params():
            model = kind(**parameters)
            for check in yield_checks(model):
                yield pytest.param(model, check, id=f"{model}-{check.__name__}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model", "check"), list(_checks()))
def test_conventions_of_river_are_kept(model: Any, check: Callable[[Any], None]) -> None:
    check(model.clone())


def _segments() -> OnlineSetClassifier:
    return OnlineSetClassifier(preprocessing.StandardScaler() | naive_bayes.GaussianNB(), alpha=0.1)


def test_sets_shown_and_then_learnt_count_once() -> None:
    model = _segments()
    for x, y in datasets.ImageSegments().take(1000):
        model.predict_set_one(x)
        model.learn_one(x, y)
    assert model.predictor.rounds == 999  # before the first label there was nothing to show
    assert model.predictor.open_rounds == 0
    assert abs(model.predictor.miss_rate - 0.1) < 0.05  # 5 standard errors of 0.0095


def test_progressive_validation_runs_and_calibrates_on_the_way() -> None:
    model = _segments()
    score = evaluate.progressive_val_score(
        datasets.ImageSegments().take(1000), model, metrics.Accuracy(), delay=5
    )
    assert score.get() > 0.5
    assert model.predictor.rounds > 950


def test_late_labels_answer_the_set_of_their_own_case() -> None:
    model = _segments()
    cases = list(datasets.ImageSegments().take(300))
    for x, y in cases[:200]:
        model.learn_one(x, y)
    shown = [model.predict_set_one(x) for x, _ in cases[200:]]
    before = model.predictor.miss_rate * model.predictor.rounds
    for x, y in reversed(cases[200:]):
        model.learn_one(dict(reversed(x.items())), y)
    missed = sum(y not in one for one, (_, y) in zip(shown, cases[200:], strict=True))
    assert model.predictor.open_rounds == 0
    assert model.predictor.miss_rate * model.predictor.rounds == pytest.approx(before + missed)


def test_a_hit_or_a_miss_teaches_the_sets_and_not_the_model() -> None:
    model = _segments()
    cases = list(datasets.ImageSegments().take(50))
    for x, y in cases:
        model.learn_one(x, y)
    chances = model.predict_proba_one(cases[0][0])
    model.learn_one(cases[0][0], keyhole.MISS)
    assert model.predict_proba_one(cases[0][0]) == chances
    assert model.predictor.rounds == 50


def test_nothing_is_shown_before_the_first_label() -> None:
    model = _segments()
    assert model.predict_set_one({"a": 1.0}).labels == ()
    assert model.predictor.open_rounds == 0


def test_unanswered_cases_are_forgotten_as_the_predictor_forgets_them() -> None:
    model = OnlineIntervalRegressor(linear_model.LinearRegression())
    for n in range(10_050):
        model.predict_interval_one({"a": float(n)})
    assert model.predictor.open_rounds == 10_000
    model.learn_one({"a": 0.0}, 1.0)  # its round has expired: another one is played
    assert model.predictor.rounds == 1


def test_features_and_groups_are_entries_of_the_case() -> None:
    model = OnlineIntervalRegressor(
        preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1),
        features=["gallup", "rasmussen"],
        groups=["late"],
    )
    plain = keyhole.Predictor(alpha=0.1, score=keyhole.ScaledResiduals(), features=2, groups=1, seed=0)
    for n, (x, y) in enumerate(datasets.TrumpApproval().take(300)):
        case = {**x, "late": n >= 200}
        centre = model.predict_one(case)
        known = [x["gallup"], x["rasmussen"]]
        expected = plain.predict(centre, features=known, groups=[0] if n >= 200 else [])
        shown = model.predict_interval_one(case)
        assert (shown.lower, shown.upper) == (expected.lower, expected.upper)
        plain.learn(expected, label=y)
        model.learn_one(case, y)
    assert model.predictor.groups["late"].rounds == 100


def test_an_entry_that_a_case_lacks_is_missing() -> None:
    model = OnlineSetClassifier(naive_bayes.GaussianNB(), features=["age"], groups=["new"])
    model.learn_one({"x": 1.0, "age": 3.0, "new": True}, "a")
    model.learn_one({"x": 2.0, "age": 4.0}, "b")
    model.learn_one({"x": 3.0}, "a")
    assert model.predictor.groups["new"].rounds == 0  # before the first label there was no round
    assert model.predictor.rounds == 2


def test_rounds_are_kept_for_those_who_want_to_see_them() -> None:
    model = OnlineSetClassifier(naive_bayes.GaussianNB(), history=1)
    for label in ("a", "b", "a"):
        model.learn_one({"x": 1.0}, label)
    assert model.predictor.history()["round"].tolist() == [1.0]


@pytest.mark.parametrize("kind", ["sets", "intervals"])
def test_history_calibrates_model_and_predictor_and_no_round_is_counted(kind: str) -> None:
    inner: Any = preprocessing.StandardScaler() | (
        linear_model.LogisticRegression() if kind == "sets" else linear_model.LinearRegression()
    )
    data = list((datasets.Phishing() if kind == "sets" else datasets.TrumpApproval()).take(400))
    wrapper: Any = OnlineSetClassifier if kind == "sets" else OnlineIntervalRegressor
    model = wrapper(inner.clone(), alpha=0.1)
    assert model.calibrate(data) is model
    assert (model.predictor.rounds, model.predictor.predicted_rounds) == (0, 0)
    # The same by hand: what the model said before it learnt, and the truth.
    plain = keyhole.Predictor(alpha=0.1, score=model.predictor.setup.score, seed=0)
    twin, outputs, labels = wrapper(inner.clone(), alpha=0.1), [], []
    for x, y in data:
        output = twin._output(x, {})
        if output is not None:
            outputs.append(output)
            labels.append(y)
        twin._wrapped_model.learn_one(x, y)
    plain.calibrate(outputs, labels)
    assert plain.dump() == model.predictor.dump()
    assert model.predict_one(data[0][0]) == twin.predict_one(data[0][0])


def test_history_without_a_truth_is_refused_before_the_model_learns_from_it() -> None:
    model = OnlineIntervalRegressor(linear_model.LinearRegression(), alpha=0.1)
    with pytest.raises(LabelError, match="nan does not say what was true; leave the case out"):
        model.calibrate([({"x": 1.0}, math.nan)])
    assert model._wrapped_model.weights == {}


def test_features_and_groups_of_history_are_entries_of_its_cases() -> None:
    model = OnlineIntervalRegressor(linear_model.LinearRegression(), features=["a"], groups=["b"])
    model.calibrate([({"a": float(n), "b": n % 2 == 0}, float(n)) for n in range(20)])
    assert model.predictor.rounds == 0


@pytest.mark.parametrize("answer", [keyhole.HIT, keyhole.MISS])
def test_a_bare_answer_before_any_value_is_refused_with_the_remedy(answer: Any) -> None:
    model = OnlineIntervalRegressor(linear_model.LinearRegression())
    model.predict_interval_one({"a": 1.0})
    with pytest.raises(keyhole.errors.FeedbackError, match=r"ScaledResiduals\(scale="):
        model.learn_one({"a": 1.0}, answer)
    with pytest.raises(keyhole.errors.FeedbackError, match="bandit"):
        OnlineIntervalRegressor(linear_model.LinearRegression(), feedback="bandit")


@pytest.mark.parametrize("answer", [keyhole.HIT, None, float("nan"), "text"])
def test_a_round_whose_answer_is_refused_waits_for_the_next_one(answer: Any) -> None:
    """Kills: the truth that follows counted for a round that nobody was shown."""
    model = OnlineIntervalRegressor(linear_model.LinearRegression(), alpha=0.1)
    shown = [model.predict_interval_one({"a": 1.0}) for _ in range(2)]
    with pytest.raises(keyhole.errors.KeyholeError):
        model.learn_one({"a": 1.0}, answer)
    assert (model.predictor.predicted_rounds, model.predictor.open_rounds) == (2, 2)
    model.learn_one({"a": 1.0}, 2.0)
    with pytest.raises(keyhole.errors.AnsweredError):
        model.predictor.learn(shown[0], label=2.0)
    model.learn_one({"a": 1.0}, 2.5)
    assert (model.predictor.rounds, model.predictor.open_rounds) == (2, 0)


def test_a_round_that_nobody_was_shown_does_not_wait_where_its_answer_is_refused() -> None:
    model = OnlineIntervalRegressor(linear_model.LinearRegression(), alpha=0.1)
    with pytest.raises(keyhole.errors.ScoreError):
        model.learn_one({"a": 1.0}, float("nan"))
    assert (model.predictor.open_rounds, model.predictor.skipped_rounds) == (0, 1)
    model.learn_one({"a": 1.0}, 2.0)
    assert model.predictor.rounds == 1


def test_so_many_cases_wait_as_may_and_one_that_is_answered_makes_room_for_one() -> None:
    waiting = _OpenRounds(2)
    for number in range(3):
        waiting.put({"x": number}, number)
    assert [waiting.take({"x": number}) for number in (0, 1)] == [None, 1]
    waiting.put({"x": 3}, 3)
    waiting.put({"x": 4}, 4)
    assert [waiting.take({"x": number}) for number in (2, 3, 4)] == [None, 3, 4]


def test_probabilities_that_rounding_took_past_their_ends_are_brought_back() -> None:
    class Sure(base.Classifier):  # type: ignore[misc]
        def learn_one(self, x: Any, y: Any) -> None: ...

        def predict_proba_one(self, _: Any) -> dict[str, float]:
            return {"yes": 1.0 + 1e-9, "no": -1e-9}

    model = OnlineSetClassifier(Sure(), alpha=0.1)
    assert "yes" in model.predict_set_one({"x": 1.0})

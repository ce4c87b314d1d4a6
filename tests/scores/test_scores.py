import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyhole import Predictor, Probabilities, ScaledResiduals
from keyhole.errors import InvalidError, LabelError, ScoreError
from keyhole.scores import (
    BoundedResiduals,
    CustomIntervals,
    CustomScores,
    Decision,
    Interval,
    LabelSet,
    dump,
    load,
)

unit = st.floats(0.0, 1.0)
PROBABILITIES = st.lists(unit, min_size=1, max_size=30)


def test_power_of_the_paper_is_a_cube_root() -> None:
    case = Probabilities(power=1 / 3).read({"cat": 0.125, "dog": 0.001})
    assert case.score("cat") == pytest.approx(0.5)
    assert case.region(0, threshold=0.11).labels == ("cat",)


def test_arrays_give_places_and_names_if_there_are_any() -> None:
    scores = np.array([0.1, 0.9, 0.5])
    assert Probabilities().read(scores).region(0, threshold=0.4).labels == (1, 2)
    named = Probabilities(labels=["a", "b", "c"]).read(scores)
    assert named.region(0, threshold=0.4).labels == ("b", "c")


@given(PROBABILITIES, st.floats(-0.5, 1.5))
def test_label_is_in_the_set_exactly_if_its_score_reaches_the_threshold(
    values: list[float], threshold: float
) -> None:
    case = Probabilities(power=0.5).read(values)
    region = case.region(3, threshold=threshold)
    assert set(region) == {k for k in range(len(values)) if case.score(k) >= threshold}
    assert (region.id, region.threshold, region.size) == (3, threshold, len(region))


@given(PROBABILITIES)
def test_labels_come_most_plausible_first(values: list[float]) -> None:
    case = Probabilities().read(values)
    shown = [case.score(label) for label in case.region(0, threshold=0.0)]
    assert shown == sorted(values, reverse=True)


@given(PROBABILITIES)
def test_threshold_zero_is_every_label_and_above_one_none(values: list[float]) -> None:
    case = Probabilities().read(values)
    assert len(case.region(0, threshold=0.0)) == len(values)
    assert len(case.region(0, threshold=1.0 + 1e-9)) == 0


def test_caller_may_change_the_array_afterwards() -> None:
    scores = np.array([0.9, 0.1])
    case = Probabilities().read(scores)
    scores[:] = 0.0
    assert case.score(0) == 0.9


UNHASHABLE: Any = [["a"]]
RESIDUALS = [BoundedResiduals(bound=18.5), ScaledResiduals(scale=3.0)]


@pytest.mark.parametrize("kind", RESIDUALS)
@given(centre=st.floats(-1e4, 1e4), residual=st.floats(0.0, 18.0), threshold=st.floats(0.001, 1.0))
def test_interval_is_the_inverse_of_the_score(
    kind: Any, centre: float, residual: float, threshold: float
) -> None:
    case = kind.read(centre)
    if abs(case.score(centre + residual) - threshold) < 1e-6:
        return  # Rounding decides on the edge itself.
    inside = centre + residual in case.region(0, threshold=threshold)
    assert inside == (case.score(centre + residual) >= threshold)


def test_paper_score_is_one_minus_residual_over_bound() -> None:
    case = BoundedResiduals(bound=18.5).read(120.0)
    assert case.score(120.0 + 4.625) == pytest.approx(0.75)
    assert case.region(0, threshold=0.75) == Interval(0, 0.75, 120.0 - 4.625, 120.0 + 4.625)


def test_residual_beyond_the_bound_scores_below_every_threshold() -> None:
    case = BoundedResiduals(bound=18.5).read(120.0)
    assert case.score(139.0) < 0.0
    assert 139.0 not in case.region(0, threshold=0.0)


def test_scale_is_the_residual_that_scores_one_half() -> None:
    case = ScaledResiduals(scale=3.0).read(10.0)
    assert case.score(13.0) == 0.5
    assert case.region(0, threshold=0.0).width == math.inf


@pytest.mark.parametrize("kind", RESIDUALS)
def test_interval_above_threshold_one_is_empty_and_below_zero_the_largest(kind: Any) -> None:
    case = kind.read(10.0)
    assert case.region(0, threshold=1.01).width == 0.0
    assert 10.0 not in case.region(0, threshold=1.01)
    assert case.region(0, threshold=-0.3).width == case.region(0, threshold=0.0).width


def test_own_function_over_labels() -> None:
    kind = CustomScores(lambda n, name: 1 / (1 + abs(n - len(name))), ["ox", "horse", "cow"])
    assert kind.read(2).region(0, threshold=0.5).labels == ("ox", "cow")


def test_own_function_must_score_within_the_unit_interval() -> None:
    with pytest.raises(ScoreError, match=r"score 2.0 at place 1"):
        CustomScores(lambda _, k: float(k), [0, 2]).read(None)


def test_own_interval_beside_its_score() -> None:
    kind = CustomIntervals(
        lambda floor, y: min(1.0, max(0.0, 1 - (y - floor) / 10)),
        lambda floor, threshold: (floor, floor + 10 * (1 - threshold)),
    )
    case = kind.read(3.0)
    assert case.region(0, threshold=0.5).upper == 8.0
    assert case.score(8.0) == 0.5
    assert case.region(0, threshold=2.0).width == 0.0
    assert kind.unpack(*case.pack()).score(8.0) == 0.5


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: Probabilities(power=0.0), ScoreError, "power 0.0"),
        (lambda: Probabilities(labels=["a", "b", "a"]), LabelError, "label 'a' is there twice"),
        (lambda: Probabilities(labels=[]), LabelError, "no labels"),
        (lambda: CustomScores(lambda _, __: 1.0, [1, 1]), LabelError, "label 1 is there twice"),
        (lambda: Probabilities(labels=UNHASHABLE), LabelError, r"label \['a'\] cannot be looked up"),
        (lambda: BoundedResiduals(bound=1.0).read(10**400), ScoreError, "predicted centre 1000"),
        (lambda: Probabilities(labels=["a"]).read([0.1, 0.2]), ScoreError, "2 scores came for 1"),
        (lambda: BoundedResiduals(bound=0.0), InvalidError, "residual bound 0.0"),
        (lambda: BoundedResiduals(bound=math.inf), InvalidError, "residual bound inf"),
        (lambda: ScaledResiduals(scale=-1.0), InvalidError, "residual scale -1.0"),
        (lambda: BoundedResiduals(bound=1.0).read(math.nan), ScoreError, "predicted centre nan"),
        (lambda: BoundedResiduals(bound=1.0).read(1.0).score("x"), ScoreError, "true value 'x'"),
        (lambda: Probabilities().read([0.5]).score(1), LabelError, "label 1 is not one of"),
    ],
)
def test_bad_input_is_named(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


@pytest.mark.parametrize("kind", [*RESIDUALS, Probabilities(power=0.5, labels=["a", ("b", 1)])])
def test_score_kind_is_rebuilt_from_what_it_dumps(kind: Any) -> None:
    assert load(dump(kind)) == kind


def test_a_score_of_ones_own_can_be_called() -> None:
    with pytest.raises(ScoreError, match="function 3 cannot be called"):
        CustomScores(3, ["a"])  # type: ignore[arg-type]
    with pytest.raises(ScoreError, match=r"interval 0\.5 cannot be called"):
        CustomIntervals(lambda _output, _value: 0.5, 0.5)  # type: ignore[arg-type]


_MANY = {f"label {n}": 0.5 for n in range(100)}


@pytest.mark.parametrize(
    "output",
    [
        {"cat": "0.5", "dog": 0.25},
        [0.25, "0.5"],
        np.array(["0.5", "0.5"]),
        np.array([0.25, "0.5"], dtype=object),
        {**_MANY, "cat": "0.5"},
        [b"0.5"],
    ],
)
def test_text_is_no_score_even_where_it_spells_one(output: Any) -> None:
    predictor = Predictor(alpha=0.1)
    with pytest.raises(ScoreError, match=r"0\.5' is text"):
        predictor.predict(output)
    assert predictor.open_rounds == 0


def test_text_in_a_table_of_scores_is_refused() -> None:
    with pytest.raises(ScoreError, match=r"'0\.5' is text"):
        Predictor(alpha=0.1).predict_batch(np.array([["0.5", "0.25"]]))


def test_what_has_no_order_is_no_score() -> None:
    with pytest.raises(ScoreError, match="not numbers"):
        Predictor(alpha=0.1).predict(np.array([0.5 + 0.25j]))


def test_many_scores_of_a_dict_are_read_as_they_are() -> None:
    scores = {f"label {n}": n / 128 for n in range(128)}
    assert list(Probabilities().read(scores).scores) == list(scores.values())


def test_a_missing_score_is_not_to_be_rescaled() -> None:
    with pytest.raises(ScoreError, match="fill it") as caught:
        Probabilities().read([0.5, math.nan])
    assert "softmax" not in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, "51", None])
def test_what_is_no_number_is_neither_in_an_interval_nor_outside_it(value: Any) -> None:
    with pytest.raises(ScoreError, match="neither inside nor outside"):
        _ = value in Interval(0, 0.5, 48.0, 52.0)


def test_an_array_for_a_number_is_told_so() -> None:
    with pytest.raises(ScoreError, match="give one of its numbers"):
        Predictor(alpha=0.1, score=ScaledResiduals()).predict(np.array([1.0]))


@pytest.mark.parametrize(
    "shown",
    [
        LabelSet(3, 0.5, ("a",), 4),
        Interval(3, 0.5, 1.0, 2.0),
        Decision(3, 0.5, 0.7, "a"),
        Probabilities().read({"a": 0.7}).region(3, 0.5),
        ScaledResiduals(scale=0.5).read(1.0).region(3, 0.5),
    ],
)
def test_what_was_shown_cannot_be_changed_and_is_the_same_after_pickling(shown: Any) -> None:
    with pytest.raises(AttributeError, match="cannot assign to field 'threshold'"):
        shown.threshold = 0.0
    again = pickle.loads(pickle.dumps(shown))  # noqa: S301
    assert (again, hash(again), again.size) == (shown, hash(shown), 1.0)
    assert copy.deepcopy(shown) == shown

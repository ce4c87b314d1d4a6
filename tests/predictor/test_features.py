"""Features and groups through the public door: names, batches, groups' numbers, save and load."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keyhole import HIT, MISS, Predictor, Probabilities, ScaledResiduals, make, simulate
from keyhole.errors import FeedbackError, InvalidError, ScoreError
from keyhole.predictor.context import Known, read_context, show_context
from keyhole.predictor.setup import Setup
from keyhole.simulation import Channel


def forecaster(**given: Any) -> "Predictor[Any]":
    return Predictor(
        alpha=0.1, features=["hour", "load"], groups=["weekend", "holiday"], seed=1, **given
    )


def test_features_or_groups_make_the_contextual_tracker_the_default() -> None:
    assert Predictor(alpha=0.1).learner.name == "informed-tracker"
    assert Predictor(alpha=0.1, features=2).learner.name == "contextual-tracker"
    assert Predictor(alpha=0.1, groups=["weekend"]).learner.name == "contextual-tracker"
    assert Predictor("mvp", alpha=0.1, groups=["weekend"]).learner.groups == 1


def test_a_learner_that_takes_no_features_is_refused_by_name() -> None:
    with pytest.raises(InvalidError, match="logit-tracker has no parameter 'features'"):
        Predictor("logit-tracker", alpha=0.1, features=2)
    with pytest.raises(InvalidError, match="comes with 0 features, not 2"):
        Predictor(make("logit-tracker", alpha=0.1), features=2)


def test_names_and_arrays_say_the_same() -> None:
    named, counted = forecaster(), Predictor(alpha=0.1, features=2, groups=2, seed=1)
    rng = np.random.default_rng(0)
    for hour, load in rng.random((300, 2)):
        first = named.predict([0.6], features={"load": load, "hour": hour}, groups=["holiday"])
        second = counted.predict([0.6], features=[hour, load], groups=[1])
        assert first.threshold == second.threshold
        missed = load > 0.9
        named.learn(first, MISS if missed else HIT)
        counted.learn(second, MISS if missed else HIT)


def test_what_is_left_out_none_and_nan_are_missing_alike() -> None:
    told: list[Any] = [
        {"hour": 3.0},
        {"hour": 3.0, "load": None},
        {"hour": 3.0, "load": math.nan},
        [3.0, None],
    ]
    dumps = []
    for features in told:
        predictor = forecaster()
        predictor.learn(predictor.predict([0.6], features=features), MISS)
        dumps.append(predictor.dump())
    assert len(set(dumps)) == 1
    predictor = forecaster()
    predictor.learn(predictor.predict([0.6]), MISS)
    assert predictor.dump() != dumps[0]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"features": {"houre": 3}}, "there is no feature 'houre'; did you mean 'hour'?"),
        ({"features": {"xyz": 3}}, "there is no feature 'xyz'; there are 'hour', 'load'"),
        ({"features": [1.0]}, r"features have shape \(1,\); contextual-tracker takes 2"),
        ({"features": {"hour": "seven"}}, "feature 'seven' is not a number; encode it"),
        ({"groups": ["weekends"]}, "there is no group 'weekends'; did you mean 'weekend'?"),
        ({"groups": [2]}, "there is no group 2; there are 'weekend', 'holiday'"),
        ({"groups": "weekend"}, r"are not a list; give \['weekend'\]"),
    ],
)
def test_a_context_that_is_not_one_is_refused_and_nothing_changes(
    given: dict[str, Any], match: str
) -> None:
    predictor = forecaster()
    before = predictor.dump()
    with pytest.raises(InvalidError, match=match):
        predictor.predict([0.6], **given)
    assert predictor.dump() == before


@pytest.mark.parametrize(
    ("features", "match"),
    [("hour", r"try \['hour'\]"), (["a", "a"], "'a' is twice"), ([""], "'' does not name"), (-1, "-1")],
)
def test_names_are_checked(features: Any, match: str) -> None:
    with pytest.raises(InvalidError, match=match):
        Predictor(alpha=0.1, features=features)


def test_a_learner_without_context_refuses_features_and_groups() -> None:
    predictor = Predictor(alpha=0.1)
    with pytest.raises(InvalidError, match="takes 0 of them"):
        predictor.predict([0.6], features=[1.0])
    with pytest.raises(InvalidError, match="tells 0 groups apart"):
        predictor.predict([0.6], groups=[0])


def test_a_batch_is_its_cases_one_by_one() -> None:
    hours, loads = [1.0, 13.0, 23.0], [0.2, None, 0.9]
    groups = [["weekend"], [], ["weekend", "holiday"]]
    rows = [{"hour": hour, "load": load} for hour, load in zip(hours, loads, strict=True)]
    one_by_one, by_row, by_column = forecaster(), forecaster(), forecaster()
    for row, own in zip(rows, groups, strict=True):
        one_by_one.predict([0.6], features=row, groups=own)
    by_row.predict_batch([[0.6]] * 3, features=rows, groups=groups)
    by_column.predict_batch([[0.6]] * 3, features={"hour": hours, "load": loads}, groups=groups)
    assert one_by_one.dump() == by_row.dump() == by_column.dump()
    with pytest.raises(InvalidError, match="groups are given for 1 cases, outputs for 3"):
        by_row.predict_batch([[0.6]] * 3, groups=[["weekend"]])


@pytest.mark.parametrize("learner", [None, "mvp"])
def test_groups_tell_rounds_misses_excess_and_bound(learner: str | None) -> None:
    predictor: Predictor[Any] = Predictor(learner, alpha=0.1, groups=["weekend", "holiday"], seed=1)
    for n in range(10):
        own = (["weekend"] if n < 6 else []) + (["holiday"] if n % 2 else [])
        predictor.learn(predictor.predict([1.0], groups=own), MISS if n < 2 else HIT)
    weekend, holiday = predictor.groups["weekend"], predictor.groups["holiday"]
    assert (weekend.rounds, weekend.misses) == (6, 2.0)
    assert (holiday.rounds, holiday.misses) == (5, 1.0)
    assert weekend.excess == pytest.approx(2.0 - 0.6)
    assert weekend.miss_rate == pytest.approx(1 / 3)
    assert weekend.bound == (pytest.approx((-0.6, 5.4)) if learner is None else None)


def test_predictor_and_simulation_agree_on_features_and_groups() -> None:
    rng = np.random.default_rng(6)
    scores, features, groups = rng.beta(6, 2, 400), rng.random((400, 2)), rng.random((400, 2)) < 0.4
    predictor = forecaster(feedback="bandit")
    played = []
    for score, row, own in zip(scores, features, groups, strict=True):
        shown = predictor.predict([score], features=row, groups=np.flatnonzero(own).tolist())
        played.append(shown.threshold)
        predictor.learn(shown, HIT if len(shown) else MISS)
    run = simulate(predictor.learner, scores, features=features, groups=groups, feedback="bandit")
    assert run.thresholds[0].tolist() == played
    assert [group.misses for group in predictor.groups.values()] == [
        run.misses[0, groups[:, g]].sum() for g in range(2)
    ]


def test_save_and_load_keep_names_open_groups_and_numbers(tmp_path: Path) -> None:
    original = forecaster()
    waiting = original.predict([0.6], features={"hour": 7}, groups=["holiday"])
    for n in range(150):
        shown = original.predict([0.6], features={"hour": n % 24}, groups=["weekend"] * (n % 7 > 4))
        original.learn(shown, MISS if n % 9 == 0 else HIT)
    original.save(tmp_path / "predictor")
    loaded: Predictor[Any] = Predictor.load(tmp_path / "predictor")
    assert loaded.groups == original.groups
    for predictor in (original, loaded):
        predictor.learn(waiting.id, MISS)
        predictor.predict([0.6], features={"load": 0.5}, groups=["weekend"])
    assert loaded.groups["holiday"].misses == 1.0
    assert loaded.dump() == original.dump()


def test_setup_holds_the_names_as_json_both_ways() -> None:
    setup = forecaster().setup
    again: Setup = Setup.load(setup.dump())
    assert again.names == setup.names == (("hour", "load"), ("weekend", "holiday"))
    older = {key: value for key, value in setup.dump().items() if key not in ("features", "groups")}
    assert Setup.load(older).names == ((), ())


def test_size_weight_hears_what_its_intervals_cost() -> None:
    """Kills: a cost of 0. Where the spread is told, weighing size gives shorter intervals."""
    rng = np.random.default_rng(2)
    sizes = []
    for weight in (0.0, 1.0):
        learner = make("contextual-tracker", alpha=0.1, options={"features": 1, "size_weight": weight})
        predictor: Predictor[Any] = Predictor(learner, score=ScaledResiduals(scale=1.0))
        for x in rng.random(4_000):
            shown = predictor.predict(0.0, features=[x])
            truth = (0.2 + 4.0 * (x > 0.8)) * rng.standard_normal()
            predictor.learn(shown, label=truth)
        assert abs(predictor.miss_rate - 0.1) < 0.01
        sizes.append(predictor.mean_size)
    assert sizes[1] < 0.95 * sizes[0]


def test_size_weight_refuses_a_hit_without_its_label() -> None:
    learner = make("contextual-tracker", alpha=0.1, options={"size_weight": 0.5})
    with pytest.raises(FeedbackError, match="label if hit"):
        Predictor(learner, feedback="bandit")


def test_late_answers_are_noted_in_a_plain_sentence_and_prompt_ones_are_not() -> None:
    prompt, late = Predictor(alpha=0.1), Predictor(alpha=0.1)
    for _ in range(3):
        shown = late.predict_batch([[1.0]] * 200)
        late.learn_batch(shown, [HIT] * 200)
    for _ in range(300):
        prompt.learn(prompt.predict([1.0]), HIT)
    assert prompt.notes == []
    (note,) = late.notes
    # A batch of 200, answered in order: each is 200 behind in answers and predictions together.
    assert "about 199 rounds pass" in note
    assert "Sets must be larger" in note
    assert note in late._repr_html_()
    again: Predictor[Any] = Predictor.restore(late.dump())
    assert again.notes == late.notes


def test_a_notebook_shows_the_miss_rate_of_every_group() -> None:
    predictor: Predictor[Any] = Predictor(alpha=0.1, groups=["<old>", "new"], seed=7)
    predictor.learn(predictor.predict([0.7, 0.3], groups=["<old>"]), MISS)
    shown = predictor._repr_html_()
    assert "<td>miss rate, &lt;old&gt;</td><td>1.0000</td>" in shown
    assert "<td>miss rate, new</td><td>-</td>" in shown


def test_groups_under_late_answers_keep_a_bound_while_no_guards_conflict() -> None:
    rng = np.random.default_rng(6)
    learner = make("contextual-tracker", alpha=0.1, options={"groups": 1})
    predictor: Predictor[Any] = Predictor(learner)
    for _ in range(80):
        shown = predictor.predict_batch([[1.0]] * 50, groups=[[0]] * 50)
        predictor.learn_batch(shown, [MISS if one else HIT for one in rng.random(50) < 0.1])
    group = predictor.groups[0]
    assert group.bound == (-150.0 - 3 * 49 - 1.0, 150.0 + 3 * 49 + 1.0)
    assert abs(group.excess) <= group.bound.most


def test_simulated_groups_with_late_answers_play(recwarn: pytest.WarningsRecorder) -> None:
    learner = make("mvp", alpha=0.1, options={"groups": 2})
    members = np.random.default_rng(1).random((500, 2)) < 0.5
    run = simulate(learner, np.full(500, 0.7), groups=members, channel=Channel(delay=20))
    assert run.thresholds.shape == (1, 500)
    assert not recwarn


@pytest.mark.parametrize(
    ("made", "given", "shown"),
    [
        ({"groups": ["old"]}, {"groups": ["old"]}, Known(None, ("old",))),
        ({"groups": ["old"]}, {}, Known(None, ())),
        ({"groups": 3}, {"groups": [2, 0]}, Known(None, (0, 2))),
        ({"features": ["hour"]}, {"features": {"hour": 7}}, Known({"hour": 7.0}, ())),
        ({"features": ["hour"]}, {}, Known({"hour": None}, ())),
        ({"features": 2}, {"features": [None, 1.5]}, Known([None, 1.5], ())),
        (
            {"features": ["hour", "load"], "groups": ["old", "new"]},
            {"features": {"load": 0.5}, "groups": ["new"]},
            Known({"hour": None, "load": 0.5}, ("new",)),
        ),
    ],
)
def test_what_was_known_of_a_case_is_shown_as_it_was_told(
    made: dict[str, Any], given: dict[str, Any], shown: Known
) -> None:
    setup = Predictor(alpha=0.1, **made).setup
    context = read_context(setup, **given)
    assert show_context(setup, context) == shown


def test_of_a_case_of_a_learner_without_context_nothing_is_known() -> None:
    setup = Predictor(alpha=0.1).setup
    assert show_context(setup, read_context(setup)) == Known()


@pytest.mark.parametrize("features", [3, {"hour": 7}, {"hour": [7, 8]}])
def test_features_of_a_batch_are_one_for_each_case(features: Any) -> None:
    predictor = Predictor(alpha=0.1, features=["hour"], groups=["weekend"])
    with pytest.raises(InvalidError, match="case"):
        predictor.predict_batch([[0.7, 0.3]], features=features)
    with pytest.raises(InvalidError, match="groups 3 are not one for each of 1 cases"):
        predictor.predict_batch([[0.7, 0.3]], groups=3)  # type: ignore[arg-type]
    assert predictor.open_rounds == 0


def test_a_number_that_counts_nothing_is_no_name() -> None:
    with pytest.raises(InvalidError, match="features -1 are neither names nor how many; try 2"):
        Predictor(alpha=0.1, features=-1)
    with pytest.raises(InvalidError, match=r"groups 'weekend' are neither .*; try \['weekend'\]"):
        Predictor(alpha=0.1, groups="weekend")


def test_a_score_is_made_before_it_is_given() -> None:
    with pytest.raises(ScoreError, match=r"try keyhole\.Probabilities\(\)"):
        Predictor(alpha=0.1, score=Probabilities)  # type: ignore[arg-type]


def test_groups_by_true_and_false_are_not_taken_for_a_list_of_all() -> None:
    predictor = Predictor(alpha=0.1, groups=["weekend", "holiday"])
    with pytest.raises(InvalidError, match="give the names of those it is in"):
        predictor.predict([0.7, 0.3], groups={"weekend": False, "holiday": True})


def test_features_may_come_from_a_generator() -> None:
    predictor, hour, named = forecaster(), iter([7.0, 1.0]), iter(["seven", 1.0])
    shown = predictor.predict([0.7, 0.3], features=hour)  # type: ignore[arg-type]
    assert shown.threshold == forecaster().predict([0.7, 0.3], features=[7.0, 1.0]).threshold
    with pytest.raises(InvalidError, match="feature 'seven' is not a number"):
        predictor.predict([0.7, 0.3], features=named)  # type: ignore[arg-type]

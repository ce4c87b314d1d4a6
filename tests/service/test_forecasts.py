"""Forecasts through the service: bands, one side, no scale, limits on sets; and what it says."""

from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import keyhole
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from tests.service.scene import answered, made, predicted

DEFAULT: dict[str, Any] = {"learner": None, "horizon": None}


def asked(http: TestClient, body: dict[str, Any]) -> Any:
    response = http.post("/v1/streams/pets/predictions", json=body)
    assert response.status_code == 201, response.text
    return response.json()


@pytest.mark.parametrize(
    ("settings", "score"),
    [
        ({"kind": "band"}, keyhole.QuantileBands()),
        ({"kind": "interval"}, keyhole.ScaledResiduals()),
        ({"side": "upper"}, keyhole.ScaledResiduals(side="upper")),
        ({"side": "lower", "scale": 3.0}, keyhole.ScaledResiduals(scale=3.0, side="lower")),
        ({"bound": 30.0}, keyhole.scores.BoundedResiduals(bound=30.0)),
    ],
)
def test_a_stream_of_forecasts_makes_the_intervals_of_the_predictor(
    one: TestClient, light: Database, settings: dict[str, Any], score: Any
) -> None:
    made(one, **DEFAULT, **settings)
    predictor: keyhole.Predictor[keyhole.scores.Interval] = keyhole.Predictor(alpha=0.1, score=score)
    rng = np.random.default_rng(1)
    for _ in range(60):
        guess, value = float(rng.normal(50.0, 5.0)), float(rng.normal(50.0, 8.0))
        band = settings.get("kind") == "band"
        ours = predictor.predict((guess - 4.0, guess + 4.0) if band else guess)
        theirs = asked(one, {"lower": guess - 4.0, "upper": guess + 4.0} if band else {"centre": guess})
        ends = [None if np.isinf(end) else end for end in (ours.lower, ours.upper)]
        assert theirs["interval"] == (None if ours.lower > ours.upper else ends)
        predictor.learn(ours, label=value)
        answered(one, theirs, label=value).raise_for_status()
    stands = one.get("/v1/streams/pets").json()
    shares = (stands["median_size"], stands["unbounded_share"])
    wanted = (predictor.median_size, predictor.unbounded_share)
    assert shares == pytest.approx(tuple(None if np.isnan(one) else one for one in wanted))
    assert stands["kind"] == settings.get("kind", "interval")
    assert replay.replay(light, "pets").difference is None


@pytest.mark.parametrize("settings", [{"kind": "interval"}, {"scale": 5.0}])
def test_a_stream_answered_in_batches_makes_the_intervals_of_the_predictor_and_replays(
    one: TestClient, light: Database, settings: dict[str, Any]
) -> None:
    """The second batch is as wide as the first one's truths say: see tests/predictor/test_scale.py."""
    made(one, **{**DEFAULT, "learner": "informed-tracker"}, **settings)
    score = keyhole.ScaledResiduals(scale=settings.get("scale"))
    predictor = keyhole.Predictor("informed-tracker", alpha=0.1, score=score)
    rng = np.random.default_rng(2)
    for _ in range(3):
        truths = rng.normal(50.0, 5.0, 24).tolist()
        theirs = [asked(one, {"centre": 50.0}) for _ in truths]
        ours = predictor.predict_batch([50.0] * 24)
        ends = [None if np.isinf(end) else end for end in (ours[0].lower, ours[0].upper)]
        assert [their["interval"] for their in theirs] == [ends] * 24
        predictor.learn_batch(ours, truths)
        for their, truth in zip(theirs, truths, strict=True):
            answered(one, their, label=truth).raise_for_status()
    assert 10.0 < ours[0].width < 30.0  # The right one is 16.4.
    assert replay.replay(light, "pets").difference is None


def test_a_bare_hit_of_the_whole_line_and_bandit_feedback_without_a_scale_are_refused(
    one: TestClient,
) -> None:
    made(one, **DEFAULT, kind="interval")
    response = answered(one, asked(one, {"centre": 0.0}), hit=True)
    assert response.status_code == 422
    assert "ScaledResiduals(scale=" in response.text
    body = {"name": "bare", "alpha": 0.1, "kind": "interval", "feedback": "bandit"}
    refused = one.post("/v1/streams", json=body)
    assert refused.status_code == 422
    assert "bandit" in refused.text


def test_one_unbounded_interval_leaves_the_mean_of_the_others(one: TestClient) -> None:
    made(one, **DEFAULT, kind="interval")
    for value in (1.0, 2.0, 3.0, 2.0, 1.0):
        answered(one, asked(one, {"centre": 0.0}), label=value)
    stands = one.get("/v1/streams/pets").json()
    assert stands["unbounded_share"] == 0.2
    assert stands["mean_size"] > 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "band", "scale": 1.0}, "scale is for streams of kind 'interval'"),
        ({"kind": "labels", "bound": 1.0}, "bound is for streams of kind 'interval'"),
        ({"kind": "interval", "labels": ["a"]}, "labels is for streams of kind 'labels'"),
        ({"bound": 1.0, "side": "upper"}, "bound and side exclude each other"),
        ({"scale": 1.0, "power": 2.0}, "power is for streams of kind 'labels'"),
        ({"at_least": 3, "at_most": 2}, "at_most 2 is not a whole number from 3"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    one: TestClient, settings: dict[str, Any], message: str
) -> None:
    response = one.post("/v1/streams", json={"name": "a", "alpha": 0.1, **settings})
    assert response.status_code == 422
    assert message in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("settings", "body", "message"),
    [
        ({"kind": "band"}, {"centre": 1.0}, "takes lower and upper, not a centre"),
        ({"kind": "band"}, {"scores": [0.1, 0.2]}, "takes lower and upper, not scores"),
        ({"kind": "band"}, {"lower": 2.0, "upper": 1.0}, "2 is not below the upper one, 1"),
        ({"kind": "band"}, {"lower": 2.0}, "give both"),
        ({"kind": "interval"}, {"lower": 1.0, "upper": 2.0}, "takes a centre, not lower and upper"),
        ({}, {"lower": 0.1, "upper": 0.2}, "takes scores, not lower and upper"),
        ({}, {"scores": [0.1], "lower": 0.1, "upper": 0.2}, "one of them"),
    ],
)
def test_an_output_of_another_kind_is_refused_with_what_is_taken(
    one: TestClient, settings: dict[str, Any], body: dict[str, Any], message: str
) -> None:
    made(one, **DEFAULT, **settings)
    response = one.post("/v1/streams/pets/predictions", json=body)
    assert response.status_code == 422
    assert message in response.json()["error"]["message"]


def test_limits_on_sets_are_kept_and_a_cap_that_is_too_low_is_said(one: TestClient) -> None:
    made(one, **DEFAULT, at_least=1, at_most=1)
    sizes = set()
    for number in range(120):
        prediction = predicted(one, [0.6, 0.4])
        sizes.add(len(prediction["labels"]))
        answered(one, prediction, label=number % 2)
    stands = one.get("/v1/streams/pets").json()
    assert sizes == {1}
    assert stands["unreachable"] == 60
    said = "of 120 truths 60 (50.0%) could be in no set; raise at_most above 1"
    assert any(said in note for note in stands["notes"])


def test_late_answers_are_said_in_the_words_of_the_predictor(one: TestClient) -> None:
    made(one, **DEFAULT)
    predictor = keyhole.Predictor(alpha=0.1, watch=True)
    sent = {"predictions": [{"scores": [0.6, 0.4]}] * 150}
    batch = one.post("/v1/streams/pets/predictions/batch", json=sent).json()["predictions"]
    shown = predictor.predict_batch([[0.6, 0.4]] * 150)
    feedback = [{"id": made["id"], "label": 0} for made in batch]
    one.post("/v1/feedback", json={"answers": feedback})
    predictor.learn_batch(shown, [0] * 150)
    assert one.get("/v1/streams/pets").json()["notes"] == predictor.notes
    assert "Answers come late" in predictor.notes[0]

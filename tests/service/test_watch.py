"""Is the promise kept, and who can see it."""

import math

import numpy as np
import pytest
from fastapi.testclient import TestClient

from keyhole.service.watch import LEVEL, Alert, at_least, judge
from tests.service.scene import answered, made, predicted


@pytest.mark.parametrize("chance", [0.01, 0.1, 0.3, 0.9])
@pytest.mark.parametrize("rounds", [1, 7, 60])
def test_the_tail_is_the_sum_of_its_terms(rounds: int, chance: float) -> None:
    terms = [
        math.comb(rounds, k) * chance**k * (1.0 - chance) ** (rounds - k) for k in range(rounds + 1)
    ]
    for count in range(rounds + 1):
        assert at_least(count, rounds, chance=chance) == pytest.approx(sum(terms[count:]), rel=1e-9)


def test_the_tail_of_a_long_window_is_what_simulation_gives() -> None:
    draws = np.random.default_rng(5).binomial(100_000, 0.1, size=200_000)
    share = float((draws >= 10_200).mean())
    exact = at_least(10_200, 100_000, chance=0.1)
    assert abs(share - exact) < 5.0 * math.sqrt(exact * (1.0 - exact) / draws.size)


def test_false_alarms_are_as_rare_as_the_level_says() -> None:
    misses = np.random.default_rng(6).binomial(500, 0.1, size=20_000)
    alerts = [judge(int(count), 500, alpha=0.1).alert for count in misses]
    for kind in (Alert.TOO_MANY, Alert.TOO_FEW):
        share = alerts.count(kind) / len(alerts)
        assert share <= LEVEL + 4.0 * math.sqrt(LEVEL / len(alerts))


def test_a_broken_promise_is_seen() -> None:
    misses = np.random.default_rng(7).binomial(500, 0.2, size=200)
    assert all(judge(int(count), 500, alpha=0.1).alert is Alert.TOO_MANY for count in misses)


def test_the_first_rounds_say_nothing() -> None:
    assert judge(49, 49, alpha=0.1).alert is Alert.EARLY


def test_a_stream_whose_every_round_misses_raises_the_alert(one: TestClient) -> None:
    made(one, window=60)
    for _ in range(60):
        answered(one, predicted(one), miss=True)
    recent = one.get("/v1/streams/pets").json()["recent"]
    assert (recent["alert"], recent["misses"], recent["rounds"]) == ("too many misses", 60, 60)
    lines = one.get("/metrics").text.splitlines()
    assert 'keyhole_alert{state="too many misses",stream="pets"} 1.0' in lines
    assert 'keyhole_alert{state="kept",stream="pets"} 0.0' in lines


def test_the_window_forgets_what_is_older(one: TestClient) -> None:
    made(one, window=20, labels=["a"], learner="ocp-bandit", regime="bandit")
    for n in range(45):
        answered(one, predicted(one, [1.0]), **({"miss": True} if n < 30 else {"hit": True}))
    stands = one.get("/v1/streams/pets").json()
    assert (stands["recent"]["rounds"], stands["recent"]["misses"]) == (20, 5)
    assert stands["misses"] == 30


def test_the_metrics_count_what_happened(one: TestClient) -> None:
    made(one)
    first, second, third = predicted(one), predicted(one), predicted(one)
    answered(one, first, miss=True)
    answered(one, first, miss=True)
    answered(one, second, label="cat")
    found = dict(
        line.rsplit(" ", 1) for line in one.get("/metrics").text.splitlines() if line[0] != "#"
    )
    expected = {
        'keyhole_stream_predictions_total{stream="pets"}': 3,
        'keyhole_stream_answers_total{stream="pets"}': 2,
        'keyhole_stream_open{stream="pets"}': 1,
        'keyhole_alpha{stream="pets"}': 0.1,
        'keyhole_feedback_total{kind="miss",stream="pets"}': 1,
        'keyhole_feedback_total{kind="label",stream="pets"}': 1,
        'keyhole_set_size_count{stream="pets"}': 3,
    }
    assert {name: float(found[name]) for name in expected} == expected
    sizes = sum(prediction["size"] for prediction in (first, second, third))
    assert float(found['keyhole_set_size_sum{stream="pets"}']) == sizes
    labels = 'method="POST",route="/v1/streams/{name}/predictions",status="201"'
    assert float(found[f"keyhole_request_seconds_count{{{labels}}}"]) == 3


def test_probes_answer(http: TestClient) -> None:
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/readyz").json() == {"status": "ok"}


def test_the_log_names_the_round(one: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    made(one)
    with caplog.at_level("INFO", logger="keyhole.service"):
        prediction = predicted(one)
    assert f'"prediction": "{prediction["id"]}"' in caplog.messages[-1]
    assert '"status": 201' in caplog.messages[-1]


def test_documentation_is_served(one: TestClient) -> None:
    paths = one.get("/openapi.json").json()["paths"]
    assert {"/v1/streams", "/v1/predictions/{id}/feedback", "/v1/feedback"} <= set(paths)

"""Is the promise kept, and who can see it."""

from collections.abc import Iterable

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from keyhole.predictor.monitor import bound_misses, bound_rate
from keyhole.service.http.prometheus import write_family, write_sample
from keyhole.service.store.log.replay import replay
from keyhole.service.store.sql.database import Database
from keyhole.service.wire.responses import show_time
from tests.service.scene import Clock, answered, calibrated, made, predicted, run_sql

MISSES = {"learner": "ocp-bandit", "feedback": "bandit", "labels": ["a"]}


def play(http: TestClient, clock: Clock, misses: Iterable[bool]) -> None:
    """Answer a round a second."""
    for miss in misses:
        answered(http, predicted(http, [1.0]), **({"miss": True} if miss else {"hit": True}))
        clock.now += 1.0


def test_a_stream_is_starting_until_its_misses_have_come_to_the_target(
    one: TestClient, clock: Clock
) -> None:
    """At alpha 0.4 nothing counts before 25 answers are heard; then hits and misses settle it."""
    made(one, **MISSES | {"alpha": 0.4})
    play(one, clock, [False] * 25 + [False, True] * 6)
    stands = one.get("/v1/streams/pets").json()
    assert (stands["promise"]["state"], stands["promise"]["alarm"]) == ("starting", None)
    assert 'keyhole_alert{state="starting",stream="pets"} 1.0' in one.get("/metrics").text
    play(one, clock, [False, True] * 6 + [False] * 6)
    assert one.get("/v1/streams/pets").json()["promise"]["state"] == "kept"


def test_a_stream_that_misses_everything_from_the_start_is_found_after_it(
    one: TestClient, clock: Clock
) -> None:
    made(one, **MISSES | {"alpha": 0.4})
    play(one, clock, [True] * 50)  # 20 / alpha answers
    assert one.get("/v1/streams/pets").json()["promise"]["state"] == "starting"
    play(one, clock, [True] * 45)
    assert one.get("/v1/streams/pets").json()["promise"]["state"] == "too many misses"


def test_answers_that_always_say_hit_empty_the_sets_and_are_refused_counted_and_explained(
    one: TestClient,
) -> None:
    made(one, learner="informed-tracker", horizon=None, alpha=0.3, feedback="bandit")
    for _ in range(100):
        shown = predicted(one, {"a": 0.5, "b": 0.3, "c": 0.2})
        said = answered(one, shown, hit=True)
    assert shown["labels"] == []
    assert said.json()["error"]["message"].endswith("so it cannot be a hit; answer keyhole.MISS")
    stands = one.get("/v1/streams/pets").json()
    assert stands["promise"]["state"] == "starting"
    assert stands["refused"]["feedback"] > 50
    assert stands["refused"]["feedback"] + stands["rounds"] == 100


def test_an_alarm_says_since_when_and_when_it_was_over(one: TestClient, clock: Clock) -> None:
    made(one, **MISSES)
    calibrated(one)
    play(one, clock, [False] * 12)
    begun = clock.now
    play(one, clock, [True] * 12)
    promise = one.get("/v1/streams/pets").json()["promise"]
    assert promise["state"] == "too many misses"
    alarm = promise["alarm"]
    assert alarm["cleared"] is None
    assert alarm["since"] == {"answers": 13, "at": show_time(begun)}
    raised = alarm["raised"]["answers"]
    assert 13 < raised <= 24
    assert alarm["raised"]["at"] == show_time(begun + raised - 13)
    lines = one.get("/metrics").text.splitlines()
    assert 'keyhole_alert{state="too many misses",stream="pets"} 1.0' in lines
    assert 'keyhole_alert{state="kept",stream="pets"} 0.0' in lines
    # Against 2 alpha a hit is worth 0.9 / 0.8: 10^4 takes about 60 of them in sum.
    play(one, clock, [False] * 65)
    after = one.get("/v1/streams/pets").json()["promise"]
    assert after["state"] == "kept"
    cleared = after["alarm"]["cleared"]
    assert cleared["at"] == show_time(begun + cleared["answers"] - 13)
    assert one.get("/v1/streams/pets/history").json()["alarms"] == [after["alarm"]]
    assert one.get("/v1/streams").json()["streams"][0]["promise"] == after


def test_alarms_are_part_of_what_is_verified(one: TestClient, light: Database, clock: Clock) -> None:
    made(one, **MISSES)
    calibrated(one)
    play(one, clock, [True] * 14 + [False] * 65)
    assert replay(light, "pets").difference is None
    run_sql(light, "UPDATE alarms SET since = since + 1")
    assert "list of alarms" in str(replay(light, "pets").difference)


def test_a_batch_tells_the_time_of_an_answer_that_came_with_it(one: TestClient, clock: Clock) -> None:
    made(one, **MISSES)
    calibrated(one)
    sets = [predicted(one, [1.0])["id"] for _ in range(20)]
    clock.now += 5.0
    one.post("/v1/feedback", json={"answers": [{"id": one_id, "miss": True} for one_id in sets]})
    alarm = one.get("/v1/streams/pets").json()["promise"]["alarm"]
    assert (alarm["since"]["at"], alarm["raised"]["at"]) == (show_time(clock.now),) * 2


def test_the_overall_rate_comes_with_what_it_leaves_open(one: TestClient, clock: Clock) -> None:
    made(one, **MISSES)
    assert one.get("/v1/streams/pets").json()["promise"]["overall"] == [0.0, 1.0]
    play(one, clock, [True] + [False] * 9)
    assert one.get("/v1/streams/pets").json()["promise"]["overall"] == list(bound_rate(1, 10))
    band = one.get("/v1/streams/pets/history").json()["band"]
    assert band[-1] == list(bound_misses(10, alpha=0.1))


def test_the_window_forgets_what_is_older(one: TestClient) -> None:
    made(one, window=20, labels=["a"], learner="ocp-bandit", feedback="bandit")
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
    assert http.get("/healthz").json() == {"status": "ok", "quarantined": []}
    assert http.get("/readyz").json() == {"status": "ok", "quarantined": []}


def test_the_log_names_the_round(one: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    made(one)
    with caplog.at_level("INFO", logger="keyhole.service"):
        prediction = predicted(one)
    assert f'"prediction": "{prediction["id"]}"' in caplog.messages[-1]
    assert '"status": 201' in caplog.messages[-1]


def test_documentation_is_served(one: TestClient) -> None:
    paths = one.get("/openapi.json").json()["paths"]
    assert {"/v1/streams", "/v1/predictions/{id}/feedback", "/v1/feedback"} <= set(paths)


@pytest.mark.parametrize("value", [0.1, 3.0, float("nan"), float("inf"), -float("inf"), 1e-300])
@pytest.mark.parametrize(("kind", "name"), [("gauge", "a"), ("counter", "a_total")])
def test_metrics_are_written_as_prometheus_reads_them(kind: str, name: str, value: float) -> None:
    label = 'quotes " and \\ and \n'
    text = write_family("a", "What it is.", kind, [write_sample(name, value, stream=label)])
    (family,) = text_string_to_metric_families(text)
    (sample,) = family.samples
    assert (family.documentation, family.type) == ("What it is.", kind)
    assert (sample.name, sample.labels, repr(sample.value)) == (name, {"stream": label}, repr(value))


def test_a_scrape_tells_what_changed_what_did_not_and_not_what_is_gone(one: TestClient) -> None:
    for name in ("pets", "wild", "gone"):
        made(one, name=name)
    answered(one, predicted(one, [0.5, 0.5]), miss=True)
    before = one.get("/metrics").text
    one.post("/v1/streams/gone/archive")
    answered(one, predicted(one, [0.5, 0.5]), miss=True)
    after = one.get("/metrics").text
    for text, answers in ((before, 1.0), (after, 2.0)):
        assert f'keyhole_stream_answers_total{{stream="pets"}} {answers}\n' in text
        assert 'keyhole_stream_answers_total{stream="wild"} 0.0\n' in text
    assert 'keyhole_alpha{stream="gone"}' in before
    assert 'keyhole_alpha{stream="gone"}' not in after

"""A stream over HTTP is the library's predictor, made durable."""

import numpy as np
import pytest
from fastapi.testclient import TestClient

import keyhole
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from tests.service.scene import SCORES, Clock, answered, client_of, made, predicted


def test_a_stream_makes_the_choices_of_a_predictor_with_its_seed(
    http: TestClient, database: Database
) -> None:
    made(http, arms=50, horizon=5000)
    predictor = keyhole.Predictor("ocp-unlock+", alpha=0.1, horizon=5000, arms=50, seed=7)
    rng = np.random.default_rng(3)
    waiting = []
    for _ in range(150):
        scores = {f"label {k}": p for k, p in enumerate(rng.dirichlet(np.ones(6)).tolist())}
        ours, theirs = predictor.predict(scores), predicted(http, scores)
        assert (ours.threshold, list(ours.labels)) == (theirs["threshold"], theirs["labels"])
        waiting.append((ours, theirs))
        if len(waiting) > 3:
            ours, theirs = waiting.pop(int(rng.integers(4)))
            label = f"label {rng.integers(6)}"
            if label in ours:
                predictor.learn(ours, label=label)
                answered(http, theirs, label=label).raise_for_status()
            else:
                predictor.learn(ours, keyhole.MISS)
                answered(http, theirs, miss=True).raise_for_status()
    stands = http.get("/v1/streams/pets").json()
    assert (stands["rounds"], stands["open"]) == (predictor.rounds, predictor.open_rounds)
    assert (stands["miss_rate"], stands["mean_size"]) == (predictor.miss_rate, predictor.mean_size)
    assert stands["distribution"]["probabilities"] == predictor.distribution.probabilities.tolist()
    assert replay.replay(database, "pets").difference is None


def test_a_process_that_starts_later_continues_bit_for_bit(url: str, clock: Clock) -> None:
    def lived(name: str, *, restarts: bool) -> list[float]:
        thresholds, database = [], Database(url)
        http = client_of(database, clock)
        made(http, name=name)
        for n in range(12):
            if restarts:
                database.close()
                database = Database(url)
                http = client_of(database, clock)
            response = http.post(
                f"/v1/streams/{name}/predictions", json={"scores": [0.5, 0.3, 0.2]}
            ).json()
            thresholds.append(response["threshold"])
            answered(http, response, **({"miss": True} if n % 2 else {"label": 0}))
        database.close()
        return thresholds

    assert lived("broken", restarts=True) == lived("whole", restarts=False)


def test_the_same_answer_twice_is_accepted_and_counted_once(http: TestClient) -> None:
    made(http)
    prediction = predicted(http)
    first, second = answered(http, prediction, miss=True), answered(http, prediction, miss=True)
    assert (first.status_code, first.json()["repeated"]) == (200, False)
    assert (second.status_code, second.json()["repeated"]) == (200, True)
    assert http.get("/v1/streams/pets").json()["rounds"] == 1


def test_a_different_second_answer_is_a_conflict_and_changes_nothing(http: TestClient) -> None:
    made(http)
    prediction = predicted(http)
    answered(http, prediction, miss=True)
    before = http.get("/v1/streams/pets").json()
    response = answered(http, prediction, label="cat")
    assert (response.status_code, response.json()["error"]["code"]) == (409, "answered")
    after = http.get("/v1/streams/pets").json()
    assert {**after, "refused": {}} == before  # That it was refused is counted.


def test_a_retry_with_the_same_key_gives_the_same_prediction(http: TestClient) -> None:
    made(http)
    first = predicted(http, **{"Idempotency-Key": "a"})
    assert predicted(http, **{"Idempotency-Key": "a"}) == first
    assert predicted(http, **{"Idempotency-Key": "b"})["id"] != first["id"]
    assert http.get("/v1/streams/pets").json()["predicted"] == 2


def test_a_key_with_another_output_is_refused(http: TestClient) -> None:
    made(http)
    predicted(http, **{"Idempotency-Key": "a"})
    response = http.post(
        "/v1/streams/pets/predictions", json={"scores": [0.5, 0.5]}, headers={"Idempotency-Key": "a"}
    )
    assert (response.status_code, response.json()["error"]["code"]) == (409, "key_reused")


@pytest.mark.parametrize(
    "id", ["1-0-0000000000000000", "1-99-0000000000000000", "99-0-0000000000000000", "x", "1-0-é"]
)
def test_an_id_that_was_never_given_is_not_found(http: TestClient, id: str) -> None:
    made(http)
    predicted(http)
    response = http.post(f"/v1/predictions/{id}/feedback", json={"miss": True})
    assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_prediction")


def test_a_round_expires_after_its_lifetime(http: TestClient, clock: Clock) -> None:
    made(http, lifetime=60.0)
    prediction = predicted(http)
    clock.now += 60.0
    assert answered(http, prediction, miss=True).status_code == 410
    predicted(http)
    stands = http.get("/v1/streams/pets").json()
    assert (stands["expired"], stands["open"], stands["rounds"]) == (1, 1, 0)
    assert answered(http, prediction, miss=True).status_code == 410


def test_an_answer_that_came_in_time_stays_repeatable_after_the_lifetime(
    http: TestClient, clock: Clock
) -> None:
    made(http, lifetime=60.0)
    prediction = predicted(http)
    answered(http, prediction, miss=True)
    clock.now += 600.0
    predicted(http)
    assert answered(http, prediction, miss=True).json()["repeated"] is True


def test_the_oldest_round_expires_when_too_many_are_open(http: TestClient, database: Database) -> None:
    made(http, open_limit=3)
    first, second, *_ = [predicted(http) for _ in range(4)]
    assert answered(http, first, miss=True).status_code == 410
    assert answered(http, second, miss=True).status_code == 200
    stands = http.get("/v1/streams/pets").json()
    assert (stands["expired"], stands["open"], stands["rounds"]) == (1, 2, 1)
    assert replay.replay(database, "pets").difference is None


def test_a_centre_gives_an_interval_and_its_value_is_the_label(http: TestClient) -> None:
    made(http, bound=10.0)
    response = http.post("/v1/streams/pets/predictions", json={"centre": 50.0})
    prediction = response.json()
    lower, upper = prediction["interval"]
    assert lower == pytest.approx(50.0 - 10.0 * (1.0 - prediction["threshold"]))
    assert upper == pytest.approx(50.0 + 10.0 * (1.0 - prediction["threshold"]))
    assert answered(http, prediction, label=50).json()["missed"] is False


def test_the_whole_line_is_sent_as_nulls(http: TestClient) -> None:
    made(http, scale=1.0, arms=2, options={"exploration": 1.0})
    sent = [http.post("/v1/streams/pets/predictions", json={"centre": 0.0}).json() for _ in range(8)]
    whole = [prediction for prediction in sent if prediction["threshold"] == 0.0]
    assert whole
    assert all(prediction["interval"] == [None, None] for prediction in whole)
    assert all(prediction["size"] is None for prediction in whole)
    answered(http, whole[0], label=3.5).raise_for_status()
    assert http.get("/v1/streams/pets").json()["mean_size"] is None


def test_an_array_takes_the_names_of_the_stream(http: TestClient) -> None:
    made(http, labels=["cat", "lynx", "dog"])
    by_array = predicted(http, [0.71, 0.22, 0.04], **{"Idempotency-Key": "a"})
    assert predicted(http, SCORES, **{"Idempotency-Key": "a"}) == by_array


def test_an_archived_stream_can_be_read_and_takes_no_more_rounds(http: TestClient) -> None:
    made(http)
    prediction = predicted(http)
    assert http.post("/v1/streams/pets/archive").json()["archived"] is not None
    assert answered(http, prediction, miss=True).json()["error"]["code"] == "archived"
    response = http.post("/v1/streams/pets/predictions", json={"scores": SCORES})
    assert (response.status_code, response.json()["error"]["code"]) == (409, "archived")
    assert http.get("/v1/streams/pets/history").status_code == 200


def test_a_name_is_taken_once(http: TestClient) -> None:
    made(http)
    response = http.post("/v1/streams", json={"name": "pets", "alpha": 0.2})
    assert (response.status_code, response.json()["error"]["code"]) == (409, "stream_exists")


def test_a_batch_is_the_same_as_one_after_the_other(http: TestClient, database: Database) -> None:
    made(http)
    made(http, name="single")
    rows = np.random.default_rng(1).dirichlet(np.ones(4), size=30).tolist()
    batch = http.post(
        "/v1/streams/pets/predictions/batch", json={"predictions": [{"scores": row} for row in rows]}
    ).json()["predictions"]
    singles = [http.post("/v1/streams/single/predictions", json={"scores": row}).json() for row in rows]
    assert [b["threshold"] for b in batch] == [s["threshold"] for s in singles]
    replies = [{"label": 0} if 0 in b["labels"] else {"miss": True} for b in batch]
    feedback = [{"id": b["id"], **reply} for b, reply in zip(batch, replies, strict=True)]
    results = http.post("/v1/feedback", json={"answers": feedback}).json()["results"]
    for single, reply in zip(singles, replies, strict=True):
        answered(http, single, **reply)
    both = [http.get(f"/v1/streams/{name}").json() for name in ("pets", "single")]
    assert not any("error" in result for result in results)
    assert both[0]["distribution"] == both[1]["distribution"]
    assert both[0]["misses"] == both[1]["misses"]
    assert replay.replay(database, "pets").difference is None


def test_one_bad_answer_does_not_spoil_a_batch(http: TestClient) -> None:
    made(http)
    first, second = predicted(http), predicted(http)
    feedback = [
        {"id": first["id"], "miss": True},
        {"id": first["id"], "miss": True},
        {"id": first["id"], "label": "cat"},
        {"id": second["id"], "label": "unicorn"},
        {"id": "nonsense", "hit": True},
    ]
    results = http.post("/v1/feedback", json={"answers": feedback}).json()["results"]
    codes = [result.get("error", {}).get("code") for result in results]
    assert codes == [None, None, "answered", None, "unknown_prediction"]
    assert results[1]["repeated"] is True
    stands = http.get("/v1/streams/pets").json()
    assert (stands["rounds"], stands["open"]) == (2, 0)


def test_a_batch_of_predictions_is_all_or_none(http: TestClient) -> None:
    made(http)
    asked = {"predictions": [{"scores": [0.5, 0.5]}, {"scores": [2.0]}]}
    assert http.post("/v1/streams/pets/predictions/batch", json=asked).status_code == 422
    assert http.get("/v1/streams/pets").json()["predicted"] == 0


def test_keys_work_within_a_batch_too(http: TestClient) -> None:
    made(http)
    asked = {"predictions": [{"scores": [0.5], "key": "a"}, {"scores": [0.5], "key": "a"}]}
    first, second = http.post("/v1/streams/pets/predictions/batch", json=asked).json()["predictions"]
    assert first == second
    assert http.get("/v1/streams/pets").json()["predicted"] == 1

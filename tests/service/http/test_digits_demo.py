"""The demo: pictures one after the other."""

import pytest
from fastapi.testclient import TestClient

from keyhole.service.http import digits_demo
from keyhole.service.http.app import Settings, create_app
from keyhole.service.store.sql.database import Database
from tests.service.scene import NOW, Clock, answered


@pytest.fixture
def labelling(light: Database, clock: Clock) -> TestClient:
    digits_demo.create(light, now=NOW)
    app = create_app(light, Settings(clock=clock, demo=True))
    return TestClient(app, base_url="http://localhost", client=("127.0.0.1", 50_000))


def test_a_picture_is_shown_until_it_is_answered(labelling: TestClient) -> None:
    first, again = (labelling.post("/v1/demo/next").json()["prediction"] for _ in range(2))
    assert first == again
    answered(labelling, first, miss=True)
    assert labelling.post("/v1/demo/next").json()["prediction"]["round"] == first["round"] + 1


def test_a_picture_that_has_expired_makes_room_for_the_next(
    labelling: TestClient, clock: Clock
) -> None:
    first = labelling.post("/v1/demo/next").json()["prediction"]
    clock.now += 30 * 86_400.0
    second = labelling.post("/v1/demo/next").json()["prediction"]
    assert second["round"] == first["round"] + 1
    assert answered(labelling, second, miss=True).status_code == 200


def test_a_simulated_person_goes_on_after_an_expired_round(labelling: TestClient, clock: Clock) -> None:
    labelling.post("/v1/demo/next")
    clock.now += 30 * 86_400.0
    told = labelling.post("/v1/demo/simulate", json={"rounds": 5}).json()
    assert told["rounds"] == 5

"""A clock that jumps is noticed, and nothing expires by it."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from keyhole.cli import main
from keyhole.service.http.app import Settings, create_app
from keyhole.service.http.clock import SteadyClock
from keyhole.service.store.sql.database import Database
from tests.service.scene import NOW, Clock, answered, made, predicted

DAY = 86_400.0


class Machine:
    """A machine's clock, and the seconds that have passed whatever it shows."""

    def __init__(self) -> None:
        self.shown, self.elapsed = NOW, 5.0
        self.clock = SteadyClock(lambda: self.shown, lambda: self.elapsed)

    def wait(self, seconds: float) -> None:
        self.shown += seconds
        self.elapsed += seconds


def test_the_time_follows_a_clock_that_is_put_right_by_a_little_and_never_goes_back() -> None:
    machine = Machine()
    assert machine.clock() == NOW
    machine.wait(10.0)
    machine.shown += 30.0
    assert machine.clock() == NOW + 40.0
    machine.shown -= 50.0
    assert machine.clock() == NOW + 40.0
    machine.wait(60.0)
    assert machine.clock() == NOW + 50.0
    assert machine.clock.jump == 0.0


@pytest.mark.parametrize("jump", [30 * DAY, -30 * DAY, 61.0])
def test_a_jump_is_logged_once_and_the_time_goes_on_as_before(
    jump: float, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    machine.shown += jump
    machine.wait(5.0)
    assert [machine.clock(), machine.clock()] == pytest.approx([NOW + 5.0] * 2)
    assert machine.clock.jump == pytest.approx(jump)
    assert len(caplog.records) == 1
    assert f"jumped by {jump:+.0f} seconds" in caplog.text
    machine.shown -= jump
    machine.wait(5.0)
    assert machine.clock() == pytest.approx(NOW + 10.0)
    assert machine.clock.jump == 0.0
    assert "right again" in caplog.text


def test_requests_while_the_clock_is_a_month_ahead_expire_no_round(
    light: Database, tmp_path: Path
) -> None:
    machine = Machine()
    app = create_app(light, Settings(clock=machine.clock))
    http = TestClient(app, base_url="http://localhost", client=("127.0.0.1", 5))
    made(http)
    waiting = [predicted(http) for _ in range(5)]
    machine.shown += 30 * DAY
    waiting.append(predicted(http))
    assert "keyhole_clock_jump_seconds{} 2592000.0\n" in http.get("/metrics").text
    machine.shown -= 30 * DAY
    assert [answered(http, one, miss=True).status_code for one in waiting] == [200] * 6
    assert http.get("/v1/streams/pets").json()["expired"] == 0
    light.close()
    assert main(["verify", "--database", f"sqlite:///{tmp_path / 'keyhole.db'}"]) == 0


def test_rounds_whose_time_is_over_are_shown_so_before_anybody_predicts(
    http: TestClient, clock: Clock
) -> None:
    """Kills: what waits in vain counted as open until the next prediction."""
    made(http, lifetime=10.0)
    for _ in range(3):
        predicted(http)
    clock.now += 5.0
    predicted(http)
    for later, (waiting, expired) in {4.0: (4, 0), 1.0: (1, 3), 10.0: (0, 4)}.items():
        clock.now += later
        views = [http.get("/v1/streams/pets").json(), http.get("/v1/streams").json()["streams"][0]]
        assert [(one["open"], one["expired"]) for one in views] == [(waiting, expired)] * 2
        lines = http.get("/metrics").text.splitlines()
        assert f'keyhole_stream_open{{stream="pets"}} {waiting}.0' in lines
        assert f'keyhole_stream_expired_total{{stream="pets"}} {expired}.0' in lines
    predicted(http)
    shown = http.get("/v1/streams/pets").json()
    assert (shown["open"], shown["expired"], shown["predicted"]) == (1, 4, 5)


def test_a_retry_of_a_prediction_is_answered_after_the_stream_was_archived(http: TestClient) -> None:
    made(http)
    first = predicted(http, **{"Idempotency-Key": "one"})
    assert http.post("/v1/streams/pets/archive").is_success
    assert predicted(http, **{"Idempotency-Key": "one"})["id"] == first["id"]
    body = {"scores": [0.5]}
    for headers in ({}, {"Idempotency-Key": "two"}):
        refused = http.post("/v1/streams/pets/predictions", json=body, headers=headers)
        assert refused.json()["error"]["code"] == "archived"

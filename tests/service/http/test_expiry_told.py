"""A round that expires changes what is shown, though nothing is written."""

import json
from pathlib import Path

import httpx

import keyhole
from keyhole.service.http.overview import Overview
from keyhole.service.store.sql.database import Database
from keyhole.service.wire.responses import Selection
from tests.patience import SECONDS
from tests.service.process import Service
from tests.service.scene import Clock, client_of, made, predicted


def test_who_follows_a_stream_hears_of_a_round_that_expires(tmp_path: Path) -> None:
    with Service(f"sqlite:///{tmp_path / 'keyhole.db'}") as service:
        with keyhole.Client(service.url) as client:
            client.create_stream("brief", alpha=0.1, lifetime=1.0)
            client.predict("brief", {"cat": 0.7})
        events, url = [], f"{service.url}/v1/streams/brief/events"
        with httpx.stream("GET", url, timeout=SECONDS) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    events.append(json.loads(line.removeprefix("data: ")))
                if events and events[-1]["expired"]:
                    break
    assert (events[-1]["open"], events[-1]["expired"]) == (0, 1)


def test_the_list_does_not_count_as_open_what_has_expired(light: Database) -> None:
    clock = Clock()
    with client_of(light, clock) as http:
        made(http, lifetime=60.0)
        predicted(http)

    def count_open() -> int:
        overview = Overview(light, clock=clock)
        return overview.find("", Selection.ALL, offset=0, limit=1).streams[0].open

    assert count_open() == 1
    clock.now += 61.0
    assert count_open() == 0

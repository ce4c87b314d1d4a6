"""Every stream in a line: few bytes, a page at a time, the same order every time."""

import gzip
from typing import Any

import pytest
from fastapi.testclient import TestClient

from keyhole.service.http import overview
from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from tests.service.scene import NOW, Clock, answered, calibrated, made, predicted

MISSES = {"learner": "ocp-bandit", "feedback": "bandit", "labels": ["a"]}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_SECONDS_TO_KEEP", 0.0)


def names(http: TestClient, **query: Any) -> list[str]:
    found = http.get("/v1/overview", params=query).json()
    return [line["name"] for line in found["streams"]]


def test_streams_off_target_come_first_then_all_by_name(one: TestClient, clock: Clock) -> None:
    for name in ("b", "A", "c"):
        made(one, name=name)
    made(one, **MISSES)
    calibrated(one)
    for _ in range(12):
        answered(one, predicted(one, [1.0]), miss=True)
        clock.now += 1.0
    assert names(one) == ["pets", "A", "b", "c"]
    assert names(one, offset=1, limit=2) == ["A", "b"]
    assert names(one, words="BANDIT") == ["pets"]
    assert names(one, only="alerts") == ["pets"]
    one.post("/v1/streams/c/archive")
    assert (names(one, only="starting"), names(one, only="archived")) == (["A", "b"], ["c"])
    found = one.get("/v1/overview?limit=1").json()
    assert found["counts"] == {"all": 3, "alerts": 1, "starting": 2, "archived": 1}
    assert (found["matched"], found["streams"][0]["since"] is not None) == (3, True)


def test_a_trend_is_of_the_recent_rounds_in_parts_of_ten_or_more(one: TestClient) -> None:
    made(one, **MISSES)
    for miss in [False] * 10 + [False, True] * 5:
        answered(one, predicted(one, [1.0]), **({"miss": True} if miss else {"hit": True}))
    (line,) = one.get("/v1/overview").json()["streams"]
    assert line["trend"] == [0.0, 0.5]
    one.patch("/v1/streams/pets", json={"alpha": 0.2})
    (line,) = one.get("/v1/overview").json()["streams"]
    assert (line["trend"], line["retargeted"], line["recent"]["rounds"]) == ([], True, 0)


def test_a_token_for_some_streams_lists_and_counts_those_alone(
    one: TestClient, light: Database
) -> None:
    for name in ("shop-1", "till-1"):
        made(one, name=name)
    token = tokens.create(light, "shop", scopes=["read"], now=NOW, streams="shop-")
    found = one.get("/v1/overview", headers={"Authorization": f"Bearer {token}"}).json()
    assert ([line["name"] for line in found["streams"]], found["counts"]["all"]) == (["shop-1"], 1)


def test_a_stream_that_is_gone_is_not_listed(one: TestClient) -> None:
    made(one)
    assert names(one) == ["pets"]
    one.post("/v1/streams/pets/archive")
    one.delete("/v1/streams/pets")
    assert names(one, only="archived") == []


def test_what_is_read_is_compressed_for_who_can_take_it_and_events_and_writes_are_not(
    one: TestClient,
) -> None:
    made(one)
    with one.stream("GET", "/openapi.json", headers={"Accept-Encoding": "gzip"}) as response:
        packed = b"".join(response.iter_raw())
    assert response.headers["content-encoding"] == "gzip"
    plain = one.get("/openapi.json", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(packed) == plain.content
    assert len(packed) < len(plain.content) / 4
    written = one.post("/v1/streams/pets/predictions/batch", json={"predictions": [[0.5] * 99] * 99})
    assert "content-encoding" not in written.headers
    assert "content-encoding" not in one.get("/v1/streams/pets/export").headers


def test_a_file_that_the_reader_has_is_not_sent_again(one: TestClient) -> None:
    first = one.get("/page/app.js")
    again = one.get("/page/app.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert one.get("/page/app.js", headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs", "/page/app.js"])
def test_the_head_of_a_page_can_be_asked_for(one: TestClient, path: str) -> None:
    assert one.head(path).status_code == 200

"""Who may do what."""

import time
from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

from keyhole.errors import InvalidError, TokenError
from keyhole.service.http import access
from keyhole.service.store import tokens
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from tests.service.scene import NOW, Clock, answered, client_of, made, predicted, read_table


@pytest.fixture
def bearer(light: Database) -> Callable[..., dict[str, str]]:
    def make(*scopes: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {tokens.create(light, 'test', scopes=scopes, now=NOW)}"}

    return make


def test_a_token_is_good_for_its_scopes_alone(
    light: Database, clock: Clock, one: TestClient, bearer: Callable[..., dict[str, str]]
) -> None:
    made(one)
    prediction = predicted(one)
    asked = {
        "admin": lambda http, headers: http.post("/v1/streams/pets/archive", headers=headers),
        "read": lambda http, headers: http.get("/v1/streams", headers=headers),
        "predict": lambda http, headers: http.post(
            "/v1/streams/pets/predictions", json={"scores": [0.5]}, headers=headers
        ),
        "feedback": lambda http, headers: http.post(
            f"/v1/predictions/{prediction['id']}/feedback", json={"miss": True}, headers=headers
        ),
    }
    headers = {scope: bearer(scope) for scope in asked}
    http = client_of(light, clock)
    for needed in ("read", "predict", "feedback", "admin"):
        for held in ("read", "predict", "feedback"):
            if needed != held:
                assert asked[needed](http, headers[held]).status_code == 403
        assert asked[needed](http, {}).status_code == 401
    for scope in ("read", "predict", "feedback", "admin"):
        assert asked[scope](http, headers[scope]).is_success
    assert asked["read"](http, headers["admin"]).is_success


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer x", "Bearer kh_00_x", "Basic YTpi", "Bearer é"]
)
def test_what_is_no_token_is_refused(one: TestClient, given: str) -> None:
    response = one.get("/v1/streams", headers={b"Authorization": given.encode()})
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"


def test_a_secret_with_one_letter_changed_is_refused(light: Database) -> None:
    token = tokens.create(light, "test", scopes=["read"], now=NOW)
    assert tokens.verify(light, token, now=NOW).name == "test"
    for changed in (token[:-1] + ("a" if token[-1] != "a" else "b"), token[:-1], token + "a"):
        with pytest.raises(TokenError):
            tokens.verify(light, changed, now=NOW)


def test_the_database_never_holds_the_secret(light: Database) -> None:
    token = tokens.create(light, "test", scopes=["read"], now=NOW)
    (row,) = read_table(light, schema.tokens)
    secret = token.split("_", 2)[2]
    assert not any(secret in str(cell) or secret.encode() in bytes(str(cell), "utf8") for cell in row)
    assert len(row.digest) == 32


def test_a_revoked_token_is_useless_within_a_second(light: Database, clock: Clock) -> None:
    token = tokens.create(light, "test", scopes=["read"], now=NOW)
    tokens.create(light, "other", scopes=["admin"], now=NOW)
    headers = {"Authorization": f"Bearer {token}"}
    http = client_of(light, clock)
    assert http.get("/v1/streams", headers=headers).status_code == 200
    tokens.revoke(light, token.split("_")[1], now=NOW)
    time.sleep(1.0)
    assert http.get("/v1/streams", headers=headers).status_code == 401
    with pytest.raises(TokenError, match="no token"):
        tokens.revoke(light, token.split("_")[1], now=NOW)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])  # noqa: S104
def test_without_tokens_only_loopback_is_bound(light: Database, host: str) -> None:
    with pytest.raises(InvalidError, match="leave out --open"):
        access.check_binding(light, host)
    tokens.create(light, "test", scopes=["read"], now=NOW)
    access.check_binding(light, host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.0.1"])
def test_loopback_is_bound_without_tokens(light: Database, host: str) -> None:
    access.check_binding(light, host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "10.0.0.1"]
)
def test_a_name_that_was_pointed_at_loopback_is_refused(one: TestClient, host: str) -> None:
    assert one.get("/v1/streams", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:8000"])
def test_the_names_of_this_machine_are_taken(one: TestClient, host: str) -> None:
    assert one.get("/v1/streams", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:9999"])
def test_a_page_of_another_site_cannot_change_anything(one: TestClient, origin: str) -> None:
    made(one)
    prediction = predicted(one)
    response = one.post(
        f"/v1/predictions/{prediction['id']}/feedback", json={"miss": True}, headers={"Origin": origin}
    )
    assert (response.status_code, response.json()["error"]["code"]) == (403, "foreign_request")
    own = {"Origin": "http://localhost"}
    assert answered(one, prediction, miss=True).is_success
    assert one.post("/v1/streams/pets/predictions", json={"scores": [0.5]}, headers=own).is_success


def test_every_response_forbids_foreign_scripts_and_frames(one: TestClient) -> None:
    for path in ("/", "/v1/streams", "/nowhere", "/page/app.js"):
        policy = one.get(path).headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
    assert one.get("/").headers["x-content-type-options"] == "nosniff"


def test_scopes_are_checked_when_a_token_is_made(light: Database) -> None:
    with pytest.raises(TokenError, match="scopes are read, predict, feedback, admin"):
        tokens.create(light, "test", scopes=["everything"], now=NOW)


def test_a_token_is_good_until_it_expires(light: Database, clock: Clock) -> None:
    tokens.create(light, "other", scopes=["admin"], now=NOW)
    token = tokens.create(light, "test", scopes=["read"], now=NOW, expires=NOW + 60.0)
    headers = {"Authorization": f"Bearer {token}"}
    assert client_of(light, clock).get("/v1/streams", headers=headers).status_code == 200
    clock.now += 60.0
    refused = client_of(light, clock).get("/v1/streams", headers=headers)
    assert (refused.status_code, "has expired" in refused.text) == (401, True)
    with pytest.raises(TokenError, match="let it expire later"):
        tokens.create(light, "test", scopes=["read"], now=NOW, expires=NOW)


def test_a_service_whose_only_token_has_expired_is_not_open(light: Database, clock: Clock) -> None:
    tokens.create(light, "test", scopes=["read"], now=NOW, expires=NOW + 1.0)
    clock.now += 60.0
    assert client_of(light, clock).get("/v1/streams").status_code == 401


def test_a_token_for_some_streams_reaches_no_other_by_any_route(light: Database, clock: Clock) -> None:
    admin = tokens.create(light, "all", scopes=["admin"], now=NOW)
    shop = tokens.create(light, "shop", scopes=["admin"], now=NOW, streams="shop-")
    http = client_of(light, clock)
    http.headers["Authorization"] = f"Bearer {admin}"
    for name in ("shop-a", "clinic"):
        http.post("/v1/streams", json={"name": name, "alpha": 0.1})
    theirs = http.post("/v1/streams/clinic/predictions", json={"scores": [0.5]}).json()["id"]
    http.headers["Authorization"] = f"Bearer {shop}"
    mine = http.post("/v1/streams/shop-a/predictions", json={"scores": [0.5]}).json()["id"]
    assert [one["name"] for one in http.get("/v1/streams").json()["streams"]] == ["shop-a"]
    assert http.post("/v1/streams", json={"name": "shop-b", "alpha": 0.1}).status_code == 201
    refused = [
        http.get("/v1/streams/clinic"),
        http.get("/v1/streams/clinic/rounds"),
        http.get("/v1/streams/clinic/events"),
        http.get("/v1/streams/clinic/export"),
        http.get("/metrics"),
        http.post("/v1/streams", json={"name": "ward", "alpha": 0.1}),
        http.post("/v1/streams", json={"name": "shop-c", "alpha": 0.1, "calibrate_from": "clinic"}),
        http.patch("/v1/streams/clinic", json={"alpha": 0.2}),
        http.delete("/v1/streams/clinic"),
        http.delete(f"/v1/streams/clinic/rounds/{theirs}"),
        http.post("/v1/streams/clinic/predictions", json={"scores": [0.5]}),
        http.post(f"/v1/predictions/{theirs}/feedback", json={"miss": True}),
        http.post(f"/v1/predictions/{theirs}/amendment", json={"miss": True}),
        http.put("/v1/streams/clinic/answers/k", json={"miss": True}),
    ]
    assert [one.status_code for one in refused] == [403] * len(refused)
    assert {one.json()["error"]["code"] for one in refused} == {"scope"}
    both = [{"id": mine, "miss": True}, {"id": theirs, "miss": True}]
    kept, other = http.post("/v1/feedback", json={"answers": both}).json()["results"]
    assert (kept["missed"], other["error"]["code"]) == (True, "scope")
    with pytest.raises(TokenError, match="no name of a stream begins with"):
        tokens.create(light, "x", scopes=["read"], now=NOW, streams="*")

"""Nobody gets more than a share, and nobody gets another's."""

import math
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from keyhole.cli import main
from keyhole.errors import InvalidError, RefusedError
from keyhole.service.http.access import RateLimiter
from keyhole.service.http.limits import Limits
from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from tests.service.scene import NOW, Clock, client_of
from tests.service.serving import wait_until


def test_other_headers_do_not_make_another_client(light: Database, clock: Clock) -> None:
    http = client_of(light, clock, requests_per_second=5.0)

    def ask(guess: int) -> int:
        return http.get("/v1/streams", headers={"Authorization": f"Bearer {guess}"}).status_code

    assert [ask(n) for n in range(5)] == [401] * 5
    guesses = count(5)
    wait_until(lambda: ask(next(guesses)) == 429)


def test_a_token_has_a_share_of_its_own(light: Database, clock: Clock) -> None:
    token = tokens.create(light, "own", scopes=["read"], now=NOW)
    http = client_of(light, clock, requests_per_second=5.0)
    bearer = {"Authorization": f"Bearer {token}"}
    assert http.get("/v1/streams", headers=bearer).status_code == 200
    wait_until(lambda: http.get("/v1/streams").status_code == 429)
    assert http.get("/v1/streams", headers=bearer).status_code == 200


def test_who_is_too_fast_is_told_when_to_come_again(light: Database, clock: Clock) -> None:
    http = client_of(light, clock, requests_per_second=1.0)
    answers: list[Any] = []

    def is_refused() -> bool:
        answers.append(http.get("/healthz"))
        return bool(answers[-1].status_code == 429)

    wait_until(is_refused)
    assert answers[-1].headers["retry-after"] == "1"


def test_a_second_brings_a_seconds_worth() -> None:
    clock = Clock()
    limiter = RateLimiter(3.0, clock=clock)
    for _ in range(3):
        limiter.count("a")
    with pytest.raises(RefusedError):
        limiter.count("a")
    limiter.count("b")
    clock.now += 1.0
    for _ in range(3):
        limiter.count("a")
    with pytest.raises(RefusedError):
        limiter.count("a")


def test_many_clients_take_little_room_and_do_not_free_the_fast_one() -> None:
    clock = Clock()
    limiter = RateLimiter(2.0, clock=clock)
    refused = 0
    for n in range(30_000):
        limiter.count(f"passer-by {n}")
        if n % 1000 == 0:
            try:
                limiter.count("fast")
            except RefusedError:
                refused += 1
    assert refused == 28  # All but its first two.
    assert len(limiter._left) <= 10_000


@pytest.mark.parametrize("rate", [math.nan, 0.0, -1.0])
def test_a_rate_that_is_no_limit_is_refused(rate: float) -> None:
    with pytest.raises(InvalidError, match="requests_per_second"):
        Limits(requests_per_second=rate)


def test_the_command_refuses_a_rate_of_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--rate", "nan", "--database", f"sqlite:///{tmp_path}/keyhole.db"]) == 2
    assert "requests_per_second nan" in capsys.readouterr().err


def test_headers_beyond_16_kilobytes_are_refused(one: TestClient) -> None:
    assert one.get("/v1/streams", headers={"X-Long": "a" * 15_000}).status_code == 200
    response = one.get("/v1/streams", headers={"X-Long": "a" * 17_000})
    assert (response.status_code, response.json()["error"]["code"]) == (431, "headers")

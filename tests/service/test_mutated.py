"""Requests that were right, and then changed at random: refused or done, never a server error.

``make fuzz`` sends 100,000 of them to a service on each kind of database, each thousand of them to a
new one, and shows how many were answered with which status. KEYHOLE_SEED chooses others.
"""

import asyncio
import copy
import json
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from keyhole.service.http.app import Settings, create_app
from keyhole.service.http.limits import Limits
from keyhole.service.store.log import replay
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from tests.service.page.examples import play
from tests.service.scene import PATIENT, Clock

REQUESTS = int(os.environ.get("KEYHOLE_REQUESTS", "300"))
SEED = int(os.environ.get("KEYHOLE_SEED", "1"))
AT_ONCE = 1000  # requests to one database
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, 1e-320, 0.1,
    "", "a", "0", "\0", "\ud800", "é", "\U0001f600", "x" * 5000, "cat", "miss", "NaN", "../..", "%00",
    [], [[]], [0.5], [None], ["a", "a"], [0.5] * 2000, {}, {"a": {}}, {"cat": 0.5}, {"": 1},
]  # fmt: skip
QUERIES = [
    "limit=0", "limit=1", "limit=5", "limit=1e9", "after=pets", "after=%00", "offset=-1", "format=csv",
    "format=parquet", "format=x", "words=%27", "only=", "from=0", "a=b&a=c", "%ff",
]  # fmt: skip


class Sent(NamedTuple):
    """A request of a kind that the service takes: its path has braces where names come."""

    method: str
    path: str
    names: dict[str, str]
    body: Any


class Recorder:
    """Asks a service as the examples do, and keeps what was asked, a few of each kind."""

    def __init__(self, ask: Callable[[str, str, bytes], tuple[int, Any]]) -> None:
        self._ask, self._kinds = ask, Counter[tuple[str, str]]()
        self.sent: list[Sent] = []

    def ask(self, path: str, body: Any = None, method: str = "", **names: str) -> Any:
        verb = (method or ("get" if body is None else "post")).upper()
        self._kinds[verb, path] += 1
        if self._kinds[verb, path] > 30 and path.startswith("/v1/"):
            return {"id": ""}  # Enough of them.
        self.sent.append(Sent(verb, path, names, body))
        content = b"" if body is None else json.dumps(body).encode()
        return self._ask(verb, path.format(**names), content)[1]


class Scene:
    """A service in this process, without a server between, and what it answered."""

    def __init__(self, database: Database) -> None:
        limits, self.clock = Limits(requests_per_second=1e9), Clock()
        self._app = create_app(database, Settings(limits=limits, clock=self.clock))
        self._loop = asyncio.new_event_loop()
        self.answered: Counter[int] = Counter()

    def ask(self, method: str, path: str, content: bytes, *headers: tuple[bytes, bytes]) -> Any:
        """Return the status and the JSON of the answer, if it is some."""
        place, _, query = path.partition("?")
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "path": place, "scheme": "http",
            "raw_path": quote(place).encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers],
            "client": ("127.0.0.1", 50_000), "server": ("localhost", 80),
        }  # fmt: skip
        said, asked = list[Any](), [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> Any:
            return asked.pop() if asked else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            said.append(message)

        self._loop.run_until_complete(self._app(scope, receive, send))
        status, kinds = said[0]["status"], dict(said[0]["headers"])
        self.answered[status] += 1
        body = b"".join(one.get("body", b"") for one in said[1:])
        is_json = kinds.get(b"content-type", b"").startswith(b"application/json")
        return status, json.loads(body) if is_json and body else None

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


def change(rng: random.Random, value: Any) -> Any:
    """Return a body with one thing in it that is other."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        made, name = dict(value), rng.choice(list(value))
        what = rng.random()
        if what < 0.15:
            del made[name]
        elif what < 0.3:
            made[rng.choice(["alpah", "key", "metadata", "groups", "chance", "", name + "x"])] = made[
                name
            ]
        else:
            made[name] = change(rng, made[name])
        return made
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        return rng.choice(
            [
                value[:at] + value[at + 1 :],
                value + value[at:],
                [*value[:at], change(rng, value[at]), *value[at + 1 :]],
            ]
        )
    if isinstance(value, float) and rng.random() < 0.3:
        return value * rng.choice([-1, 0.5, 2, 10, 1e6])
    return copy.deepcopy(rng.choice(ODD))


def spoil(rng: random.Random, content: bytes) -> bytes:
    """Return bytes of which some are other, twice there or gone."""
    at, length = rng.randrange(len(content) + 1), rng.randrange(1, 9)
    return (
        content[:at]
        + rng.choice([b"", rng.randbytes(length), content[at : at + length] * 2])
        + content[at + length :]
    )


class Mutant(NamedTuple):
    """A request that was changed."""

    method: str
    path: str
    content: bytes
    headers: list[tuple[bytes, bytes]]


def mutate(rng: random.Random, sent: Sent, ids: list[str]) -> Mutant:
    method, path, names, body = sent.method, sent.path, dict(sent.names), sent.body
    if "id" in names and rng.random() < 0.9:
        names["id"] = rng.choice(ids)
    if names and rng.random() < 0.15:
        other = rng.choice(
            ["pets", "triage", "mail", "shop", "visits", "no-such", "a\0b", "é", "x" * 100]
        )
        names[rng.choice(list(names))] = other
    for _ in range(rng.choice([0, 0, 1, 1, 1, 2, 3]) if body is not None else 0):
        body = change(rng, body)
    content = b"" if sent.body is None else json.dumps(body).encode()
    if rng.random() < 0.05:
        content = spoil(rng, content)
    if rng.random() < 0.05:
        method = rng.choice(["GET", "PUT", "PATCH", "DELETE", "POST", "OPTIONS"])
    query = f"?{rng.choice(QUERIES)}" if rng.random() < (0.5 if method == "GET" else 0.05) else ""
    keys = [b"k1", b"k2", b"", b"\xff", b"x" * 300]
    headers = [(b"idempotency-key", rng.choice(keys))] if rng.random() < 0.1 else []
    return Mutant(method, path.format(**names) + query, content, headers)


def send(scene: Scene, mutant: Mutant, ids: list[str]) -> None:
    """Send a request, check that the answer is a clear one, and note the rounds that it opened."""
    status, answer = scene.ask(mutant.method, mutant.path, mutant.content, *mutant.headers)
    assert status < 500, (mutant, answer)
    if status >= 400:
        assert set(answer["error"]) == {"code", "message", "field"}, (mutant, answer)
    for one in [answer, *(answer.get("predictions") or [])] if isinstance(answer, dict) else []:
        if isinstance(one, dict) and "threshold" in one and "id" in one:
            ids.append(one["id"])
            del ids[:-50]


def test_whatever_is_changed_in_a_request_it_is_refused_or_done_and_every_log_replays(
    make_url: Callable[[], str],
) -> None:
    answered = Counter[int]()
    for start in range(0, REQUESTS, AT_ONCE):
        rng, database = random.Random(SEED + start), Database(make_url(), timeouts=PATIENT)  # noqa: S311
        scene = Scene(database)
        recorder = Recorder(scene.ask)
        play(recorder, scene.clock)  # type: ignore[arg-type]
        ids = [sent.names["id"] for sent in recorder.sent if sent.names.get("id")]
        scene.answered.clear()
        for _ in range(min(AT_ONCE, REQUESTS - start)):
            scene.clock.now += rng.choice([0.0, 1.0, 60.0])
            send(scene, mutate(rng, rng.choice(recorder.sent), ids), ids)
        answered += scene.answered
        scene.close()
        for stream in registry.survey(database).usable:
            assert replay.replay(database, stream.name).difference is None
        database.close()
    print(f"{answered.total():,} requests, by the status of their answer: {sorted(answered.items())}")  # noqa: T201
    assert {200, 201, 404, 409, 422} <= set(answered)


@pytest.fixture(params=["sqlite", "postgres"])
def make_url(request: pytest.FixtureRequest, tmp_path: Any) -> Callable[[], str]:
    """Give the URL of a new database of a kind."""
    if request.param == "postgres":
        made: Callable[[], str] = request.getfixturevalue("postgres")
        return made
    numbers = iter(range(10**6))
    return lambda: f"sqlite:///{tmp_path / f'{next(numbers)}.db'}"

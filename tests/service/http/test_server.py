"""What comes over a connection is neither endless, nor slow, nor too much at once."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.responses import StreamingResponse
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from keyhole.service.http.app import create_app
from keyhole.service.http.limits import Limits
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.serving import Address, hear, say, serving, wait_until

POST = (
    b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n"
)
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
CLOSED = GET + b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path_factory.mktemp('server') / 'keyhole.db'}")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def hasty(database: Database) -> Iterator[Address]:
    """A server that waits for half a second, which any client may miss."""
    limits = Limits(head_seconds=0.5, body_seconds=0.5)
    with serving(create_app(database), limits) as found:
        yield found


@pytest.fixture(scope="module")
def patient(database: Database) -> Iterator[Address]:
    """A server that waits for longer than a test does, and closes for other reasons alone."""
    limits = Limits(head_seconds=3600.0, body_seconds=3600.0, idle_seconds=3600, connections=5)
    with serving(create_app(database), limits) as found:
        yield found


def test_a_head_that_does_not_end_is_cut_off(patient: Address) -> None:
    heard = patient.say(GET + b"X-Long: " + b"a" * 3_000_000)
    assert heard == b"" or heard.startswith(b"HTTP/1.1 400")


def test_trailers_that_do_not_end_are_cut_off(patient: Address) -> None:
    chunked = POST.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked")
    patient.say(chunked + b"1\r\n[\r\n0\r\nX-Long: " + b"a" * 3_000_000)


def test_one_connection_too_many_takes_the_place_of_the_oldest_with_nothing_to_do(
    patient: Address,
) -> None:
    with ExitStack() as stack:
        lines = [stack.enter_context(closing(patient.connect())) for _ in range(5)]
        for line in lines:
            line.sendall(GET + b"\r\n")
            assert hear(line).startswith(b"HTTP/1.1 200")
        assert patient.say(CLOSED).startswith(b"HTTP/1.1 200")
        assert lines[0].recv(1) == b""
        for line in lines[1:]:
            line.sendall(GET + b"\r\n")
            assert hear(line).startswith(b"HTTP/1.1 200")


def connect_from(place: Address, address: str) -> socket.socket:
    return socket.create_connection(
        ("127.0.0.1", place.port), timeout=SECONDS, source_address=(address, 0)
    )


def test_silent_connections_of_one_address_lock_nobody_out(database: Database) -> None:
    limits = Limits(head_seconds=3600.0, connections=40, address_connections=30)
    with serving(create_app(database), limits) as place, ExitStack() as stack:
        for address in ("127.0.0.2",) * 60 + ("127.0.0.3",) * 60:
            stack.enter_context(closing(connect_from(place, address)))
        for address in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
            with closing(connect_from(place, address)) as line:
                assert say(line, CLOSED).startswith(b"HTTP/1.1 200"), address


def test_where_all_connections_of_an_address_are_at_work_probes_alone_are_answered(
    database: Database,
) -> None:
    limits = Limits(body_seconds=3600.0, address_connections=3)
    with serving(create_app(database), limits) as place, ExitStack() as stack:
        for _ in range(3):  # Their bodies do not come.
            line = stack.enter_context(closing(place.connect()))
            line.sendall(POST)
        wait_until(lambda: place.say(CLOSED.replace(b"/healthz", b"/v1/streams"))[9:12] == b"503")
        assert place.say(CLOSED).startswith(b"HTTP/1.1 200")
        with closing(connect_from(place, "127.0.0.2")) as other:
            assert say(other, CLOSED.replace(b"/healthz", b"/v1/streams")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("said", [b"", GET, POST, POST + b'{"name": '])
def test_who_stops_in_the_middle_is_left(hasty: Address, said: bytes) -> None:
    hasty.say(said)  # Returns only once the other side has closed.


def test_who_has_nothing_more_to_say_is_left(database: Database) -> None:
    limits = Limits(head_seconds=3600.0, idle_seconds=1)
    with serving(create_app(database), limits) as found:
        assert found.say(GET + b"\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("path", [b"/healthz", b"/readyz"])
def test_a_probe_that_asks_for_the_head_alone_gets_that(patient: Address, path: bytes) -> None:
    heard = patient.say(b"HEAD " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    head, _, body = heard.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body == b""


def test_a_body_that_comes_in_pieces_is_waited_for(patient: Address) -> None:
    body = b'{"name": "pieces", "alpha": 0.1}'
    head = POST.replace(b"1000", str(len(body)).encode()).replace(b"Host", b"Connection: close\r\nHost")
    with closing(patient.connect()) as line:
        line.sendall(head + body[:10])
        assert say(line, body[10:]).startswith(b"HTTP/1.1 201")


def test_a_request_that_is_half_sent_holds_up_nobody(database: Database) -> None:
    limits = Limits(head_seconds=3600.0, body_seconds=3600.0)
    with serving(create_app(database), limits) as found, ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(closing(found.connect())).sendall(POST)
        assert httpx.get(f"{found.url}/healthz", timeout=SECONDS).status_code == 200


def with_a_large_file(database: Database) -> FastAPI:
    app = create_app(database)
    app.add_api_route("/large", lambda: StreamingResponse(b"a" * 16_384 for _ in range(300)))
    return app


def ask_and_not_read(address: Address, request: bytes) -> socket.socket:
    line = socket.socket()
    line.settimeout(SECONDS)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect(("127.0.0.1", address.port))
    with suppress(ConnectionError):  # We may be left before everything is said.
        line.sendall(request)
    return line


@pytest.mark.parametrize("ending", [b"", b"Connection: close\r\n"])
def test_who_does_not_read_the_answer_is_left(database: Database, ending: bytes) -> None:
    # Many small answers fill the buffers as one large one does.
    asked = (GET + b"\r\n") * 2_000 + b"GET /large HTTP/1.1\r\nHost: localhost\r\n"
    limits = Limits(unread_seconds=0.5, idle_seconds=1, connections=2)
    with serving(with_a_large_file(database), limits) as narrow, ExitStack() as stack:
        for _ in range(2):
            line = ask_and_not_read(narrow, asked + ending + b"\r\n")
            stack.enter_context(closing(line))
        wait_until(lambda: narrow.say(GET + b"Connection: close\r\n\r\n") != b"")


def read_slowly(line: socket.socket) -> tuple[int, float]:
    """Return how many bytes were heard, and the longest time that nothing was."""
    heard, longest, at = 0, 0.0, time.monotonic()
    with suppress(ConnectionError):
        while piece := line.recv(65_536):
            heard += len(piece)
            longest, at = max(longest, time.monotonic() - at), time.monotonic()
            time.sleep(0.004)
    return heard, max(longest, time.monotonic() - at)


def test_who_reads_slowly_is_told_everything(database: Database) -> None:
    request = b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with serving(with_a_large_file(database), Limits(unread_seconds=2.0)) as hasty:
        for _ in range(20):
            with closing(ask_and_not_read(hasty, request)) as line:
                heard, pause = read_slowly(line)
            if heard > 4_000_000 or pause < 1.0:
                break  # Otherwise we stood still: that is not to read slowly, but not at all.
    assert heard > 4_000_000


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/page/examples.json"])
def test_a_file_is_sent_in_pieces_that_few_can_pile_up(one: TestClient, path: str) -> None:
    with one.stream("GET", path, headers={"Accept-Encoding": "identity"}) as response:
        pieces = [len(piece) for piece in response.iter_raw()]
    assert response.headers["content-length"] == str(sum(pieces))
    assert max(pieces) <= 16_384


def test_the_database_file_is_its_owners_alone(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'private.db'}")
    with database.write():
        modes = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
    database.close()
    assert set(modes) >= {"private.db", "private.db-wal"}
    assert set(modes.values()) == {"0o600"}


def test_uvicorn_has_the_private_parts_that_the_protocol_overrides() -> None:
    """They are not public: the range of versions in pyproject.toml moves only if this still holds."""
    for name in ("_unsupported_upgrade_warning", "timeout_keep_alive_handler", "send_400_response"):
        assert callable(getattr(HttpToolsProtocol, name))

"""The service behind its real server, in a thread of this process, and raw connections to it."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import takewhile

from fastapi import FastAPI

from keyhole.service.http.limits import Limits
from keyhole.service.http.server import make_server
from tests.patience import SECONDS


@dataclass(frozen=True)
class Address:
    """Where a service listens."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)

    def say(self, content: bytes) -> bytes:
        """Send bytes, and return all that comes back until the other side closes."""
        with closing(self.connect()) as line:
            return say(line, content)


def say(line: socket.socket, content: bytes) -> bytes:
    heard = b""
    try:
        line.sendall(content)
        while piece := line.recv(65_536):
            heard += piece
    except ConnectionError:
        pass  # Closed while we were speaking: what was heard until then stands.
    return heard


def hear(line: socket.socket) -> bytes:
    """One whole answer, however many pieces it comes in, from a line that stays open."""
    with line.makefile("rb") as reader:
        head = b"".join(takewhile(lambda line: line not in (b"", b"\r\n"), reader))
        length = re.search(rb"(?im)^content-length: (\d+)", head)
        assert length, head
        return head + b"\r\n" + reader.read(int(length[1]))


@contextmanager
def serving(app: FastAPI, limits: Limits | None = None) -> Iterator[Address]:
    """Serve until the block is left."""
    app.state.limits = limits or app.state.limits
    server = make_server(app, host="127.0.0.1", port=0)
    listening = server.config.bind_socket()
    listening.listen(1024)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield Address(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        assert not thread.is_alive()


def wait_until(true: object) -> None:
    """Return once the condition holds, or fail."""
    assert callable(true)
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)

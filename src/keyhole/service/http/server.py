"""The server in front of the service: uvicorn, with bounds on what a connection may take.

uvicorn's faster protocol neither bounds the head of a request nor the time that a head or a body takes
to arrive, and its slower one bounds the head alone; ``BoundedProtocol`` adds what is missing.
"""

import asyncio
import gc
import signal
import socket
import sys
from contextlib import nullcontext
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from keyhole.errors import InvalidError, LostDatabaseError
from keyhole.service.http.limits import Limits
from keyhole.service.http.middleware import respond
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import registry
from keyhole.service.store.streams.stream import compile_streams
from keyhole.service.wire.responses import Fault

_SECONDS_TO_FINISH = 1
_MOST_FRAMING = 1_000_000  # Bytes of a body's chunk headers and trailers.
_MOST_UNREAD = 131_072  # Bytes of an answer that the kernel holds; it doubles that for its own.
_MOST_UNSENT = 16_384  # Bytes beyond those, of a response that is still being made.
_MOST_EXTRA, _SECONDS_FOR_PROBE = 32, 2.0  # connections beyond the bounds, for probes alone
_PROBES = (b"/healthz", b"/readyz")
_LEAST_READ = 32_768  # Bytes that a slow reader must take before it is looked at again.


class Connections:
    """The connections of a server, by the address they come from, the oldest first."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._count, self._extra = limits, 0, 0
        self._by_address: dict[str, dict[BoundedProtocol, None]] = {}

    def add(self, new: "BoundedProtocol") -> bool:
        """Take a connection in, or return False if there is no room and none can be made."""
        own = self._by_address.get(new.address, {})
        full = own if len(own) >= self._limits.address_connections else None
        if full is None and self._count >= self._limits.connections:
            full = max(self._by_address.values(), key=len)
        if full is not None:
            silent = next((one for one in full if one.is_silent), None)
            if silent is not None:
                self.remove(silent)
                silent.transport.abort()
            elif self._extra >= _MOST_EXTRA:
                return False
            else:
                new.is_extra = True
                self._extra += 1
                return True
        self._by_address.setdefault(new.address, {})[new] = None
        self._count += 1
        return True

    def remove(self, old: "BoundedProtocol") -> None:
        """Forget a connection, if it is known."""
        if old.is_extra:
            old.is_extra = False
            self._extra -= 1
            return
        own = self._by_address.get(old.address, {})
        if old in own:
            del own[old]
            self._count -= 1
            if not own:
                del self._by_address[old.address]


async def refuse_all(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request on a connection that is there for probes alone."""
    message = "too many connections are at work; try again, or close some"
    await respond(Fault("busy", message, None), status=503)(scope, receive, send)


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is closed when what comes over it is too much, or too slow."""

    def __init__(self, *arguments: Any, limits: Limits, connections: Connections, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits, self._timer, self._connections = limits, None, connections
        self.is_extra, self.address = False, ""  # whether it is there for probes alone, and from where
        self._in_head, self._framing, self._unread = True, 0, None

    _timer: asyncio.TimerHandle | None
    _unread: asyncio.TimerHandle | None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # What the kernel holds of an answer that is not read; by itself it would let that grow.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_UNREAD)
        transport.set_write_buffer_limits(high=_MOST_UNSENT)
        self.address = (self.client or ("",))[0]
        if not self._connections.add(self):
            transport.close()
            return
        self._set_timer(_SECONDS_FOR_PROBE if self.is_extra else self._limits.head_seconds)

    @property
    def is_silent(self) -> bool:
        """Whether no request of it is at work, and none of its responses is being read."""
        done = self.cycle is None or self.cycle.response_complete
        return done and not self.transport.get_write_buffer_size()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._set_timer(None)
        self._forget_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._framing += len(data)
        super().data_received(data)
        most = self._limits.head_bytes if self._in_head else _MOST_FRAMING
        if self._framing > most and not self.transport.is_closing():
            self.send_400_response("The headers are too large.")

    def on_message_begin(self) -> None:
        self._in_head, self._framing = True, 0  # What came before it in the same piece is not its own.
        self._set_timer(self._limits.head_seconds)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._framing = False, 0
        self._set_timer(self._limits.body_seconds)
        if self.is_extra and self.url.partition(b"?")[0] not in _PROBES:
            self.app = refuse_all
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._set_timer(None)
        super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: anybody may ask for a WebSocket, as often as they like."""

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        self._forget_reader()
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_reader()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_reader()  # Closing waits until everything is read.

    def _watch_reader(self) -> None:
        self._forget_reader()
        left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self._limits.unread_seconds, self._check_reader, left)

    def _check_reader(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < _LEAST_READ:
            self.transport.abort()
        else:
            self._watch_reader()

    def _forget_reader(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()


def make_server(app: FastAPI, *, host: str, port: int) -> uvicorn.Server:
    """Return a server that is bounded, and believes nobody about where a request comes from."""
    limits: Limits = app.state.limits
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=partial(BoundedProtocol, limits=limits, connections=Connections(limits)),  # type: ignore[arg-type]
        ws="none",
        proxy_headers=False,
        server_header=False,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    return uvicorn.Server(config)


def run(app: FastAPI, *, host: str, port: int) -> None:
    """Serve until interrupted, from when the kernels are compiled; raise if the database is lost.

    SIGTERM and Ctrl-C end it in order: what was begun is finished, and the function returns.
    """
    database = app.state.database
    found = registry.survey(database)
    app.state.quarantine.update(found.quarantined)
    compile_streams(found.usable)
    server = make_server(app, host=host, port=port)
    lost = stop_if_lost(server, database)
    listening = bind(host, port)
    listening.listen(server.config.backlog)  # From now on a request waits instead of being refused.
    address, bound = listening.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    sys.stderr.write(f"Keyhole listens on http://{shown}:{bound}\n")
    sys.stderr.flush()
    # What is there by now stays: to look through it for garbage would halt requests for a tenth of a
    # second, now and again.
    gc.freeze()

    def stop(*_signal: object) -> None:
        server.should_exit = True

    # The server takes both signals while it runs, and raises them again when it has finished.
    before = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGINT)}
    with app.state.webhooks or nullcontext():
        server.run([listening])
    for one, handler in before.items():
        signal.signal(one, handler)
    app.state.queues.close()
    if lost:
        raise lost[0]


def bind(host: str, port: int) -> socket.socket:
    """Return a socket at an address, or raise if another program has it or there is none such."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise InvalidError(
            f"cannot listen on {host}, port {port}: {error.strerror}; end the program that has it, or "
            "choose another --port or --host"
        ) from None
    bound.set_inheritable(True)
    return bound


def stop_if_lost(server: uvicorn.Server, database: Database) -> list[LostDatabaseError]:
    """Let the server stop within a second once the database's file is gone; return where it says so."""
    found: list[LostDatabaseError] = []

    async def check() -> None:
        try:
            database.check_file()
        except LostDatabaseError as error:
            found[:] = [error]
            server.should_exit = True

    server.config.callback_notify, server.config.timeout_notify = check, 1
    return found

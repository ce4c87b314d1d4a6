"""What every request passes through: limits, origin, headers, a log line, the latency metric."""

import json
import logging
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyhole.errors import (
    ForeignRequestError,
    KeyholeError,
    MediaTypeError,
    TooFastError,
    TooLargeError,
)
from keyhole.service import problems
from keyhole.service.access import Access, check_host
from keyhole.service.watch import Gauges

log = logging.getLogger("keyhole.service")
_BODILESS = ("GET", "HEAD", "OPTIONS")
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request, and one client, may ask of the service."""

    body_bytes: int = 8_000_000
    requests_per_second: float = 2_000.0
    labels: int = 10_000
    batch: int = 1_000
    label_length: int = 200


class Gate:
    """The outermost layer of the service."""

    def __init__(self, app: ASGIApp, *, access: Access, limits: Limits, gauges: Gauges) -> None:
        self._app, self._access, self._limits, self._gauges = app, access, limits, gauges
        self._buckets = Buckets(limits.requests_per_second, clock=time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here; log it either way."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, visit = time.perf_counter(), _Visit(send)
        try:
            await self._check(scope)
            if scope["method"] not in _BODILESS:
                receive = await _whole(receive, self._limits.body_bytes)
            await self._app(scope, receive, visit.send)
        except KeyholeError as error:
            if visit.status:
                raise
            await refusal(error)(scope, receive, visit.send)
        finally:
            self._record(scope, visit.status, time.perf_counter() - began)

    async def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        check_host(headers.get("host"), guarded=await self._access.tokens_in_use())
        client = headers.get("authorization") or (scope.get("client") or ("",))[0]
        self._buckets.take(client)
        if scope["method"] in _BODILESS:
            return
        _check_origin(headers)
        if _declared(headers) > self._limits.body_bytes:
            raise _too_large(self._limits.body_bytes)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and _declared(headers, default=1) > 0:
            raise MediaTypeError(f"the body is {kind[:80]!r}; send it as application/json")

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", "other")
        self._gauges.request(scope["method"], path, status, seconds)
        if not log.isEnabledFor(logging.INFO):
            return
        noted: MutableMapping[str, Any] = scope.get("state", {}).get("noted", {})
        line = {"method": scope["method"], "route": path, "status": status, **noted}
        log.info(json.dumps({**line, "ms": round(seconds * 1e3, 2)}))


class Buckets:
    """How many requests each client may still send: so many a second, and a second's worth at once."""

    _MOST_CLIENTS = 10_000

    def __init__(self, rate: float, *, clock: Callable[[], float]) -> None:
        self._rate, self._clock = rate, clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, client: str) -> None:
        """Count a request, or raise if the client is too fast."""
        now = self._clock()
        left, at = self._left.get(client, (self._rate, now))
        left = min(self._rate, left + (now - at) * self._rate)
        if left < 1.0:
            raise TooFastError(
                f"more than {self._rate:g} requests a second; slow down, or send them in batches"
            )
        if len(self._left) >= self._MOST_CLIENTS:
            self._left.clear()
        self._left[client] = (left - 1.0, now)


def refusal(error: KeyholeError, *, field: str | None = None) -> JSONResponse:
    """Return the response that says what went wrong."""
    problem = problems.problem_of(error)
    headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else None
    return JSONResponse(problems.body(error, field=field), status_code=problem.status, headers=headers)


class _Visit:
    """Notes the status of a response and adds the headers that every response has."""

    def __init__(self, send: Send) -> None:
        self._send, self.status = send, 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await self._send(message)


async def _whole(receive: Receive, most: int) -> Receive:
    """Return what gives the whole body at once, or raise as soon as it is longer than it may be."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most:
            raise _too_large(most)
    left: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


def _check_origin(headers: Headers) -> None:
    """Raise if a page of another site sent this: browsers say so, and nothing else does."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        raise ForeignRequestError(
            f"the request comes from {origin[:80]!r}; only the service's own page may send it"
        )


def _declared(headers: Headers, *, default: int = 0) -> int:
    length = headers.get("content-length")
    if length is None:
        return default if "transfer-encoding" in headers else 0
    return int(length) if length.isdecimal() else default


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(f"the body is larger than {most:,} bytes; send smaller batches")

"""What every request passes through, one layer a concern; ``app.py`` says in which order."""

import json
import logging
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyhole.errors import ForeignRequestError, HeadersError, KeyholeError, MediaTypeError
from keyhole.service.http import problems, responses, views
from keyhole.service.http.access import Access, check_local
from keyhole.service.http.limits import RateLimiter
from keyhole.service.http.outage import Outage
from keyhole.service.http.watch import Gauges
from keyhole.service.times import show_time

log = logging.getLogger("keyhole.service")
_PROBES = ("/healthz", "/readyz")
_BODILESS = ("GET", "HEAD", "OPTIONS")
_SECONDS_TO_RETRY = {429: "1", 503: "1"}
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
    "cache-control": "no-store",
}


class LogRequests:
    """Writes a line for every request, and counts it."""

    def __init__(self, app: ASGIApp, *, access: Access, gauges: Gauges, outage: Outage) -> None:
        self._app, self._access, self._gauges, self._outage = app, access, gauges, outage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and record what became of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            self._record(scope, status, time.perf_counter() - began)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        path = getattr(scope.get("route"), "path", "other")
        self._gauges.request(scope["method"], path, status, seconds)
        if 200 <= status < 300 and path.startswith("/v1") and scope["method"] not in _BODILESS:
            self._outage.end()  # Reading goes on when a disk is full: only a change shows the end.
        if not log.isEnabledFor(logging.INFO):
            return
        line: dict[str, Any] = {"method": scope["method"], "route": path, "status": status}
        line |= scope.get("state", {}).get("noted", {})
        ends = {"ms": round(seconds * 1e3, 2)}
        log.info(json.dumps({"time": show_time(time.time()), **self._sender(scope), **line, **ends}))

    def _sender(self, scope: Scope) -> dict[str, Any]:
        """Return who sent a request: what is known of them, and what a proxy says."""
        headers = Headers(scope=scope)
        said = {"client": _peer(scope), "token": self._access.recognise(headers.get("authorization"))}
        forwarded = headers.get("x-forwarded-for")
        return said if forwarded is None else {**said, "forwarded": forwarded[:80]}


class AddHeaders:
    """Adds the headers that every response has."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add to its response."""

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, add)


class AnswerErrors:
    """Turns whatever is raised within into a response that says what went wrong."""

    def __init__(self, app: ASGIApp, *, outage: Outage) -> None:
        self._app, self._outage = app, outage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with what was raised."""
        started = False

        async def note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, note)
        except ClientDisconnect:
            gone = views.show_fault("disconnected", "the connection ended before the body did")
            await respond(gone, status=400)(scope, receive, send)  # Nobody hears it but the log.
        except Exception as error:
            if not started:
                await self._answer(error, scope)(scope, receive, send)
            elif isinstance(error, KeyholeError):
                self._outage.notice(error)  # The server cuts the response off, which shows it.
            else:
                raise

    def _answer(self, error: Exception, scope: Scope) -> Response:
        if not isinstance(error, KeyholeError):
            log.error("a request failed", exc_info=error)
            message = "something went wrong here; the log of the service says what"
            return respond(views.show_fault("unexpected", message), status=500)
        self._outage.notice(error)
        fields = scope.get("state", {}).get("fields", {})
        status = problems.find_problem(error).status
        return respond(views.show_problem(error, field=fields.get(type(error))), status=status)


class LimitRate:
    """Counts the requests of every token, and of every address without one."""

    def __init__(self, app: ASGIApp, *, access: Access, limiter: RateLimiter) -> None:
        self._app, self._access, self._limiter = app, access, limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or raise if its sender is too fast."""
        if scope["type"] == "http":
            known = self._access.recognise(Headers(scope=scope).get("authorization"))
            self._limiter.count(f"address {_peer(scope)}" if known is None else f"token {known}")
        await self._app(scope, receive, send)


class CheckSender:
    """Lets in what this machine sends, and what carries a token; never what another site sends."""

    def __init__(self, app: ASGIApp, *, access: Access, head_bytes: int) -> None:
        self._app, self._access, self._head_bytes = app, access, head_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or raise if it should not be here."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            self._check_size(scope)
            # A probe must not wait for the database, nor for a thread to ask it.
            probe = scope["path"] in _PROBES
            if not (self._access.guarded if probe else await self._access.needs_token()):
                check_local(headers, peer=_peer(scope))
            if scope["method"] not in _BODILESS:
                _check_origin(headers)
                _check_kind(headers)
        await self._app(scope, receive, send)

    def _check_size(self, scope: Scope) -> None:
        size = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
        if size + len(scope.get("raw_path") or b"") + len(scope["query_string"]) > self._head_bytes:
            raise HeadersError(f"the headers are larger than {self._head_bytes:,} bytes; send less")


def respond(problem: responses.Problem, *, status: int) -> Response:
    """Return the response that says what went wrong, and when to try again where that helps."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status in _SECONDS_TO_RETRY:
        headers["Retry-After"] = _SECONDS_TO_RETRY[status]
    return Response(problem.model_dump_json(), status, media_type="application/json", headers=headers)


def _peer(scope: Scope) -> str:
    return (scope.get("client") or ("",))[0]


def _check_origin(headers: Headers) -> None:
    """Raise if a page of another site sent this: browsers say so, and nothing else does."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        raise ForeignRequestError(
            f"the request comes from {origin[:80]!r}; only the service's own page may send it"
        )


def _check_kind(headers: Headers) -> None:
    """Raise if there is a body that is not JSON: forms of other sites can send nothing else."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    if kind != "application/json" and not empty:
        raise MediaTypeError(f"the body is {kind[:80]!r}; send it as application/json")

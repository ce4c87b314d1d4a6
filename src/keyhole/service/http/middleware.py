"""What every request passes through, one layer a concern; ``app.py`` says in which order."""

import json
import logging
import time
from typing import Any

from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyhole.errors import KeyholeError
from keyhole.service.http import problems, round_responses
from keyhole.service.http.access import BODILESS, Access, Admission, find_peer
from keyhole.service.http.bodies import TAKEN, Bodies
from keyhole.service.http.outage import Outage
from keyhole.service.http.watch import Gauges
from keyhole.service.times import show_time

log = logging.getLogger("keyhole.service")
_SECONDS_TO_RETRY = {429: "1", 503: "1"}
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


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
        count = scope.get("state", {}).get("count")
        if count is not None:
            count()
        # Reading goes on when a disk is full: only a change shows the end.
        changed = 200 <= status < 300 and path.startswith("/v1") and scope["method"] not in BODILESS
        if changed and self._outage.is_on:
            self._outage.end()
        if not log.isEnabledFor(logging.INFO):
            return
        line: dict[str, Any] = {"method": scope["method"], "route": path, "status": status}
        line |= scope.get("state", {}).get("noted", {})
        ends = {"ms": round(seconds * 1e3, 2)}
        log.info(json.dumps({"time": show_time(time.time()), **self._sender(scope), **line, **ends}))

    def _sender(self, scope: Scope) -> dict[str, Any]:
        """Return who sent a request: what is known of them, and what a proxy says."""
        headers = Headers(scope=scope)
        said = {
            "client": find_peer(scope),
            "token": self._access.recognise(headers.get("authorization")),
        }
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
                present = {name for name, _ in message["headers"]}
                more = [header for header in _HEADERS if header[0] not in present]
                message["headers"] = [*message["headers"], *more]
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
            gone = problems.show_fault("disconnected", "the connection ended before the body did")
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
            return respond(problems.show_fault("unexpected", message), status=500)
        self._outage.notice(error)
        fields = scope.get("state", {}).get("fields", {})
        status = problems.find_problem(error).status
        return respond(problems.show_problem(error, field=fields.get(type(error))), status=status)


class ReleaseBodies:
    """Counts what a body took no more, once its request is done."""

    def __init__(self, app: ASGIApp, *, bodies: Bodies) -> None:
        self._app, self._bodies = app, bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and release its body."""
        try:
            await self._app(scope, receive, send)
        finally:
            self._bodies.taken -= scope.get("state", {}).get(TAKEN, 0)


class CheckSender:
    """Lets in only what may be here."""

    def __init__(self, app: ASGIApp, *, admission: Admission) -> None:
        self._app, self._admission = app, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or raise if it should not be here."""
        if scope["type"] == "http":
            await self._admission.check(scope)
        await self._app(scope, receive, send)


def respond(problem: round_responses.Problem, *, status: int) -> Response:
    """Return the response that says what went wrong, and when to try again where that helps."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status in _SECONDS_TO_RETRY:
        headers["Retry-After"] = _SECONDS_TO_RETRY[status]
    return Response(to_json(problem), status, media_type="application/json", headers=headers)

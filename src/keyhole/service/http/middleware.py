"""What every request passes through: one pass, and one object a concern."""

import json
import logging
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pydantic_core import to_json
from starlette.datastructures import Headers, State
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyhole.errors import KeyholeError
from keyhole.service.http.access import BODILESS, Access, Admission
from keyhole.service.http.bodies import TAKEN, Bodies
from keyhole.service.wire.problems import find_problem, show_problem
from keyhole.service.wire.responses import Fault, Problem, show_time

if TYPE_CHECKING:
    from keyhole.service.http.health import Outage
    from keyhole.service.http.prometheus import Metrics
    from keyhole.service.http.webhooks import Webhooks

log = logging.getLogger("keyhole.service")
STATUS = "status"  # what a request's state says of its response, once that begins
_LEAST_COMPRESSED, _LEVEL = 1000, 5  # bytes
_AS_THEY_ARE = ("/events", "/export")  # Events would wait for more, and exports are long.
_SECONDS_TO_RETRY = {429: "1", 503: "1"}
_HEADERS = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; "
    b"img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class HandleRequests:
    """Every request passes here once: it is let in, answered whatever is raised, logged and counted."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app, self._admission = app, Admission(state.access, state.limits)
        self._bodies: Bodies = state.bodies
        self._outage: Outage = state.outage
        self._log = RequestLog(state)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, state = time.perf_counter(), scope.setdefault("state", {})

        def send_on(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                state[STATUS] = message["status"]
                message["headers"] = list({**_HEADERS, **dict(message["headers"])}.items())
            return send(message)

        try:
            await self._admission.check(scope)
            await self._app(scope, receive, send_on)
        except Exception as error:  # noqa: BLE001 - it is raised again where nobody can be told.
            self._outage.notice(error)
            if (response := explain_failure(error, scope)) is not None:
                await response(scope, receive, send_on)
        finally:
            self._bodies.taken -= state.get(TAKEN, 0)  # What its body took counts no more.
            self._log.record(scope, time.perf_counter() - began)


class RequestLog:
    """Writes a line for every request, and counts it."""

    def __init__(self, state: State) -> None:
        self._access: Access = state.access
        self._metrics: Metrics = state.metrics
        self._outage: Outage = state.outage
        self._webhooks: Webhooks | None = state.webhooks

    def record(self, scope: Scope, seconds: float) -> None:
        state, path = scope["state"], getattr(scope.get("route"), "path", "other")
        status = state.get(STATUS, 0)
        self._metrics.count_request(scope["method"], path, status, seconds)
        if "count" in state:
            state["count"]()
        if self._webhooks is not None and 400 <= status < 500:
            self._webhooks.count_refused(path, status)
        # Reading goes on when a disk is full: only a change shows the end.
        changed = 200 <= status < 300 and path.startswith("/v1") and scope["method"] not in BODILESS
        if changed and self._outage.is_on:
            self._outage.end()
        if not log.isEnabledFor(logging.INFO):
            return
        line: dict[str, object] = {"time": show_time(time.time()), **self._describe_sender(scope)}
        line |= {"method": scope["method"], "route": path, "status": status}
        if name := scope.get("path_params", {}).get("name"):
            line["stream"] = name[:64]
        line |= {**state.get("logged", {}), "ms": round(seconds * 1e3, 2)}
        log.info(json.dumps(line))

    def _describe_sender(self, scope: Scope) -> dict[str, str | None]:
        """Return who sent a request: what is known of them, and what a proxy says."""
        headers = Headers(scope=scope)
        token = self._access.recognise(headers.get("authorization"))
        sender = {"client": (scope.get("client") or ("",))[0], "token": token}
        forwarded = headers.get("x-forwarded-for")
        return sender if forwarded is None else {**sender, "forwarded": forwarded[:80]}


class CompressReads:
    """Compresses what is read, for who can take that; the response to a write is small and pressing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._compressed = app, GZipMiddleware(app, _LEAST_COMPRESSED, _LEVEL)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        reads = scope["type"] == "http" and scope["method"] == "GET"
        chosen = self._compressed if reads and not scope["path"].endswith(_AS_THEY_ARE) else self._app
        return chosen(scope, receive, send)


def explain_failure(error: Exception, scope: Scope) -> Response | None:
    """Return what tells the sender; None where a response is cut off, which shows it."""
    is_begun = STATUS in scope["state"]
    if isinstance(error, ClientDisconnect):  # Nobody reads it but the log.
        gone = Fault("disconnected", "the connection ended before the body did", None)
        return respond(gone, status=400)
    if isinstance(error, KeyholeError):
        fields = scope["state"].get("fields", {})
        problem = show_problem(error, field=fields.get(type(error)))
        return None if is_begun else respond(problem.error, status=find_problem(error).status)
    if is_begun:
        raise error
    log.error("a request failed", exc_info=error)
    message = "something went wrong here; the log of the service says what"
    return respond(Fault("unexpected", message, None), status=500)


def respond(fault: Fault, *, status: int) -> Response:
    """Return the response that says what went wrong, and when to try again where that helps."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status in _SECONDS_TO_RETRY:
        headers["Retry-After"] = _SECONDS_TO_RETRY[status]
    return Response(to_json(Problem(fault)), status, media_type="application/json", headers=headers)

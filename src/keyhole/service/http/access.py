"""Who may do what: tokens where there are any, and this machine alone where there are none.

``keyhole serve`` makes one at its first start unless it is told to be open: what a proxy passes on
cannot always be told from what this machine asks. A service that asks for tokens never stops doing so
while it runs, whatever is revoked; one that asks for none begins to as soon as there is one. Until then
it answers to nobody but this machine: neither to another address, nor to another name, nor to a proxy
that says that it speaks for somebody else.
"""

import hashlib
import ipaddress
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from itertools import chain

from anyio import to_thread
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope as ScopeOfRequest

from keyhole.errors import BusyError, InvalidError, RefusedError, TokenError
from keyhole.service.http.limits import Limits
from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from keyhole.service.store.tokens import Scope, Token

_SECONDS_TO_TRUST = 1.0
_MOST_REMEMBERED = 10_000
_MOST_WAITING = 64
_PROBES = ("/healthz", "/readyz")
BODILESS = ("GET", "HEAD", "OPTIONS")
_FORWARDING = {
    b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"x-original-host",
    b"true-client-ip", b"cf-connecting-ip", b"fastly-client-ip", b"fly-client-ip", b"client-ip",
    b"x-original-forwarded-for", b"x-envoy-external-address", b"x-azure-clientip",
    b"x-appengine-user-ip", b"x-proxyuser-ip", b"cf-ray",
}  # fmt: skip
_FORWARDED = b"x-forwarded"  # -for, -host, -proto, ...


class Access:
    """Looks tokens up, and remembers for a second what it found."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock, self.guarded = database, clock, tokens.in_use(database)
        self._looked = time.monotonic()
        self._found: dict[bytes, tuple[float, Token]] = {}

    async def needs_token(self) -> bool:
        """Return whether requests need a token: once they do, they always will."""
        now = time.monotonic()
        if not self.guarded and now - self._looked >= _SECONDS_TO_TRUST:
            self._looked = now
            found = await run_in_threadpool(tokens.in_use, self._database)
            self.guarded = self.guarded or found
        return self.guarded

    async def check(
        self, header: str | None, scope: Scope, *, stream: str | None = None
    ) -> Token | None:
        """Return the token of the Authorization header, None if none is needed; or raise.

        It must allow this, and be for the stream, if it is about one.
        """
        if header is None:
            if await self.needs_token():
                raise TokenError(
                    "this needs a token; send 'Authorization: Bearer ...' "
                    "(keyhole token shows the first one, keyhole token create makes another)"
                )
            return None
        token = await self._verify(header)
        if not token.allows(scope):
            allowed = ", ".join(sorted(token.scopes))
            raise RefusedError(
                f"the token allows {allowed}, and this needs {scope.value}", code="scope"
            )
        if stream is not None:
            check_stream(token, stream)
        return token

    def recognise(self, header: str | None) -> str | None:
        """Return the id of a token that was good when it was last looked up."""
        known = None if header is None else self._found.get(_digest(header))
        return None if known is None else known[1].id

    async def _verify(self, header: str) -> Token:
        kind, _, given = header.partition(" ")
        if kind.lower() != "bearer":
            raise TokenError("the Authorization header is not 'Bearer ...'")
        # Neither the header nor the token stays in memory: whoever reads it would have them.
        key, now = _digest(header), time.monotonic()
        known = self._found.get(key)
        if known is not None and now - known[0] < _SECONDS_TO_TRUST:
            return known[1]
        try:
            check_threads()
            now_ = self._clock()
            token = await run_in_threadpool(tokens.verify, self._database, given, now=now_)
        except TokenError:
            self._found.pop(key, None)
            raise
        if len(self._found) >= _MOST_REMEMBERED:
            self._found.clear()
        self._found[key] = (now, token)
        return token


def check_threads() -> None:
    """Raise if too many requests wait for a thread already: the database keeps all of them."""
    waiting = to_thread.current_default_thread_limiter().statistics().tasks_waiting
    if waiting >= _MOST_WAITING:
        raise BusyError(f"{waiting} requests wait for the database already; try again")


class RateLimiter:
    """How many requests each client may still send: so many a second, and a second's worth at once."""

    _MOST_CLIENTS = 10_000

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._left: dict[str, tuple[float, float]] = {}

    def count(self, client: str) -> None:
        """Count a request, or raise if the client is too fast."""
        now = self._clock()
        left, at = self._left.pop(client, (self._rate, now))
        left = min(self._rate, left + (now - at) * self._rate)
        fast = left < 1.0
        # Put back at the end: the first in the table are those that have been quiet the longest.
        self._left[client] = (left if fast else left - 1.0, now)
        if len(self._left) > self._MOST_CLIENTS:
            del self._left[next(iter(self._left))]
        if fast:
            raise RefusedError(
                f"more than {self._rate:g} requests a second; slow down, or send them in batches",
                code="too_fast",
            )


class Admission:
    """Lets in what this machine sends, and what carries a token; never what another site sends.

    It counts the requests of every token, and of every address without one.
    """

    def __init__(self, access: Access, limits: Limits) -> None:
        self._access, self._head_bytes = access, limits.head_bytes
        self._limiter = RateLimiter(limits.requests_per_second)

    async def check(self, scope: ScopeOfRequest) -> None:
        """Raise if a request should not be here, or its sender is too fast."""
        headers, (peer, _) = Headers(scope=scope), scope.get("client") or ("", 0)
        known = None
        if header := headers.get("authorization"):
            known = self._access.recognise(header)
        self._limiter.count(f"address {peer}" if known is None else f"token {known}")
        size = 4 * len(headers.raw) + sum(map(len, chain.from_iterable(headers.raw)))
        if size + len(scope.get("raw_path") or b"") + len(scope["query_string"]) > self._head_bytes:
            raise RefusedError(
                f"the headers are larger than {self._head_bytes:,} bytes; send less", code="headers"
            )
        # A probe must not wait for the database, nor for a thread to ask it.
        probe = scope["path"] in _PROBES
        if not (self._access.guarded if probe else await self._access.needs_token()):
            check_local(headers, peer=peer)
        if scope["method"] not in BODILESS:
            _check_body(headers)


def _check_body(headers: Headers) -> None:
    """Raise if a page of another site sent this, or a form: the body must be JSON, or empty."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        raise RefusedError(
            f"the request comes from {origin[:80]!r}; only the service's own page may send it",
            code="foreign_request",
        )
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    if kind != "application/json" and not empty:
        raise RefusedError(f"the body is {kind[:80]!r}; send it as application/json", code="media_type")


def needs(scope: Scope) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that raises unless the request's token allows this."""

    async def check(request: Request) -> None:
        access, header = request.app.state.access, request.headers.get("authorization")
        request.state.token = None
        if header is not None or access.guarded:  # Whether tokens are needed ``Admission`` has asked.
            name = request.path_params.get("name")
            request.state.token = await access.check(header, scope, stream=name)
        if scope is Scope.READ:  # What changes a stream waits for its turn, and needs no thread here.
            check_threads()

    return check


def check_stream(token: Token | None, name: str) -> None:
    if token is not None and not token.covers(name):
        raise RefusedError(
            f"the token is for streams whose names begin with {token.streams!r}, and this is about "
            f"{name[:64]!r}",
            code="scope",
        )


async def covers_all(request: Request) -> None:
    """Raise if the request's token is for some streams only."""
    token: Token | None = request.state.token
    if token is not None and token.streams:
        raise RefusedError(
            f"this is about every stream, and the token is for those whose names begin with "
            f"{token.streams!r}",
            code="scope",
        )


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_binding(database: Database, host: str) -> None:
    """Raise if strangers could reach a service that asks for no token."""
    if not is_loopback(host) and not tokens.in_use(database):
        raise InvalidError(
            f"refusing to listen on {host}: there is no token yet, so anyone who reaches it could "
            "answer and delete; leave out --open, or listen on 127.0.0.1"
        )


def check_local(headers: Headers, *, peer: str) -> None:
    """Raise unless a request comes from this machine, by its own name, and for nobody else."""
    if not is_loopback(peer):
        raise RefusedError(
            f"{peer[:80]!r} is not this machine; without tokens the service answers to localhost only",
            code="foreign_request",
        )
    for header, _ in headers.raw:
        if header in _FORWARDING or header.startswith(_FORWARDED):
            raise RefusedError(
                f"the request was passed on by a proxy ({header.decode('latin-1')}), and without "
                "tokens the service answers to localhost only; first run 'keyhole token create'",
                code="foreign_request",
            )
    host = ", ".join(headers.getlist("host"))
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if not is_loopback(name.lower()):
        raise RefusedError(
            f"host {name[:80]!r} is not this machine; without tokens the service answers to "
            "localhost only",
            code="foreign_request",
        )


def _digest(header: str) -> bytes:
    return hashlib.sha256(header.encode()).digest()

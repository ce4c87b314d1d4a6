"""Who may do what: tokens if there are any, and loopback only if there are none."""

import ipaddress
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from keyhole.errors import BindingError, ForeignRequestError, ScopeError, TokenError
from keyhole.store import tokens
from keyhole.store.database import Database
from keyhole.store.tokens import Scope, Token

_SECONDS_TO_TRUST = 1.0
_MOST_REMEMBERED = 10_000


class Access:
    """Looks tokens up, and remembers for a second what it found."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._found: dict[str | None, tuple[float, Any]] = {}

    async def tokens_in_use(self) -> bool:
        """Return whether requests need a token."""
        return bool(await self._remembered(None, lambda: tokens.in_use(self._database)))

    async def check(self, header: str | None, scope: Scope) -> None:
        """Raise unless the Authorization header allows this, or there are no tokens."""
        if header is None:
            if await self.tokens_in_use():
                raise TokenError(
                    "this needs a token; send 'Authorization: Bearer ...' "
                    "(make one with keyhole token create)"
                )
            return
        kind, _, given = header.partition(" ")
        if kind.lower() != "bearer":
            raise TokenError("the Authorization header is not 'Bearer ...'")
        token: Token = await self._remembered(given, lambda: tokens.verify(self._database, given))
        if not token.allows(scope):
            allowed = ", ".join(sorted(token.scopes))
            raise ScopeError(f"the token allows {allowed}, and this needs {scope.value}")

    async def _remembered(self, key: str | None, look: Callable[[], Any]) -> Any:
        now = time.monotonic()
        at, value = self._found.get(key, (-_SECONDS_TO_TRUST, None))
        if now - at >= _SECONDS_TO_TRUST:
            value = await run_in_threadpool(look)
            if len(self._found) >= _MOST_REMEMBERED:
                self._found.clear()
            self._found[key] = (now, value)
        return value


def needs(scope: Scope) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that raises unless the request's token allows this."""

    async def check(request: Request) -> None:
        await request.app.state.access.check(request.headers.get("authorization"), scope)

    return check


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
        raise BindingError(
            f"refusing to listen on {host}: there is no token yet, so anyone who reaches it could "
            "answer and delete; first run 'keyhole token create NAME --scopes predict feedback read', "
            "with the same --database, or listen on 127.0.0.1"
        )


def check_host(host: str | None, *, guarded: bool) -> None:
    """Raise if an unguarded service is called by a name that is not this machine's."""
    name = (host or "").rpartition(":")[0] if _has_port(host) else (host or "")
    if not guarded and not is_loopback(name.lower()):
        raise ForeignRequestError(
            f"host {name[:80]!r} is not this machine; without tokens the service answers to "
            "localhost only"
        )


def _has_port(host: str | None) -> bool:
    return host is not None and host.rpartition(":")[2].isdigit()

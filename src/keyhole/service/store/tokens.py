"""Bearer tokens: made once, shown once, kept as digests; the first one also in a file."""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from keyhole.errors import TokenError
from keyhole.service.store.sql import statements
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import TokenRow, tokens

_PREFIX = "kh"
_STREAMS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Scope(StrEnum):
    """What a token allows; ``admin`` allows everything."""

    READ = "read"
    PREDICT = "predict"
    FEEDBACK = "feedback"
    ADMIN = "admin"


class Token(NamedTuple):
    """What is known of a token: not the token itself."""

    id: str
    name: str
    scopes: frozenset[Scope]
    created: float
    revoked: float | None
    expires: float | None
    streams: str

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def covers(self, stream: str) -> bool:
        return stream.startswith(self.streams)


def create(
    database: Database,
    name: str,
    *,
    scopes: Sequence[str],
    now: float,
    expires: float | None = None,
    streams: str = "",
) -> str:
    """Make a token and return it; it cannot be shown again.

    From ``expires`` on it is good for nothing, and ``streams`` is what the names of the streams begin
    with that it is for.
    """
    row, token = _make(name, scopes, now, expires, streams)
    with database.write() as transaction:
        transaction.insert(tokens, [row])
    return token


def create_first(database: Database, *, now: float) -> str | None:
    """Make a token for everything if none is in use, and keep it in ``database.token_file``.

    Its owner alone may read that file; the database has the digest alone, as of any token.
    """
    row, token = _make("first", [Scope.ADMIN], now)
    with database.write() as transaction:
        database.lock_schema(transaction)  # Two services may start at once.
        if transaction.fetch(statements.FIND_TOKEN_IN_USE):
            return None
        transaction.insert(tokens, [row])
        path = database.token_file
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(f"{token}\n")
    return token


def find_first(database: Database, *, now: float) -> str:
    """Return the token that the first start made, or raise if it is not there or not good."""
    try:
        token = database.token_file.read_text().strip()
    except FileNotFoundError:
        raise TokenError(
            f"there is no {database.token_file}: a service that finds no token in use makes one and "
            "keeps it there; make another with keyhole token create NAME --scopes admin"
        ) from None
    verify(database, token, now=now)
    return token


def _make(
    name: str, scopes: Sequence[str], now: float, expires: float | None = None, streams: str = ""
) -> tuple[TokenRow, str]:
    try:
        checked = sorted({Scope(scope) for scope in scopes})
    except ValueError as error:
        raise TokenError(f"{error}; scopes are {', '.join(Scope)}") from None
    if not checked or not name or len(name) > 100:
        raise TokenError("a token needs a name of up to 100 characters and at least one scope")
    if expires is not None and not now < expires:
        raise TokenError("the token would have expired already; let it expire later")
    if streams and _STREAMS.fullmatch(streams) is None:
        raise TokenError(
            f"no name of a stream begins with {streams[:80]!r}; use letters, digits, dots, dashes and "
            "underscores, a letter or digit first"
        )
    id_, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    row = TokenRow(id_, name, " ".join(checked), _digest(secret), now, None, expires, streams)
    return row, f"{_PREFIX}_{id_}_{secret}"


def revoke(database: Database, id: str, *, now: float) -> None:
    with database.write() as transaction:
        revoked = transaction.fetch(statements.REVOKE_TOKEN, now, id)
    if not revoked:
        raise TokenError(f"there is no token {id!r} in use; see keyhole token list")


def every(database: Database) -> list[Token]:
    with database.read() as transaction:
        rows = transaction.fetch(statements.LIST_TOKENS)
    return [_token(row) for row in rows]


def in_use(database: Database) -> bool:
    with database.read() as transaction:
        return bool(transaction.fetch(statements.FIND_TOKEN_IN_USE))


def verify(database: Database, given: str, *, now: float) -> Token:
    prefix, _, rest = given.partition("_")
    id_, _, secret = rest.partition("_")
    with database.read() as transaction:
        found = transaction.fetch(statements.FIND_TOKEN, id_)
    row = found[0] if found else None
    good = hmac.compare_digest(_digest(secret), row.digest if row is not None else b"")
    if row is None or prefix != _PREFIX or not good or row.revoked is not None:
        raise TokenError("the token is unknown or revoked; make one with keyhole token create")
    if row.expires is not None and row.expires <= now:
        raise TokenError("the token has expired; make another one with keyhole token create")
    return _token(row)


def _token(row: TokenRow) -> Token:
    scopes = frozenset(Scope(scope) for scope in row.scopes.split())
    return Token(row.id, row.name, scopes, row.created, row.revoked, row.expires, row.streams)


def _digest(secret: str) -> bytes:
    # The secret has 256 random bits, so that a slow hash would protect nothing more.
    return hashlib.sha256(secret.encode(errors="replace")).digest()

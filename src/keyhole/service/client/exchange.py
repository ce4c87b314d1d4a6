"""How a call is sent: what may be sent again and after which pause, and how its response is read."""

import json
import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from functools import cache
from itertools import count
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import quote

from keyhole.errors import (
    InvalidError,
    KeyholeError,
    MissingExtraError,
    TokenError,
    UnreachableError,
)
from keyhole.service.wire import problems

if TYPE_CHECKING:
    from httpx import AsyncClient, Client, Request, Response

_RETRIED = (429, 502, 503, 504)
_FIRST_PAUSE = 0.1
TOKEN = "KEYHOLE_TOKEN"  # noqa: S105 - the variable of the environment that may hold one

Result = TypeVar("Result")


@dataclass(frozen=True)
class Call(Generic[Result]):
    """A request, and what makes of its response what the caller wants."""

    method: str
    parts: tuple[str, ...]
    read: Callable[["Response"], Result]
    json: Mapping[str, object] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    safe: bool = True

    @property
    def path(self) -> str:
        """The path; no part of it, whatever it holds, can reach another."""
        return "/v1/" + "/".join(_quote(part) for part in self.parts)


Steps = Generator[Call[Any], Any, Result]  # an operation: calls to send, and what it returns


def send(call: Call[Result]) -> Steps[Result]:
    return (yield call)


def exchange(
    steps: Steps[Result], http: "Client | AsyncClient", *, retries: "Retries"
) -> "Generator[Request | float, Any, Result]":
    """Yield requests to send once and seconds to wait, until the operation returns.

    A request is answered with a response, or with the exception that there was instead.
    """
    received = None
    while True:
        try:
            call = steps.send(received)
        except StopIteration as done:
            return done.value
        for turn in count():
            outcome = yield _build_request(http, call)
            pause = _judge(outcome, call, turn, retries=retries, url=http.base_url)
            if pause is None:
                break
            yield pause
        received = read_response(call, outcome)


def read_json(kind: type[Result]) -> Callable[["Response"], Result]:
    described: Any = kind  # mypy takes not every type for hashable
    read = make_reader(described)
    return lambda response: read(response.json())


@cache
def make_reader(kind: Any) -> Callable[[Any], Any]:
    """Return what makes a value of this type from JSON; fields that it does not know are left out."""
    make: Callable[..., object] = kind
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is UnionType and len(arguments) == 2 and NoneType in arguments:
        read = make_reader(next(one for one in arguments if one is not NoneType))
        return lambda value: None if value is None else read(value)
    if origin in (list, tuple):
        read = make_reader(arguments[0])
        return lambda value: origin(read(one) for one in value)
    if is_dataclass(kind):
        readers = {name: make_reader(hint) for name, hint in get_type_hints(kind).items()}
        return lambda value: make(**{name: read(value[name]) for name, read in readers.items()})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return make
    return lambda value: value


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often, and after which pauses, a call is sent again."""

    most: int
    longest_pause: float

    def pause(self, turn: int, *, asked: str | None = None) -> float:
        """Return the seconds to wait before the next try: more each time, and what was asked for."""
        least = float(asked) if asked is not None and asked.isdecimal() else 0.0
        return min(self.longest_pause, max(least, _FIRST_PAUSE * 2.0**turn))


def _quote(part: str) -> str:
    if not isinstance(part, str) or not part:
        raise InvalidError(f"{part!r} is neither a name nor an id; give the text of one")
    try:
        quoted = quote(part, safe="")
    except UnicodeEncodeError:
        raise InvalidError(f"{part[:80]!r} is no text that can be sent; check its encoding") from None
    # A path of dots alone would be taken for a folder above, here or at a proxy.
    return quoted.replace(".", "%2E") if set(part) <= {"."} else quoted


def _read_refusal(response: "Response") -> KeyholeError:
    """Return what a response that is no success says, as the library would raise it."""
    if response.is_redirect:
        where = response.headers.get("location", "")
        return UnreachableError(
            f"{response.url} has moved to {where[:200]!r}; give the client that URL"
        )
    try:
        return problems.read_error(response.json())
    except ValueError:
        return problems.read_error(response.text)


def _judge(
    outcome: "Response | Exception", call: Call[object], turn: int, *, retries: Retries, url: object
) -> float | None:
    """Return None for a success and else the seconds to wait before the next try, or raise."""
    is_last = turn >= retries.most
    if isinstance(outcome, Exception):
        # What never reached the service was certainly not done there; else nobody knows.
        httpx = find_httpx()
        unsent = isinstance(outcome, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
        if is_last or not (unsent or call.safe):
            raise UnreachableError(
                f"no answer from {url} after {turn + 1} tries ({outcome}); is it running?"
            ) from outcome
        return retries.pause(turn)
    if outcome.is_success:
        return None
    if is_last or outcome.status_code not in _RETRIED:
        raise _read_refusal(outcome)
    return retries.pause(turn, asked=outcome.headers.get("retry-after"))


def _build_request(http: "Client | AsyncClient", call: Call[object]) -> "Request":
    if http.is_closed:
        raise UnreachableError("the client is closed; make another one")
    headers, content = dict(call.headers), None
    if call.json is not None:
        headers["Content-Type"], content = "application/json", write_body(call.json)
    return http.build_request(
        call.method, call.path, params=call.parameters, headers=headers, content=content
    )


def write_body(body: Mapping[str, object]) -> bytes:
    """Return a body as JSON, or raise with the part of it that cannot be sent."""
    parts = []
    for name, value in body.items():
        try:
            parts.append(f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}")
        except (TypeError, ValueError) as error:
            raise InvalidError(
                f"{name} is {value!r:.80}, which cannot be sent ({error}); use text, finite numbers, "
                "and lists and maps of them"
            ) from None
    return f"{{{', '.join(parts)}}}".encode()


def read_response(call: Call[Result], response: "Response") -> Result:
    """Return what a response says, or raise if the service would never say it."""
    try:
        return call.read(response)
    except (ValueError, LookupError, TypeError) as error:
        raise UnreachableError(
            f"{response.url} answers, but not as Keyhole does ({error!r:.80}); is that the URL?"
        ) from error


def check_url(url: str) -> str:
    httpx = find_httpx()
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        parsed = httpx.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidError(f"{url!r} is no URL of a service; give one such as http://localhost:8000")
    return url


def list_headers(token: str | None) -> dict[str, str]:
    """Return the headers of every request, or raise if they cannot carry the token."""
    token = os.environ.get(TOKEN) if token is None else token
    if not token:
        return {}
    if not (token.isascii() and token.isprintable() and token == token.strip()):
        raise TokenError(
            "the token holds a space, a line's end or a letter that no header carries; copy it again"
        )
    return {"Authorization": f"Bearer {token}"}


def find_httpx() -> Any:
    """Return the library that sends, or raise if it is not installed."""
    try:
        import httpx
    except ImportError:
        raise MissingExtraError(
            "the client needs httpx; pip install 'keyhole-conformal[service]'"
        ) from None
    return httpx

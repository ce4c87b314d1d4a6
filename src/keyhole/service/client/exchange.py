"""How a call is sent: what may be sent again, and after which pause."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from keyhole.errors import KeyholeError, MissingExtraError, UnreachableError
from keyhole.service.http import problems

_RETRIED = (429, 502, 503, 504)
_FIRST_PAUSE = 0.1

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Call(Generic[Result]):
    """A request, and what turns its response into what the caller wants."""

    method: str
    parts: tuple[str, ...]
    read: Callable[[Any], Result]
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    safe: bool = True

    @property
    def path(self) -> str:
        """The path; no part of it, whatever it holds, can reach another."""
        return "/v1/" + "/".join(_quote(part) for part in self.parts)


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often, and after which pauses, a call is sent again."""

    most: int
    longest_pause: float

    def allow(self, call: Call[Any], turn: int, *, status: int | None) -> bool:
        """Return whether a call may be sent once more; a status of None means that none came."""
        if turn >= self.most:
            return False
        # Refused for now, it was not done; without an answer nobody knows.
        return call.safe if status is None else status in _RETRIED

    def pause(self, turn: int, *, asked: str | None = None) -> float:
        """Return the seconds to wait before the next try: more each time, and what was asked for."""
        wanted = float(asked) if asked is not None and asked.isdecimal() else 0.0
        return min(self.longest_pause, max(wanted, _FIRST_PAUSE * 2.0**turn))


def _quote(part: str) -> str:
    quoted = quote(part, safe="")
    # A path of dots alone would be taken for a folder above, here or at a proxy.
    return quoted.replace(".", "%2E") if set(part) <= {"."} else quoted


def _read_refusal(response: Any) -> KeyholeError:
    """Return what a response that is no success says, as the library would raise it."""
    try:
        return problems.read_error(response.json())
    except ValueError:
        return problems.read_error(response.text)


def judge(outcome: Any, call: Call[Any], turn: int, *, retries: Retries, url: Any) -> float | None:
    """Return None for a success and else the seconds to wait before the next try, or raise."""
    if isinstance(outcome, Exception):
        # What never reached the service was certainly not done there.
        unsent = isinstance(outcome, (find_httpx().ConnectError, find_httpx().ConnectTimeout))
        if retries.allow(call, turn, status=503 if unsent else None):
            return retries.pause(turn)
        raise UnreachableError(
            f"no answer from {url} after {turn + 1} tries ({outcome}); is it running?"
        ) from outcome
    if outcome.is_success:
        return None
    if retries.allow(call, turn, status=outcome.status_code):
        return retries.pause(turn, asked=outcome.headers.get("retry-after"))
    raise _read_refusal(outcome)


def list_arguments(call: Call[Any]) -> dict[str, Any]:
    """Return what httpx is given for a call."""
    body = {} if call.json is None else {"json": call.json}
    return {"headers": dict(call.headers), "params": dict(call.parameters), **body}


def list_headers(token: str | None) -> dict[str, str]:
    """Return the headers of every request."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def find_httpx() -> Any:
    """Return the library that sends, or raise if it is not installed."""
    try:
        import httpx
    except ImportError:
        raise MissingExtraError(
            "the client needs httpx; pip install 'keyhole-conformal[service]'"
        ) from None
    return httpx

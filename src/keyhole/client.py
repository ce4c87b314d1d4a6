"""A client of the service: the predictor's two verbs, over HTTP."""

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from keyhole.errors import FeedbackError, KeyholeError, MissingExtraError, UnreachableError
from keyhole.feedback import Answer, Hit, Missed
from keyhole.service import problems

_RETRIED = (429, 502, 503, 504)
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Proposal:
    """A set of labels or an interval that the service proposed; it waits for an answer."""

    id: str
    round: int
    threshold: float | None
    labels: tuple[Any, ...] | None
    interval: tuple[float | None, float | None] | None
    size: float | None
    expires: str

    def __contains__(self, label: object) -> bool:
        if self.labels is not None:
            return label in self.labels
        if self.interval is None:
            return False
        lower, upper = self.interval
        return (lower is None or lower <= label) and (upper is None or label <= upper)  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class Receipt:
    """An answer that is durable; ``repeated`` if the service had it already."""

    id: str
    stream: str
    missed: bool
    repeated: bool


class Client:
    """Talks to ``keyhole serve``; what the service refuses is raised as the library raises it.

    Every request that changes something is safe to send again, and is sent again when the service
    does not answer: a prediction carries a key, and an answer counts once.

    Parameters
    ----------
    url
        Where the service is, such as ``http://localhost:8000``.
    token
        A bearer token, if the service asks for one.
    timeout
        Seconds to wait for each try.
    retries
        How many more tries after the first.
    longest_pause
        Seconds to wait at most between two tries; the first pauses are shorter.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retries: int = 4,
        longest_pause: float = 2.0,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtraError("the client needs httpx; pip install 'keyhole[service]'") from None
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)
        self._failures = (httpx.TransportError,)
        self._retries, self._longest_pause = retries, longest_pause

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def create_stream(self, name: str, *, alpha: float, **settings: Any) -> dict[str, Any]:
        """Make a stream; the settings are those of ``POST /v1/streams``."""
        return self._send(
            "POST", "/v1/streams", json={"name": name, "alpha": alpha, **settings}, tries=1
        )

    def streams(self) -> list[dict[str, Any]]:
        """Return every stream, with where it stands."""
        return self._send("GET", "/v1/streams")["streams"]

    def stream(self, name: str) -> dict[str, Any]:
        """Return what a stream is and where it stands."""
        return self._send("GET", f"/v1/streams/{name}")

    def archive(self, name: str) -> dict[str, Any]:
        """Close a stream for good."""
        return self._send("POST", f"/v1/streams/{name}/archive")

    def predict(self, stream: str, output: Any, *, key: str | None = None) -> Proposal:
        """Return the set for a label-to-score map or an array, or the interval for a centre."""
        sent = self._send(
            "POST",
            f"/v1/streams/{stream}/predictions",
            json=_output(output),
            headers={"Idempotency-Key": key or uuid.uuid4().hex},
        )
        return _proposal(sent)

    def predict_many(self, stream: str, outputs: Iterable[Any]) -> list[Proposal]:
        """Return a proposal for every output, in order, made in one transaction."""
        asked = [{**_output(output), "key": uuid.uuid4().hex} for output in outputs]
        sent = self._send(
            "POST", f"/v1/streams/{stream}/predictions/batch", json={"predictions": asked}
        )
        return [_proposal(one) for one in sent["predictions"]]

    def learn(
        self, prediction: Proposal | str, answer: Answer | None = None, *, label: Any = _MISSING
    ) -> Receipt:
        """Answer a prediction: with ``HIT``, ``MISS`` or the true label."""
        id_ = prediction if isinstance(prediction, str) else prediction.id
        sent = self._send("POST", f"/v1/predictions/{id_}/feedback", json=_feedback(answer, label))
        return Receipt(**sent)

    def learn_many(self, answers: Sequence[tuple[Proposal | str, Any]]) -> list[Receipt | KeyholeError]:
        """Answer many, each with ``HIT``, ``MISS`` or a label; an error stays in its place."""
        asked = []
        for prediction, given in answers:
            id_ = prediction if isinstance(prediction, str) else prediction.id
            told = isinstance(given, (Hit, Missed))
            asked.append({"id": id_, **(_feedback(given) if told else _feedback(label=given))})
        sent = self._send("POST", "/v1/feedback", json={"feedback": asked})
        return [problems.raised(one) if "error" in one else Receipt(**one) for one in sent["results"]]

    def history(self, stream: str, *, points: int = 300) -> dict[str, Any]:
        """Return miss rate and mean size as curves."""
        return self._send("GET", f"/v1/streams/{stream}/history", params={"points": points})

    def rounds(self, stream: str, *, limit: int = 20) -> list[dict[str, Any]]:
        """Return the newest rounds, the newest first."""
        return self._send("GET", f"/v1/streams/{stream}/rounds", params={"limit": limit})["rounds"]

    def export(self, stream: str, *, format: str = "csv") -> bytes:  # noqa: A002
        """Return the whole log as the bytes of a CSV or Parquet file."""
        path = f"/v1/streams/{stream}/export"
        return self._answered("GET", path, tries=self._retries + 1, params={"format": format}).content

    def _send(self, method: str, path: str, *, tries: int | None = None, **request: Any) -> Any:
        return self._answered(method, path, tries=tries or self._retries + 1, **request).json()

    def _answered(self, method: str, path: str, *, tries: int, **request: Any) -> Any:
        for turn in range(tries):
            if turn:
                time.sleep(min(self._longest_pause, 0.1 * 2.0 ** (turn - 1)))
            try:
                response = self._http.request(method, path, **request)
            except self._failures as error:
                failure = error
                continue
            if response.is_success:
                return response
            if response.status_code not in _RETRIED or turn + 1 == tries:
                raise problems.raised(_json(response))
        raise UnreachableError(
            f"no answer from {self._http.base_url} after {tries} tries ({failure}); is it running?"
        )


def _json(response: Any) -> Any:
    try:
        return response.json()
    except ValueError:
        return response.text


def _output(output: Any) -> dict[str, Any]:
    if isinstance(output, Mapping):
        return {"scores": {str(label): float(score) for label, score in output.items()}}
    if hasattr(output, "__len__"):
        return {"scores": [float(score) for score in output]}
    return {"centre": float(output)}


def _feedback(answer: Answer | None = None, label: Any = _MISSING) -> dict[str, Any]:
    if (answer is None) == (label is _MISSING):
        raise FeedbackError("a round takes one answer: keyhole.MISS, keyhole.HIT or label=...")
    if label is not _MISSING:
        return {"label": label.item() if hasattr(label, "item") else label}
    if isinstance(answer, Hit):
        return {"hit": True}
    if isinstance(answer, Missed):
        return {"miss": True}
    raise FeedbackError(f"{answer!r} cannot be sent; use keyhole.MISS, keyhole.HIT or label=...")


def _proposal(sent: dict[str, Any]) -> Proposal:
    labels, interval = sent["labels"], sent["interval"]
    return Proposal(
        **{
            **sent,
            "labels": None if labels is None else tuple(labels),
            "interval": None if interval is None else (interval[0], interval[1]),
        }
    )

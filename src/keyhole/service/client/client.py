"""A client of the service: the predictor's two verbs, over HTTP."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from keyhole.errors import KeyholeError
from keyhole.feedback import Answer
from keyhole.predictor.context import Features, Groups
from keyhole.service.client import calls
from keyhole.service.client.exchange import (
    Call,
    Result,
    Retries,
    check_open,
    check_url,
    find_httpx,
    judge,
    list_arguments,
    list_headers,
    read_response,
)
from keyhole.service.client.wire import MISSING, Proposal, Receipt, Verdict, write_feedback


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
        self._http = find_httpx().Client(
            base_url=check_url(url), headers=list_headers(token), timeout=timeout
        )
        self._retries = Retries(most=retries, longest_pause=longest_pause)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def create_stream(self, name: str, *, alpha: float, **settings: Any) -> dict[str, Any]:
        """Make a stream; the settings are those of ``POST /v1/streams``."""
        return self._send(calls.create_stream(name, alpha=alpha, settings=settings))

    def streams(self) -> list[dict[str, Any]]:
        """Return every stream, with where it stands."""
        found: list[dict[str, Any]] = []
        after: str | None = None
        while True:
            page = self._send(calls.list_streams(after))
            found += page["streams"]
            after = page["next"]
            if after is None:
                return found

    def stream(self, name: str) -> dict[str, Any]:
        """Return what a stream is and where it stands."""
        return self._send(calls.get_stream(name))

    def amend(self, name: str, **changes: Any) -> dict[str, Any]:
        """Change a stream's alpha, lifetime, window, labels (added) or description, from now on."""
        return self._send(calls.amend_stream(name, changes=changes))

    def delete(self, name: str) -> None:
        """Remove an archived stream and its log for good."""
        self._send(calls.delete_stream(name))

    def calibrate(
        self,
        name: str,
        outputs: Sequence[Any],
        labels: Sequence[Any],
        *,
        features: Mapping[str, Sequence[Any]] | Sequence[Features] | None = None,
        groups: Sequence[Groups] | None = None,
    ) -> dict[str, Any]:
        """Teach a stream labelled history before its first round, a thousand rounds at a time.

        Features and groups are given as for ``predict_batch``.
        """
        stream = self.stream(name)
        for past in calls.cut_history(outputs, labels, features=features, groups=groups):
            stream = self._send(calls.calibrate(name, past, after=stream["calibrated"]))
        return stream

    def archive(self, name: str) -> dict[str, Any]:
        """Close a stream for good."""
        return self._send(calls.archive_stream(name))

    def predict(
        self,
        stream: str,
        output: Any,
        *,
        features: Features | None = None,
        groups: Groups = (),
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Proposal:
        """Return the set for a label-to-score map, a list or an array of scores.

        Or the interval for a centre, or for a tuple of a lower and an upper quantile.
        """
        call = calls.predict(
            stream, output, features=features, groups=groups, key=key, metadata=metadata
        )
        return self._send(call)

    def predict_batch(
        self,
        stream: str,
        outputs: Iterable[Any],
        *,
        features: Mapping[str, Sequence[Any]] | Sequence[Features] | None = None,
        groups: Sequence[Groups] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Proposal]:
        """Return a proposal for every output, in order, made in one transaction.

        Features are a row for each output, or a column for each name; groups a list for each.
        """
        call = calls.predict_batch(stream, outputs, features=features, groups=groups, metadata=metadata)
        return self._send(call)

    def decide(
        self,
        stream: str,
        score: Any,
        *,
        groups: Iterable[str] = (),
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """Return whether a gate accepts an answer of this score, or the best of several candidates."""
        call = calls.decide(stream, score, groups=groups, key=key, metadata=metadata)
        return self._send(call)

    def decide_batch(
        self,
        stream: str,
        scores: Iterable[Any],
        *,
        groups: Sequence[Iterable[str]] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Verdict]:
        """Return a verdict for every score or map of candidates, in order, in one transaction."""
        return self._send(calls.decide_batch(stream, scores, groups=groups, metadata=metadata))

    def learn(
        self,
        prediction: Proposal | Verdict | str,
        answer: Answer | None = None,
        *,
        label: Any = MISSING,
        score: float | None = None,
        loss: float | None = None,
        right: bool | None = None,
        chance: float | None = None,
        wrong: float = 0.0,
    ) -> Receipt:
        """Answer as ``Predictor.learn`` does, or judge with ``right`` as ``Gate.learn`` does."""
        told = write_feedback(
            answer, label=label, score=score, loss=loss, right=right, chance=chance, wrong=wrong
        )
        return self._send(calls.learn(prediction, told))

    def learn_key(
        self,
        stream: str,
        key: str,
        answer: Answer | None = None,
        *,
        label: Any = MISSING,
        score: float | None = None,
        loss: float | None = None,
        right: bool | None = None,
        chance: float | None = None,
        wrong: float = 0.0,
    ) -> Receipt:
        """Answer the prediction that was asked for with this key; else as ``learn``."""
        told = write_feedback(
            answer, label=label, score=score, loss=loss, right=right, chance=chance, wrong=wrong
        )
        return self._send(calls.learn_key(stream, key, told))

    def skip(self, prediction: Proposal | Verdict | str) -> Receipt:
        """Close a round that nobody will answer."""
        return self._send(calls.learn(prediction, {"skip": True}))

    def learn_batch(
        self, answers: Sequence[tuple[Proposal | Verdict | str, Any]]
    ) -> list[Receipt | KeyholeError]:
        """Answer many, each with ``HIT``, ``MISS`` or a label; an error stays in its place.

        Or with what ``learn`` takes by name, ``{"right": True}`` or ``{"score": 0.4, "chance": 0.5}``,
        or with ``{"skip": True}``.
        """
        return self._send(calls.learn_batch(answers))

    def history(self, stream: str, *, points: int = 300) -> dict[str, Any]:
        """Return miss rate and mean size as curves."""
        return self._send(calls.get_history(stream, points=points))

    def rounds(
        self,
        stream: str,
        *,
        limit: int = 20,
        before: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the newest rounds, the newest first: before a round, and of this metadata, if told."""
        found: list[dict[str, Any]] = []
        while len(found) < limit:
            call = calls.get_rounds(stream, limit=limit - len(found), before=before, metadata=metadata)
            page = self._send(call)
            found += page["rounds"]
            before = page["next"]
            if before is None:
                break
        return found

    def export(self, stream: str, *, format: str = "csv") -> bytes:  # noqa: A002
        """Return the whole log as the bytes of a CSV or Parquet file."""
        return self._send(calls.get_export(stream, kind=format))

    def _send(self, call: Call[Result]) -> Result:
        turn = 0
        while True:
            outcome = self._try(call)
            pause = judge(outcome, call, turn, retries=self._retries, url=self._http.base_url)
            if pause is None:
                return read_response(call, outcome)
            time.sleep(pause)
            turn += 1

    def _try(self, call: Call[Any]) -> Any:
        check_open(self._http)
        try:
            return self._http.request(call.method, call.path, **list_arguments(call))
        except find_httpx().RequestError as error:
            return error

"""Clients of the service: the predictor's two verbs over HTTP, waiting or awaited.

Both have the operations of ``operations.py`` as methods, and differ in how a call is sent.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, get_args

from keyhole.errors import InvalidError
from keyhole.service.client import operations
from keyhole.service.client.exchange import (
    Retries,
    Steps,
    check_url,
    exchange,
    find_httpx,
    list_headers,
)

if TYPE_CHECKING:
    import httpx

Given = ParamSpec("Given")
Result = TypeVar("Result")
_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _waits(operation: Callable[Given, Steps[Result]]) -> Callable[Concatenate["Client", Given], Result]:
    def method(self: "Client", /, *given: Given.args, **named: Given.kwargs) -> Result:
        return self._run(operation(*given, **named))

    return _sign(method, operation)


def _awaits(
    operation: Callable[Given, Steps[Result]],
) -> Callable[Concatenate["AsyncClient", Given], Coroutine[Any, Any, Result]]:
    async def method(self: "AsyncClient", /, *given: Given.args, **named: Given.kwargs) -> Result:
        return await self._run(operation(*given, **named))

    return _sign(method, operation)


Method = TypeVar("Method", bound=Callable[..., object])


def _sign(method: Method, operation: Callable[..., Steps[object]]) -> Method:
    """Let ``help`` show the operation's name, text and parameters, and what the method returns."""
    update_wrapper(method, operation)
    signature = inspect.signature(operation)
    *_, returned = get_args(signature.return_annotation)
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[_SELF, *signature.parameters.values()], return_annotation=returned
    )
    return method


class Client:
    """A client of ``keyhole serve``; what the service refuses raises the library's own exceptions.

    Every request that changes something is safe to send again, and is sent again when the service
    does not answer: a prediction carries a key, and an answer counts once.

    Parameters
    ----------
    url
        Where the service is, such as ``http://localhost:8000``.
    token
        A bearer token; by default the value of ``KEYHOLE_TOKEN``, if it is set.
    timeout
        Seconds to wait for each try.
    retries
        How many times to retry after the first try.
    longest_pause
        The longest pause between two tries, in seconds; the first pauses are shorter.
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
        self._http: httpx.Client = find_httpx().Client(
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

    create_stream = _waits(operations.create_stream)
    streams = _waits(operations.streams)
    stream = _waits(operations.stream)
    update_stream = _waits(operations.update_stream)
    add_shadow = _waits(operations.add_shadow)
    remove_shadow = _waits(operations.remove_shadow)
    promote_shadow = _waits(operations.promote_shadow)
    delete = _waits(operations.delete)
    calibrate = _waits(operations.calibrate)
    archive = _waits(operations.archive)
    predict = _waits(operations.predict)
    predict_batch = _waits(operations.predict_batch)
    decide = _waits(operations.decide)
    decide_batch = _waits(operations.decide_batch)
    learn = _waits(operations.learn)
    amend = _waits(operations.amend)
    learn_key = _waits(operations.learn_key)
    amend_key = _waits(operations.amend_key)
    learn_batch = _waits(operations.learn_batch)
    skip = _waits(operations.skip)
    skip_key = _waits(operations.skip_key)
    history = _waits(operations.history)
    rounds = _waits(operations.rounds)
    erase = _waits(operations.erase)
    export = _waits(operations.export)

    def _run(self, steps: Steps[Result]) -> Result:
        work, outcome = exchange(steps, self._http, retries=self._retries), None
        while True:
            try:
                step = work.send(outcome)
            except StopIteration as done:
                return done.value
            if isinstance(step, int | float):
                time.sleep(step)
                continue
            try:
                outcome = self._http.send(step)
            except find_httpx().RequestError as error:
                outcome = error


class AsyncClient:
    """A ``Client`` whose methods are awaited; its parameters, methods and retries are the same."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retries: int = 4,
        longest_pause: float = 2.0,
    ) -> None:
        self._http: httpx.AsyncClient = find_httpx().AsyncClient(
            base_url=check_url(url), headers=list_headers(token), timeout=timeout
        )
        self._retries = Retries(most=retries, longest_pause=longest_pause)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    create_stream = _awaits(operations.create_stream)
    streams = _awaits(operations.streams)
    stream = _awaits(operations.stream)
    update_stream = _awaits(operations.update_stream)
    add_shadow = _awaits(operations.add_shadow)
    remove_shadow = _awaits(operations.remove_shadow)
    promote_shadow = _awaits(operations.promote_shadow)
    delete = _awaits(operations.delete)
    calibrate = _awaits(operations.calibrate)
    archive = _awaits(operations.archive)
    predict = _awaits(operations.predict)
    predict_batch = _awaits(operations.predict_batch)
    decide = _awaits(operations.decide)
    decide_batch = _awaits(operations.decide_batch)
    learn = _awaits(operations.learn)
    amend = _awaits(operations.amend)
    learn_key = _awaits(operations.learn_key)
    amend_key = _awaits(operations.amend_key)
    learn_batch = _awaits(operations.learn_batch)
    skip = _awaits(operations.skip)
    skip_key = _awaits(operations.skip_key)
    history = _awaits(operations.history)
    rounds = _awaits(operations.rounds)
    erase = _awaits(operations.erase)
    export = _awaits(operations.export)

    async def _run(self, steps: Steps[Result]) -> Result:
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise InvalidError(
                "the client was used in another event loop before; make one client for each loop"
            )
        self._loop = loop
        work, outcome = exchange(steps, self._http, retries=self._retries), None
        while True:
            try:
                step = work.send(outcome)
            except StopIteration as done:
                return done.value
            if isinstance(step, int | float):
                await asyncio.sleep(step)
                continue
            try:
                outcome = await self._http.send(step)
            except find_httpx().RequestError as error:
                outcome = error

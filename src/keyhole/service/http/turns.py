"""Requests that change one stream take turns before they take threads, and then go together.

A stream has one writer at a time. Whoever waits for it waits here, as a coroutine: a stream that is
held, by a slow disk or a forgotten transaction, keeps one thread and one connection and leaves the rest
to the others. When its turn comes, all that wait for the stream are carried out at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyio import CapacityLimiter, to_thread

from keyhole.errors import BusyError
from keyhole.service.store.together import Job

_MOST_TOGETHER = 32
_THREADS = 32  # Of all streams: fewer than the database has connections, so that reading goes on.
_MOST_NAMES = 100_000
_LEAD = object()


@dataclass(slots=True, eq=False)
class _Waiting:
    job: Job
    outcome: asyncio.Future[Any]


@dataclass(slots=True)
class _Queue:
    waiting: list[_Waiting] = field(default_factory=list)
    at_work: int = 0


class Turns:
    """Who waits for which stream.

    Parameters
    ----------
    carry_out
        Makes the changes of one stream, in a thread, and returns what each came to.
    most
        How many may wait for one stream.
    patience
        Seconds after which whoever waits is sent away.
    """

    def __init__(
        self, carry_out: Callable[[Sequence[Job]], list[Any]], *, most: int, patience: float
    ) -> None:
        self._carry_out, self._most, self._patience = carry_out, most, patience
        self._queues: dict[str | int, _Queue] = {}
        self._names: dict[int, str] = {}
        self._threads: CapacityLimiter | None = None

    def learn(self, id: int, name: str) -> None:  # noqa: A002
        """Learn which id the stream of a name has: answers come by it, and share its turns."""
        if self._names.get(id) != name:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            self._names[id] = name

    async def run(self, job: Job) -> Any:
        """Return what the job returns once it is durable, or raise."""
        stream = job.wanted if isinstance(job.wanted, str) else self._names.get(job.wanted, job.wanted)
        queue = self._queues.setdefault(stream, _Queue())
        count = len(queue.waiting) + queue.at_work
        if count >= self._most:
            raise BusyError(f"{count} requests wait for one stream already; try again")
        mine = _Waiting(job, asyncio.get_running_loop().create_future())
        queue.waiting.append(mine)
        if queue.at_work or len(queue.waiting) > 1:
            outcome = await self._wait(queue, mine)
            if outcome is not _LEAD:
                return _tell(outcome)
            mine.outcome = asyncio.get_running_loop().create_future()
        await self._lead(stream, queue)
        return _tell(mine.outcome.result())

    async def _wait(self, queue: _Queue, mine: _Waiting) -> Any:
        """Return the outcome, or that it is this one's turn to lead."""
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(mine.outcome)
        except TimeoutError:
            if mine.outcome.done() or mine not in queue.waiting:
                return await mine.outcome  # It is being made, and cannot be called back.
            queue.waiting.remove(mine)
            raise BusyError(f"no turn within {self._patience:g} seconds; try again") from None
        except asyncio.CancelledError:
            if mine in queue.waiting:
                queue.waiting.remove(mine)
                if mine.outcome.done():  # It was to lead, and is gone.
                    _call_next(queue)
            raise

    async def _lead(self, stream: str | int, queue: _Queue) -> None:
        """Carry out all that wait, tell each what came of it, and let the next one lead."""
        if self._threads is None:
            self._threads = CapacityLimiter(_THREADS)
        group, queue.waiting = queue.waiting[:_MOST_TOGETHER], queue.waiting[_MOST_TOGETHER:]
        queue.at_work = len(group)
        outcomes: list[Any] = []

        def work() -> None:
            try:
                outcomes.extend(self._carry_out([one.job for one in group]))
            except Exception as error:  # noqa: BLE001 - it is raised in each of the requests.
                outcomes.extend([error] * len(group))

        try:
            await to_thread.run_sync(work, limiter=self._threads)
        finally:
            # Whoever leads may have hung up while the thread worked, or before it began.
            missing = BusyError("the request that led was given up; try again")
            for place, one in enumerate(group):
                if not one.outcome.done():
                    one.outcome.set_result(outcomes[place] if outcomes else missing)
            queue.at_work = 0
            if queue.waiting:
                _call_next(queue)
            elif self._queues.get(stream) is queue:
                del self._queues[stream]


def _call_next(queue: _Queue) -> None:
    for one in queue.waiting:
        if not one.outcome.done():
            one.outcome.set_result(_LEAD)
            return


def _tell(outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome

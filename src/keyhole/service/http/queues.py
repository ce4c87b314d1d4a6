"""Requests that change one stream wait in its queue before they take threads, and then go together.

A stream has one writer at a time. Whoever waits for it waits here, as a coroutine: a stream that is
held, by a slow disk or a forgotten transaction, keeps one thread and one connection and leaves the rest
to the others. When the stream is free, all that wait for it are done at once.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from keyhole.errors import BusyError
from keyhole.service.store.streams.stream import Results, Task

_MOST_TOGETHER = 32
_THREADS = 32  # Of all streams: fewer than the database has connections, so that reading goes on.
_MOST_NAMES = 100_000


_Waiting = tuple[Task, asyncio.Future[Any]]  # a change, and what will hold what it comes to


@dataclass(slots=True)
class _Queue:
    waiting: list[_Waiting] = field(default_factory=list)
    at_work: int = 0


class StreamQueues:
    """A queue for each stream that somebody changes: at most so many wait, for so many seconds.

    ``run_tasks`` makes the changes of one stream, in a thread, and returns the result of each.
    """

    def __init__(
        self, run_tasks: Callable[[Sequence[Task]], Results], *, most: int, timeout: float
    ) -> None:
        self._run_tasks, self._most, self._timeout = run_tasks, most, timeout
        self._queues: dict[str | int, _Queue] = {}
        # Of the streams that were changed not long ago, by id: answers share the queue of their stream.
        self.names: dict[str | int, str] = {}
        self._threads = ThreadPoolExecutor(_THREADS)

    def run(self, task: Task) -> asyncio.Future[Any]:
        """Return what will hold what the task returns once it is durable, or the error."""
        stream = self.names.get(task.stream, task.stream)
        queue = self._queues.setdefault(stream, _Queue())
        count, loop = len(queue.waiting) + queue.at_work, asyncio.get_running_loop()
        outcome = loop.create_future()
        if count >= self._most:
            busy = BusyError(f"{count} requests wait for one stream already; try again")
            outcome.set_exception(busy)
            return outcome
        mine = (task, outcome)
        queue.waiting.append(mine)
        if not queue.at_work:
            self._start(stream, queue)
            return outcome
        timer = loop.call_later(self._timeout, self._refuse, queue, mine)

        def forget(_outcome: object) -> None:
            timer.cancel()
            if mine in queue.waiting:  # Whoever asked has hung up.
                queue.waiting.remove(mine)

        outcome.add_done_callback(forget)
        return outcome

    def close(self) -> None:
        """Wait for what is at work, and do no more."""
        self._threads.shutdown(cancel_futures=True)

    def _refuse(self, queue: _Queue, one: _Waiting) -> None:
        if one in queue.waiting:  # What is at work already cannot be called back.
            queue.waiting.remove(one)
            one[1].set_exception(
                BusyError(f"the stream was busy for {self._timeout:g} seconds; try again")
            )

    def _start(self, stream: str | int, queue: _Queue) -> None:
        group, queue.waiting = queue.waiting[:_MOST_TOGETHER], queue.waiting[_MOST_TOGETHER:]
        queue.at_work = len(group)
        loop, asked = asyncio.get_running_loop(), time.monotonic()
        tasks, futures = zip(*group, strict=True)

        def work() -> None:
            if time.monotonic() - asked > self._timeout:  # Other streams had all the threads.
                late = BusyError(f"no thread within {self._timeout:g} seconds; try again")
                done = Results([late] * len(group))
            else:
                try:
                    done = self._run_tasks(tasks)
                except Exception as error:  # noqa: BLE001 - it is raised in each of the requests.
                    done = Results([error] * len(group))
            with suppress(RuntimeError):  # The loop is closed, and nobody waits any more.
                loop.call_soon_threadsafe(self._finish, stream, queue, futures, done)

        try:
            self._threads.submit(work)
        except RuntimeError as error:
            late = BusyError(f"{error}; try again")
            self._finish(stream, queue, futures, Results([late] * len(group)))

    def _finish(
        self,
        stream: str | int,
        queue: _Queue,
        futures: Sequence[asyncio.Future[object]],
        done: Results,
    ) -> None:
        if done.id is not None:
            if len(self.names) >= _MOST_NAMES:
                self.names.clear()
            self.names[done.id] = done.name
        for future, outcome in zip(futures, done.outcomes, strict=True):
            if future.done():  # Whoever asked has hung up.
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        queue.at_work = 0
        if queue.waiting:
            self._start(stream, queue)
        elif self._queues.get(stream) is queue:
            del self._queues[stream]

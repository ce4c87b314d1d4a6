"""What streams keep for some time only is erased in time, by whichever process serves them."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import State

from keyhole.errors import KeyholeError
from keyhole.service.store.streams import erasures
from keyhole.service.store.streams.stream import make_separate_task

log = logging.getLogger("keyhole.service")
_SECONDS_BETWEEN = 60.0
_MOST_AHEAD = 60.0  # seconds by which the clock may be set forward at once


class Retention:
    """Erases what is old, and remembers up to which round all is erased."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._first: dict[str, int] = {}
        self._clocks = (state.clock(), time.monotonic())

    async def erase_old(self) -> None:
        """Erase what is too old in every stream, unless the clock was set forward: it is for good."""
        state, now = self._state, self._state.clock()
        began, then = self._clocks
        ahead = (now - began) - (time.monotonic() - then)
        if ahead > _MOST_AHEAD:
            log.error(
                "the clock is %.0f seconds ahead of where it was: no round is erased for its age until "
                "the service is started again",
                ahead,
            )
            return
        for name in await run_in_threadpool(erasures.list_retaining, state.database):
            erase = partial(
                erasures.erase_old, state.database, name, first=self._first.get(name, 0), now=now
            )
            self._first[name] = await state.queues.run(make_separate_task(name, erase))
        if state.database.must_scrub:
            await run_in_threadpool(state.database.scrub)


@asynccontextmanager
async def keep_retention(app: FastAPI) -> AsyncIterator[None]:
    retention = Retention(app.state)

    async def work() -> None:
        while True:
            try:
                await retention.erase_old()
            except KeyholeError as error:
                app.state.outage.notice(error)
            await asyncio.sleep(_SECONDS_BETWEEN)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()

"""The time of the service: that of the machine, but for its jumps."""

import logging
import time
from collections.abc import Callable
from functools import partial

log = logging.getLogger("keyhole.service")
_MOST_AT_ONCE = 60.0  # seconds by which a clock is set when it is put right


# Seconds that nobody sets, where possible those that the machine slept included.
_read_elapsed: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class SteadyClock:
    """Gives the time, and goes on as before when the machine's clock jumps.

    What is a month ahead for a moment must not end every open round. So the time follows the machine's
    clock as long as that is set by a minute at most, and never goes back; a larger jump is logged, and
    is taken over only by the next start of the service.
    """

    def __init__(
        self,
        read_time: Callable[[], float] = time.time,
        read_elapsed: Callable[[], float] = _read_elapsed,
    ) -> None:
        self._read_time, self._read_elapsed = read_time, read_elapsed
        self._begin = read_time() - read_elapsed()
        self._last = read_time()
        self.jump = 0.0  # seconds by which the machine's clock is ahead of this one after a jump

    def __call__(self) -> float:
        """Return the time now, in seconds since 1970."""
        expected = self._begin + self._read_elapsed()
        ahead = self._read_time() - expected
        if abs(ahead) <= _MOST_AT_ONCE:
            if self.jump:
                log.error("the clock of the machine is right again")
            self._begin, expected, self.jump = self._begin + ahead, expected + ahead, 0.0
        else:
            if not self.jump:
                log.error(
                    "the clock of the machine jumped by %+.0f seconds: times go on as before, and no "
                    "round expires by it; put it right, or start the service again if it is right now",
                    ahead,
                )
            self.jump = ahead
        self._last = max(self._last, expected)
        return self._last

"""A service in a process of its own, to be killed, and clients that keep it busy."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Self

import numpy as np

import keyhole
from keyhole.service.client.client import Client
from keyhole.service.wire.responses import Prediction
from tests.patience import SECONDS

# What sets the clock that a process sees: a year ahead, a year behind, and right again.
AHEAD, BEHIND, RIGHT = signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH
_SETS_CLOCK = f"""
import signal, sys, time
year, shift, read_time = 365 * 86_400.0, [0.0], time.time
time.time = lambda: read_time() + shift[0]
for number, years in (({AHEAD:d}, 1), ({BEHIND:d}, -1), ({RIGHT:d}, 0)):
    signal.signal(number, lambda *_, years=years: shift.__setitem__(0, years * year))
from keyhole.cli import main
sys.exit(main(sys.argv[1:]))
"""


class Service:
    """``keyhole serve`` on a database, at a port that stays the same when it is started again."""

    def __init__(
        self, url: str, *arguments: str, guarded: bool = False, sets_clock: bool = False
    ) -> None:
        self._url, self._arguments = url, arguments
        self._program = ["-c", _SETS_CLOCK] if sets_clock else ["-m", "keyhole"]
        self._door = () if guarded else ("--open",)
        # Held all the while, so that nobody is given the port before the service is started again.
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind(("127.0.0.1", 0))
        self._port = self._place.getsockname()[1]
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()
        self._place.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def file(self) -> str:
        """Where its database is, if that is a file."""
        return self._url.removeprefix("sqlite:///")

    def start(self) -> None:
        """Start, and wait until it says where it listens."""
        # Interpreted kernels start faster, and make the same choices.
        environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
        command = [sys.executable, *self._program, "serve", "--log", "warning", *self._door]
        options = ["--database", self._url, "--port", str(self._port), "--rate", "100000"]
        self._process = subprocess.Popen(  # noqa: S603
            [*command, *options, *self._arguments], stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self._process.stderr is not None
        self.greeting = said = list[str]()
        for line in self._process.stderr:
            said.append(line)
            if f"listens on {self.url}" in line:
                break
        else:
            raise AssertionError("".join(said))
        self._said: list[str] = []
        self._drain = threading.Thread(target=_drain, args=(self._process.stderr, self._said))
        self._drain.start()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._ended()

    def send(self, asked: signal.Signals) -> None:
        """Send the process a signal."""
        self._process.send_signal(asked)

    def stop(self) -> None:
        """Ask the process to end."""
        if self._process.poll() is None:
            self._process.terminate()
        self._ended()

    def wait(self) -> tuple[int, str]:
        """Wait until the process ends by itself; return its exit code and what it said."""
        self._ended()
        return self._process.returncode, "".join(self._said)

    def _ended(self) -> None:
        self._process.wait(2 * SECONDS)
        self._drain.join(2 * SECONDS)


def _drain(pipe: IO[str], said: list[str]) -> None:
    with pipe:
        said.extend(pipe)


@dataclass
class Worker:
    """A client that predicts and answers, and remembers everything that was acknowledged."""

    urls: Sequence[str]
    seed: int
    rounds: int
    predictions: list[Prediction] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def acknowledged(self) -> int:
        """How many requests the service has said yes to."""
        return len(self.predictions) + len(self.answers)

    def work(self, stop: threading.Event) -> None:
        """Play rounds until there were enough of them, and the event is set."""
        rng = np.random.default_rng(self.seed)
        clients = [Client(url, timeout=SECONDS, retries=1000, longest_pause=0.1) for url in self.urls]
        turn = 0
        while turn < self.rounds or not stop.is_set():
            client = clients[turn % len(clients)]
            made = client.predict("load", rng.dirichlet(np.ones(5)).tolist())
            self.predictions.append(made)
            waiting = self.predictions[-int(rng.integers(1, 4)) :][0]
            if waiting.id not in self.answers:
                label = int(rng.integers(5))
                answer = {"label": label} if label in waiting else "miss"
                if isinstance(answer, dict):
                    client.learn(waiting, label=label)
                else:
                    client.learn(waiting, keyhole.MISS)
                self.answers[waiting.id] = answer
            turn += 1
        for client in clients:
            client.close()


@contextmanager
def busy(workers: Sequence[Worker]) -> Iterator[None]:
    """Let the workers work while the block runs, and until each has played its rounds."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(workers)) as threads:
        done = [threads.submit(worker.work, stop) for worker in workers]
        try:
            yield
        finally:
            stop.set()
        for future in done:
            future.result()

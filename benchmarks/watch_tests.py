"""Which test executes which lines, and how long it takes; and tests run in a fork of this process."""

import json
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import coverage
import numpy as np  # noqa: F401  imported before the forks, which then need not
import pytest
from hypothesis import Phase, settings

from mutate import Mutant, digest_of

COVERAGE = str(Path(coverage.__file__).parent)
WAIT = 5  # times the processor's seconds that a test may take by the clock on the wall
SHARED = "what several tests share"
IMPORTED = (
    "/test_parameters.py::",
    "/test_make.py::",
)  # hold the ranges and tables that an import fixes
PLUGINS = ("-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "anyio", "--tb=no")


def run_forked(work: Callable[[], int], *, cpu: float, wall: float) -> int | None:
    """Return what the work returned in a process of its own; None where it took too long."""
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        hush = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(hush, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cpu), math.ceil(cpu) + 5))
        code = 3
        try:
            code = work()
        finally:
            os._exit(code)
    end = time.monotonic() + wall
    try:
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
            time.sleep(0.01)
        return None
    finally:  # also where this process is stopped
        stop_group(child)


def stop_group(group: int) -> None:
    """Stop what a process has left behind."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def run_pytest(folder: Path, nodes: list[str], *, plugin: object) -> int:
    os.chdir(folder)
    sys.path.insert(0, str(folder / "src"))
    sys.dont_write_bytecode = not isinstance(plugin, Watch)
    return int(pytest.main([*PLUGINS, f"--basetemp={folder}-tmp", *nodes], plugins=[plugin]))


class Quick:
    """Stops at the first failure, without making its example smaller."""

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        session.config.option.maxfail = 1
        known = settings.get_profile("keyhole")
        settings.register_profile("mutants", known, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutants")


class Watch:
    """Notes the time of every test, infinite if it fails or is slow; coverage notes its lines."""

    def __init__(self, cover: coverage.Coverage, place: Path, *, slow: float) -> None:
        self.cover, self.place = cover, place
        self.slow = slow
        self.node = ""
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.node = item.nodeid
        self.seconds[self.node] = 0.0
        self.place.write_text(self.node, encoding="utf-8")
        self.cover.switch_context(self.node)
        signal.signal(signal.SIGPROF, stop_test)
        signal.signal(signal.SIGALRM, stop_test)
        signal.setitimer(signal.ITIMER_PROF, self.slow)
        signal.setitimer(signal.ITIMER_REAL, WAIT * self.slow)
        began = time.process_time()  # It does not depend on what else the machine does.
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.seconds[self.node] += time.process_time() - began
            self.cover.switch_context("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """Note the lines of a fixture that several tests share as executed by each of them."""
        is_shared = fixturedef.scope != "function"
        if is_shared:
            self.cover.switch_context(SHARED)
        try:
            return (yield)
        finally:
            if is_shared:
                self.cover.switch_context(self.node)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.seconds[report.nodeid] = math.inf


class TooSlowError(BaseException):
    """A test that takes longer than it may; hypothesis lets it pass."""


def stop_test(_signal: int, frame: FrameType | None) -> None:
    """Stop the test, or a little later where coverage may hold its lock."""
    if frame is not None and COVERAGE in frame.f_code.co_filename:
        signal.setitimer(signal.ITIMER_PROF, 0.01)
        return
    raise TooSlowError


def watch(folder: Path, path: str, found: Path, *, slow: float, without: list[str]) -> int:
    """Write which tests of a file are quick, how long each takes and which lines it executes."""
    package = str(folder / "src" / "keyhole")
    cover = coverage.Coverage(data_file=None, source=[package], config_file=False)
    plugin = Watch(cover, _place(found), slow=slow)
    cover.start()
    code = run_pytest(folder, [path, *(f"--deselect={node}" for node in without)], plugin=plugin)
    cover.stop()
    data = cover.get_data()
    lines: dict[str, dict[str, list[int]]] = {}
    for file in data.measured_files():
        name = str(Path(file).relative_to(folder))
        for line, contexts in data.contexts_by_lineno(file).items():
            for context in contexts:
                lines.setdefault(context, {}).setdefault(name, []).append(line)
    shared = lines.get(SHARED, {})
    tests = {
        node: {"seconds": round(taken, 4), "lines": _join_lines(lines.get(node, {}), shared)}
        for node, taken in plugin.seconds.items()
        if math.isfinite(taken)
    }
    left_out = sorted({*plugin.seconds, *without} - set(tests))
    found.write_text(json.dumps({"tests": tests, "left_out": left_out}), encoding="utf-8")
    return code


def _place(found: Path) -> Path:
    """Return the file that holds which test is run just now."""
    return found.with_suffix(".at")


def _join_lines(own: dict[str, list[int]], shared: dict[str, list[int]]) -> dict[str, list[int]]:
    return {path: sorted({*own.get(path, ()), *shared.get(path, ())}) for path in {**own, **shared}}


def learn_tests(folder: Path, paths: list[str], *, kept: Path, slow: float) -> dict[str, Any]:
    """Return every test that is not slow, with its seconds, its lines and the digest of its file."""
    tests: dict[str, Any] = {}
    for path in paths:
        file, digest = kept / (path.replace("/", "-") + ".json"), _digest_test(folder, path)
        known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        if known is None or known["digest"] != digest or (known["left_out"] and known["slow"] < slow):
            began, fresh = time.monotonic(), file.with_suffix(".new")
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)
            without = list(known["left_out"]) if known and known["slow"] >= slow else []
            known = _watch_to_the_end(folder, path, fresh, slow=slow, without=without)
            names = {name for test in known["tests"].values() for name in test["lines"]}
            sources = {name: _digest(folder, name) for name in names}
            known |= {"digest": digest, "slow": slow, "sources": sources}
            fresh.write_text(json.dumps(known), encoding="utf-8")
            fresh.replace(file)
            counts = f"{len(known['tests'])} tests, {len(known['left_out'])} slow ones left out"
            print(f"  {path}: {counts}, {time.monotonic() - began:.0f} s", flush=True)
        changed = {
            name
            for name, old in known["sources"].items()
            if not (folder / name).exists() or _digest(folder, name) != old
        }
        for node, test in known["tests"].items():
            lines = _forget_lines(test["lines"], changed)
            tests[node] = {"seconds": test["seconds"], "lines": lines, "digest": known["digest"]}
    return tests


def _watch_to_the_end(
    folder: Path, path: str, found: Path, *, slow: float, without: list[str]
) -> dict[str, Any]:
    """Return what ``watch`` writes; a test that is stopped half-way may hang, and then is left out."""
    while True:
        run_forked(partial(watch, folder, path, found, slow=slow, without=without), cpu=600, wall=300)
        if found.exists():
            return dict(json.loads(found.read_text(encoding="utf-8")))
        stuck = _place(found).read_text(encoding="utf-8")
        if stuck in without:
            raise TimeoutError(f"{path} does not end")
        without = [*without, stuck]


def _digest(folder: Path, path: str) -> str:
    return digest_of((folder / path).read_text(encoding="utf-8"))


def _digest_test(folder: Path, path: str) -> str:
    """Return the digest of a test file and of the fixtures above it."""
    shared = [parent / "conftest.py" for parent in (folder / path).parents]
    files = [folder / path, *(file for file in shared if file.exists())]
    return digest_of(*(file.read_text(encoding="utf-8") for file in files))


def _forget_lines(test: dict[str, Any], changed: set[str]) -> dict[str, Any]:
    """Return a test with no more than the names of the files that have changed since it was watched."""
    return {path: None if path in changed else lines for path, lines in test.items()}


def choose_tests(mutant: Mutant, tests: dict[str, Any], *, budget: float) -> list[str]:
    """Return the tests that execute the mutant's line, or the function in whose head it is.

    As many as fit the budget: those in the file's own test file come first, then the quickest; last
    those on PostgreSQL, which must start a server. A line
    that only the import executes has the tests of its file, those first that see most of it, and all
    of its own test file and of those that hold what an import fixes; so has every line of a file that
    has changed since its tests were watched.
    """
    lines, path = mutant.lines, mutant.path
    own = f"/test_{Path(path).stem.lstrip('_')}.py::"
    seen = {node: test["lines"][path] for node, test in tests.items() if path in test["lines"]}
    seen = seen or dict.fromkeys(tests)  # a new file: any test may execute it
    reached = {node: 1.0 for node, of in seen.items() if not of or any(n in of for n in lines)}
    first: tuple[str, ...] = (own,)
    if not (reached and lines):
        first = (own, *IMPORTED)
        seen = dict.fromkeys(node for node in tests if any(part in node for part in first)) | seen
        reached = {node: float(len(of or "1")) for node, of in seen.items()}
    chosen: list[str] = []
    spent = 0.0
    costs = {
        node: (
            "[postgres" in node,
            not any(part in node for part in first),
            tests[node]["seconds"] / of,
            node,
        )
        for node, of in reached.items()
    }
    for node in sorted(reached, key=costs.__getitem__):
        seconds = tests[node]["seconds"]
        if not chosen or spent + seconds <= budget:
            spent += seconds
            chosen.append(node)
    return chosen

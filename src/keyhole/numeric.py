"""The two lanes a kernel runs in, and functions that both compute alike, bit for bit.

A kernel is a plain Python function. The interpreted lane runs it as it is. The compiled lane compiles
it with numba (the extra ``fast``), the kernels it names first; floating-point operations are neither
reordered nor contracted, so that both lanes give the same bits. The C library's exponential and
logarithm may differ in the last bit from one lane to the other; those here use only operations that
IEEE 754 rounds exactly.
"""

import math
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from importlib import import_module
from operator import add
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import NotCompiledError, SpeedWarning, warn_user

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., object])

_FLOOR = -44.0  # e^-44 is below half a unit in the last place of any sum that holds e^0.
_LN_2 = 0.6931471805599453
_HALF_ROOT = 0.7071067811865476
_SERIES = 12  # terms of the series of atanh; the next would be below 1e-18
_FRACTIONS = 14  # levels of the continued fraction of tan
_PLACE = re.compile(r'File "([^"]+)", line (\d+)|(\S+) \((\d+)\)')  # how numba names a line
_LONGEST = 200  # characters of a cause
_CACHE = "KEYHOLE_CACHE"
_configuring = threading.RLock()  # numba's cache folder is a setting of the whole process


def add_up(numbers: Iterable[float]) -> float:
    """Return the sum from left to right; Python's own rounds otherwise from 3.12 on."""
    return reduce(add, numbers, 0.0)


def kernel(function: Function) -> Function:
    """Mark a function of a rule; it is returned unchanged, and compiled where numba is installed.

    It may use numbers, arrays, named tuples of them, ``math``, and other kernels, and is
    deterministic. What numba cannot compile still works, interpreted.

    Examples
    --------
    >>> @kernel
    ... def halve(x):
    ...     return 0.5 * x
    >>> halve(3.0)
    1.5
    """
    function.__kernel__ = True  # type: ignore[attr-defined]
    return function


def called(function: Function) -> Function:
    """Mark a kernel that the compiled lane calls where it is named: a long one compiles sooner so."""
    function.__called__ = True  # type: ignore[attr-defined]
    return kernel(function)


def compiled_as(twin: Function) -> Callable[[Function], Function]:
    """Mark a function of the interpreted lane; the compiled lane runs its twin, to the same result."""

    def mark(function: Function) -> Function:
        function.__twin__ = twin  # type: ignore[attr-defined]
        return function

    return mark


def merged(function: Function) -> Function:
    """Mark an entry into which LLVM copies its kernels, not numba: a long one compiles sooner so.

    A loop over a grid is quicker if numba does.
    """
    function.__merged__ = True  # type: ignore[attr-defined]
    return kernel(function)


@cache
def can_compile() -> bool:
    """Return whether there is a compiled lane: numba is installed and not disabled."""
    from importlib.util import find_spec

    if find_spec("numba") is None:
        warn_user(
            "numba is not installed, so that simulations and learners with a grid run interpreted, "
            "some hundred times slower; pip install 'keyhole-conformal[fast]'",
            SpeedWarning,
        )
        return False
    return os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"


def bind(function: Function, **names: object) -> Function:
    """Return a copy of a function in which these global names stand for something else.

    That is how a loop over rounds gets the kernels of a learner: as names, not as arguments, so that
    the copy compiles into one piece.
    """
    made = cast("FunctionType", function)
    copy = FunctionType(
        made.__code__,
        {**made.__globals__, **names},
        made.__name__,
        made.__defaults__,
        made.__closure__,
    )
    copy.__qualname__ = made.__qualname__
    return cast("Function", copy)


def compile_function(function: Function) -> Function:
    """Return the function for the compiled lane; the function itself where there is none."""
    if not can_compile():
        return function
    return cast("Function", _compile(cast("FunctionType", function), entry=True))


@cache
def _compile(function: FunctionType, *, entry: bool, counts: bool = True, merges: bool = False) -> Any:
    """Return the function compiled, after the functions that it names; entries are kept on disk.

    To count references to arrays takes longer than a round; only what makes arrays needs it.
    """
    numba = import_module("numba")

    merges |= hasattr(function, "__merged__")
    named = {
        name: _compile(value, entry=False, counts=counts, merges=merges)
        for name, value in globals_of(function).items()
        if isinstance(value, FunctionType)
    }
    copy = bind(function, **named) if named else function
    is_called = entry or hasattr(function, "__called__")  # The others are copied into the entry.
    options = {"nogil": True, "error_model": "numpy"}
    if not is_called:
        options |= {"forceinline": True} if merges else {"inline": "always"}
    if not counts:
        options["_nrt"] = False
    if not entry:  # Python does not call it.
        options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    if not entry or function.__closure__ or is_of_script(function):
        return numba.njit(**options)(copy)
    with _configuring, _cache_folder(function) as folder:
        try:
            return numba.njit(cache=folder is not None, **options)(copy)
        except RuntimeError:  # There is no file behind it: typed at a prompt, or made by exec.
            return numba.njit(**options)(copy)


def cache_root() -> Path:
    """Return the folder for what can be made again: ``KEYHOLE_CACHE``, or the user's cache folder."""
    if given := os.environ.get(_CACHE):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "keyhole"


def fingerprint(function: FunctionType) -> str:
    """Return a digest of a function's code and of all that it names, however far away."""
    from hashlib import blake2b

    return blake2b(_text(function, set()).encode(), digest_size=12).hexdigest()


def _text(value: object, seen: set[int]) -> str:
    if isinstance(value, FunctionType):
        if id(value) in seen:
            return value.__qualname__
        seen.add(id(value))
        named = [f"{name}={_text(held, seen)}" for name, held in globals_of(value).items()]
        cells = [_text(cell.cell_contents, seen) for cell in value.__closure__ or ()]
        kept = [_text(one, seen) for one in value.__defaults__ or ()]
        # With the module: what is kept of a function imports it by that name.
        name = f"{value.__module__}.{value.__qualname__}"
        return "\n".join([name, _text(value.__code__, seen), *named, *cells, *kept, *_members(value)])
    if isinstance(value, CodeType):
        parts = (value.co_code.hex(), value.co_names, value.co_varnames, value.co_argcount)
        return repr(parts) + "".join(_text(constant, seen) for constant in value.co_consts)
    if isinstance(value, type):
        fields = getattr(value, "_fields", ()), getattr(value, "_field_defaults", {})
        return f"{value.__module__}.{value.__qualname__}{fields}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    return getattr(value, "__name__", None) or repr(value)


def _members(function: FunctionType) -> list[str]:
    """Return the numbers that a function reads out of modules it names."""
    modules = [held for held in globals_of(function).values() if isinstance(held, ModuleType)]
    return [
        f"{module.__name__}.{name}={held!r}"
        for module in modules
        for name in sorted(_names(function.__code__))
        if isinstance(held := getattr(module, name, None), (bool, int, float, tuple))
    ]


def globals_of(function: FunctionType) -> dict[str, Any]:
    """Return the module's names that a function mentions, with what they stand for when compiled."""
    known = function.__globals__
    mentioned = [name for name in sorted(_names(function.__code__)) if name in known]
    return {name: getattr(known[name], "__twin__", known[name]) for name in mentioned}


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*(_names(part) for part in inner))


def is_of_script(function: FunctionType) -> bool:
    """Return whether a function, or one that it names, belongs to the script that runs.

    Its classes are others in every process, so that what is kept on disk would never be found again.
    """
    if function.__globals__.get("__name__") == "__main__":
        return True
    named = globals_of(function).values()
    return any(is_of_script(one) for one in named if isinstance(one, FunctionType) and one != function)


@contextmanager
def _cache_folder(function: FunctionType) -> Iterator[Path | None]:
    """Let numba keep what it compiles in a folder that belongs to exactly this code.

    numba alone would return stale code when a kernel in another file changes.
    """
    numba = import_module("numba")

    folder = cache_root() / f"kernels-{numba.__version__}-{sys.version_info[0]}.{sys.version_info[1]}"
    folder /= f"{function.__name__}-{fingerprint(function)}"
    before = numba.config.CACHE_DIR
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # A machine without a home, or one that may not be written to.
        yield None
        return
    try:
        numba.config.CACHE_DIR = str(folder)
        yield folder
    finally:
        numba.config.CACHE_DIR = before


def compile_for(function: Function, *arguments: object) -> Function:
    """Return the function compiled for arguments like these, by one process at a time."""
    try:
        return _compile_for(function, arguments, counts=False)
    except NotCompiledError:
        return _compile_for(function, arguments, counts=True)


def _compile_for(function: Function, arguments: tuple[object, ...], *, counts: bool) -> Function:
    numba = import_module("numba")

    dispatcher = _compile(cast("FunctionType", function), entry=True, counts=counts)
    with _configuring, _one_process(dispatcher):
        try:
            dispatcher.compile(tuple(numba.typeof(argument) for argument in arguments))
        except Exception as error:  # Its lowering also raises others than NumbaError.
            raise NotCompiledError(f"numba cannot compile it: {_find_cause(error)}") from error
    return cast("Function", dispatcher)


def _find_cause(error: Exception) -> str:
    """Return what numba cannot do and in which line, without the names of its passes."""
    message = str(error)
    lines = [line.strip() for line in message.splitlines()]
    reasons = [line for line in lines if line and not line.startswith("Failed in ")]
    cause = (
        f"{reasons[0]} {reasons[1]}"
        if reasons and reasons[0].endswith(":")
        else (reasons or [repr(error)])[0]
    )
    cause = cause.partition("Raised from ")[0].rstrip(". ")
    lines_named = [(path or other, line or at) for path, line, other, at in _PLACE.findall(message)]
    own = [f" ({Path(path).name}, line {at})" for path, at in lines_named if "/numba/" not in path]
    return f"{cause[:_LONGEST]}{own[0] if own else ''}"


@contextmanager
def _one_process(dispatcher: object) -> Iterator[None]:
    """Hold the lock of the folder that numba writes to, where there is one."""
    folder = getattr(getattr(dispatcher, "stats", None), "cache_path", None)
    if not folder or os.name != "posix":
        yield
        return
    import fcntl

    Path(folder).mkdir(parents=True, exist_ok=True)
    with (Path(folder) / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@kernel
def exp(x: float) -> float:
    """Return e^x for x <= 0 to 2e-12, and e^-44 for anything below -44.

    A Taylor polynomial at x / 2048, squared eleven times: no branch and no bit tricks, so that the
    compiler vectorises it and the interpreter computes the same bits.
    """
    y = (x if x > _FLOOR else _FLOOR) * (1.0 / 2048.0)
    power = 1.0 + y * (1.0 + y * (1 / 2 + y * (1 / 6 + y * (1 / 24 + y * (1 / 120 + y * (1 / 720))))))
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    power *= power
    return power


@kernel
def ln(x: float) -> float:
    """Return the natural logarithm of x > 0."""
    part, power = math.frexp(x)
    if part < _HALF_ROOT:
        part *= 2.0
        power -= 1
    ratio = (part - 1.0) / (part + 1.0)
    square = ratio * ratio
    total = 0.0
    for n in range(_SERIES, -1, -1):
        total = total * square + 1.0 / (2 * n + 1)
    return 2.0 * ratio * total + power * _LN_2


@kernel
def tan(x: float) -> float:
    """Return the tangent of x, for x between -pi/2 and pi/2, by its continued fraction."""
    square = x * x
    rest = 2.0 * _FRACTIONS + 1.0
    for n in range(_FRACTIONS - 1, -1, -1):
        rest = 2.0 * n + 1.0 - square / rest
    return x / rest


@kernel
def sigmoid(z: float) -> float:
    """Return 1 / (1 + e^-z)."""
    power = exp(-abs(z))
    return (1.0 if z >= 0.0 else power) / (1.0 + power)


@kernel
def logit(share: float, edge: float) -> float:
    """Return ln(share / (1 - share)), kept between -edge and edge."""
    if share <= 0.0:
        return -edge
    if share >= 1.0:
        return edge
    z = ln(share) - ln(1.0 - share)
    return min(edge, max(-edge, z))

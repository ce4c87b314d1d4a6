"""Functions and what they name: a digest of their code, and where to keep what is made of it."""

import os
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_CACHE = "KEYHOLE_CACHE"


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
    """Return the module's names that a function mentions, with what they stand for."""
    known = function.__globals__
    return {name: known[name] for name in sorted(_names(function.__code__)) if name in known}


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

"""The one way a function is compiled.

Kernels are compiled at their first call in a process and kept in its memory; nothing is cached on
disk. With ``NUMBA_DISABLE_JIT=1`` they run as plain Python, with the same results bit for bit:
floating-point operations are neither reordered nor contracted.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile a function so that it runs without the interpreter's lock."""
    return cast("Function", numba.njit(nogil=True, error_model="numpy", forceinline=True)(function))

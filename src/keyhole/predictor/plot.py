"""Rounds as a picture: how many missed, beside the target, and how large the sets were."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyhole.checks import is_whole
from keyhole.errors import InvalidError, MissingExtraError
from keyhole.numeric import Array

_BLUE, _GREY, _RED, _GREEN = "#1f5fa8", "#8a8f98", "#b3261e", "#2a7a4b"
_OTHERS = ("#d08a1d", _GREEN, "#8e5bb5", "#c2678d", "#4f9fb0", "#7a6a53")  # groups, in turn


def plot_rounds(
    misses: ArrayLike,
    sizes: ArrayLike,
    *,
    alpha: float,
    sized: str,
    window: int | None = None,
    axes: object,
    groups: Mapping[str, NDArray[np.bool_]] | None = None,
) -> Any:
    """Draw the miss rate so far and in a window, with its target, and the sizes; return two axes.

    ``axes`` are two to draw into, or None for a new figure; ``sized`` is what the lower one shows;
    ``groups`` says of each group by name which rounds were in it.
    """
    missed, size = np.asarray(misses, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    top, bottom = pick_axes(axes, missed.size)
    width = _choose_window(window, missed.size)
    rounds = np.arange(1, missed.size + 1)
    top.plot(rounds, _mean_so_far(missed), color=_GREY, label="missed so far")
    top.plot(rounds[width - 1 :], _slide(missed, width), color=_BLUE, label=f"of the last {width:,}")
    for place, (name, own) in enumerate((groups or {}).items()):
        if own.any():
            rates, colour = _mean_so_far(missed[own]), _OTHERS[place % len(_OTHERS)]
            top.plot(rounds[own], rates, color=colour, linewidth=1.2, label=f"{name}, so far")
    top.axhline(alpha, color=_RED, linestyle="--", label=f"target {alpha:g}")
    top.set(ylabel="miss rate", ylim=(0.0, max(2.5 * alpha, 1.1 * float(_slide(missed, width).max()))))
    _explain(top, columns=3)
    bounded = np.isfinite(size)  # an interval of the whole line has no size to draw
    bottom.plot(
        rounds[bounded], size[bounded], ".", color=_GREY, alpha=0.3, markersize=2, label="one round"
    )
    known = np.where(bounded, size, np.nan)
    named = f"mean of the last {width:,}"
    bottom.plot(rounds[width - 1 :], _slide(known, width), color=_BLUE, label=named)
    _explain(bottom, columns=2)
    bottom.set(xlabel="answered round", ylabel=sized)
    return top, bottom


def plot_decisions(
    accepted: ArrayLike, wrong: ArrayLike, *, alpha: float, window: int | None = None, axes: object
) -> Any:
    """Draw the share wrong among the accepted, with its target, and the share accepted; return axes.

    ``wrong`` is 1 where an accepted answer was wrong, 0 where it was right, NaN where nobody said.
    """
    taken, judged = np.asarray(accepted, dtype=np.float64), np.asarray(wrong, dtype=np.float64)
    top, bottom = pick_axes(axes, taken.size)
    width = _choose_window(window, taken.size)
    rounds = np.arange(1, taken.size + 1)
    known = (taken > 0.0) & np.isfinite(judged)
    if known.any():
        top.plot(rounds[known], _mean_so_far(judged[known]), color=_BLUE, label="wrong so far")
    top.axhline(alpha, color=_RED, linestyle="--", label=f"target {alpha:g}")
    top.set(ylabel="wrong among the accepted", ylim=(0.0, 3.0 * alpha))
    _explain(top, columns=2)
    bottom.plot(rounds, _mean_so_far(taken), color=_GREY, label="accepted so far")
    bottom.plot(rounds[width - 1 :], _slide(taken, width), color=_GREEN, label=f"of the last {width:,}")
    bottom.set(xlabel="decision", ylabel="share accepted", ylim=(0.0, 1.0))
    _explain(bottom, columns=2)
    return top, bottom


def pick_axes(axes: Any, rounds: int) -> tuple[Any, Any]:
    """Return the two axes given, or those of a new figure; raise if there is nothing to draw."""
    if rounds == 0:
        raise InvalidError("there is no answered round to draw yet; learn some first")
    top, bottom = make_axes(2, size=(7.0, 5.0)) if axes is None else axes
    return top, bottom


def make_axes(count: int, *, size: tuple[float, float]) -> Any:
    """Return the axes of a new figure, one below the other."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtraError(
            "a picture needs matplotlib; pip install 'keyhole-conformal[plot]'"
        ) from None
    _, made = plt.subplots(count, sharex=True, squeeze=False, figsize=size, layout="constrained")
    for axis in made.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.2)
    return made.flat


def _explain(axis: Any, *, columns: int) -> None:
    """Say above the picture, where no curve runs through the words, what each line is."""
    drawn = axis.legend(
        frameon=False,
        ncols=columns,
        fontsize="small",
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
        markerscale=4.0,
    )
    for line in drawn.get_lines():
        line.set_alpha(1.0)  # a faint dot among thousands is seen, alone it is not


def _choose_window(window: int | None, rounds: int) -> int:
    """Return the window, a tenth of the rounds unless told, and no longer than they are."""
    if window is not None and not is_whole(window, least=0):
        raise InvalidError(f"window {window!r} is not a number of rounds; try 100")
    return min(max(1, rounds // 10 if window is None else window), rounds)


def _slide(values: Array, width: int) -> Array:
    """Return the mean of every ``width`` values in a row, passing over those that are NaN."""
    known = np.isfinite(values)
    sums = np.concatenate(([0.0], np.cumsum(np.where(known, values, 0.0))))
    counts = np.concatenate(([0], np.cumsum(known)))
    total, count = sums[width:] - sums[:-width], counts[width:] - counts[:-width]
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def _mean_so_far(values: Array) -> Array:
    return np.cumsum(values) / np.arange(1, values.size + 1)

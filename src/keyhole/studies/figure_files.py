"""Pictures in files: their names, the figure that they are drawn on, and how they are saved."""

from pathlib import Path
from typing import TYPE_CHECKING

from keyhole.errors import InvalidError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ENDINGS = (".png", ".svg", ".pdf")


def check_picture(path: Path) -> None:
    """Raise if no picture can have this name, before the work that it would show."""
    if path.suffix not in _ENDINGS:
        raise InvalidError(f"{path} is not a picture's name; end it in {' or '.join(_ENDINGS)}")


def open_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of so many inches, or raise if matplotlib is not there."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(
            "the picture needs matplotlib; pip install 'keyhole-conformal[plot]'"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", path: Path, *, dpi: int = 150) -> None:
    """Write the figure, its axes open at the top and at the right, over a faint grid."""
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#000000", alpha=0.08, lw=0.6)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi)

"""Pictures in files: their names, and the figure that they are drawn on."""

from pathlib import Path
from typing import Any

from keyhole.errors import InvalidError, MissingExtraError

_ENDINGS = (".png", ".svg", ".pdf")


def check_picture(path: Path) -> None:
    """Raise if no picture can have this name, before the work that it would show."""
    if path.suffix not in _ENDINGS:
        raise InvalidError(f"{path} is not a picture's name; end it in {' or '.join(_ENDINGS)}")


def open_figure(width: float, height: float) -> Any:
    """Return an empty figure of so many inches, or raise if matplotlib is not there."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError(
            "the picture needs matplotlib; pip install 'keyhole-conformal[plot]'"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")

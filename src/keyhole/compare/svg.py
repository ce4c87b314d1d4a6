"""Just enough SVG: a frame with scales, and shapes in its coordinates."""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Scale:
    """From values to places along an axis."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value, kept within the axis."""
        low, high, at = self.low, self.high, min(self.high, max(self.low, value))
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Return whether the value lies within the axis."""
        return self.low <= value <= self.high


@dataclass
class Plot:
    """A frame to draw in."""

    width: int
    height: int
    x: Scale
    y: Scale
    parts: list[str] = field(default_factory=list)

    def line(self, points: Iterable[tuple[float, float]], kind: str, *, tag: str = "") -> None:
        """Draw a line through points."""
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}"{_tagged(tag)} points="{path}"/>')

    def area(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        """Fill the shape between points."""
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polygon class="{kind}" points="{path}"/>')

    def dot(self, x: float, y: float, kind: str, *, size: float, title: str, tag: str = "") -> None:
        """Draw a dot with words for the pointer."""
        self.parts.append(
            f'<circle class="{kind}"{_tagged(tag)} cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" '
            f'r="{size:g}"><title>{html.escape(title)}</title></circle>'
        )

    def words(
        self, x: float, y: float, text: str, kind: str, *, anchor: str = "start", tag: str = ""
    ) -> None:
        """Write words at a place of the picture, in its pixels."""
        self.parts.append(
            f'<text class="{kind}"{_tagged(tag)} x="{x:.1f}" y="{y:.1f}" '
            f'text-anchor="{anchor}">{html.escape(text)}</text>'
        )

    def ticks(self, xs: Sequence[float], ys: Sequence[float], *, form: str = "g") -> None:
        """Draw faint lines with numbers at these values."""
        left, bottom = self.x.start, self.y.start
        for value in xs:
            place = self.x(value)
            self.parts.append(
                f'<line class="grid" x1="{place:.1f}" y1="{self.y.start:.1f}" x2="{place:.1f}" '
                f'y2="{self.y.end:.1f}"/>'
            )
            self.words(place, bottom + 15, f"{value:{form}}", "tick", anchor="middle")
        for value in ys:
            place = self.y(value)
            self.parts.append(
                f'<line class="grid" x1="{self.x.start:.1f}" y1="{place:.1f}" x2="{self.x.end:.1f}" '
                f'y2="{place:.1f}"/>'
            )
            self.words(left - 6, place + 4, f"{value:{form}}", "tick", anchor="end")

    def text(self, *, title: str) -> str:
        """Return the picture."""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{html.escape(title)}">{"".join(self.parts)}</svg>'
        )


def _tagged(tag: str) -> str:
    return f' data-learner="{html.escape(tag)}"' if tag else ""

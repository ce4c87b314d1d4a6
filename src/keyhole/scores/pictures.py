"""Small pictures and tables for notebooks: a bar, a dot, a span on a line, names beside values."""

import math

WIDTH, _HEIGHT = 240, 14
_GOOD, _BAD = "#2a7", "#c63"
_START, _END = 0.2 * WIDTH, 0.8 * WIDTH  # between which a bounded interval is drawn


def write_table(rows: dict[str, str]) -> str:
    """Return names beside values, NaN as a dash."""
    known = {name: "-" if value == "nan" else value for name, value in rows.items()}
    cells = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in known.items())
    return f"<table>{cells}</table>"


def draw_rate(rate: float, alpha: float, *, called: str) -> str:
    """Return a bar as long as a rate, the target marked; nothing if there is no rate yet."""
    if math.isnan(rate):
        return ""
    full = max(2.0 * alpha, rate)
    bar = draw_bar(rate / full, alpha / full, is_good=rate <= 1.25 * alpha, called=called)
    return f"{bar}<br><small>{called}</small>"


def draw_bar(share: float, mark: float, *, is_good: bool, called: str) -> str:
    """Return a bar over this share of its room, with a mark at another."""
    at = WIDTH * mark
    return (
        f'<svg width="{WIDTH}" height="{_HEIGHT}" role="img" aria-label="{called}">'
        f'<rect width="{WIDTH}" height="{_HEIGHT}" fill="#8883"/>'
        f'<rect width="{WIDTH * share:.1f}" height="{_HEIGHT}" fill="{_GOOD if is_good else _BAD}"/>'
        f'<line x1="{at:.1f}" x2="{at:.1f}" y2="{_HEIGHT}" stroke="currentColor" stroke-width="2"/>'
        "</svg>"
    )


def draw_dot(*, is_good: bool) -> str:
    """Return a dot in the colour of what is good, or is not."""
    fill = _GOOD if is_good else _BAD
    return f'<svg width="10" height="10"><circle cx="5" cy="5" r="5" fill="{fill}"/></svg>'


def draw_span(lower: float, upper: float) -> str:
    """Return an interval as a bar on a line, with a stroke at each end that it has."""
    start = 0.0 if math.isinf(lower) else _START
    end = WIDTH if math.isinf(upper) else _END
    ends = [at for at, value in ((start, lower), (end, upper)) if math.isfinite(value)]
    strokes = "".join(
        f'<line x1="{at:.1f}" x2="{at:.1f}" y2="{_HEIGHT}" stroke="currentColor" stroke-width="2"/>'
        for at in ends
    )
    return (
        f'<svg width="{WIDTH}" height="{_HEIGHT}" role="img" aria-label="interval">'
        f'<line x2="{WIDTH}" y1="{_HEIGHT / 2}" y2="{_HEIGHT / 2}" stroke="#888"/>'
        f'<rect x="{start:.1f}" y="3" width="{end - start:.1f}" height="{_HEIGHT - 6}" fill="{_GOOD}"/>'
        f"{strokes}</svg>"
    )

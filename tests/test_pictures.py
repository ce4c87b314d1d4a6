"""What a user holds shows itself in a notebook, with a picture that says what the numbers say."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from keyhole import Gate, make, simulate
from keyhole.scores import Decision, Interval


def read_bars(shown: str) -> list[dict[str, str]]:
    """Return the attributes of the bars in the one picture there is, which is well-formed."""
    (picture,) = re.findall(r"<svg.*?</svg>", shown)
    return [bar.attrib for bar in ElementTree.fromstring(picture).iter("rect")]  # noqa: S314


def test_an_interval_is_a_bar_with_its_ends() -> None:
    shown = Interval(3, 0.5, 48.0, 52.0)._repr_html_()
    assert "48 to 52" in shown
    assert (read_bars(shown)[0]["x"], read_bars(shown)[0]["width"]) == ("48.0", "144.0")
    assert shown.count('stroke-width="2"') == 2


@pytest.mark.parametrize(("lower", "upper", "ends"), [(-math.inf, 5.0, 1), (-math.inf, math.inf, 0)])
def test_an_interval_without_an_end_has_no_stroke_there(lower: float, upper: float, ends: int) -> None:
    shown = Interval(0, 0.5, lower, upper)._repr_html_()
    assert read_bars(shown)[0]["x"] == "0.0"
    assert shown.count('stroke-width="2"') == ends


def test_an_empty_interval_has_no_picture() -> None:
    assert (
        Interval(0, 0.5, math.inf, -math.inf)._repr_html_()
        == "<code>empty</code> <small>(round 0)</small>"
    )


def test_a_decision_is_its_score_beside_the_threshold() -> None:
    shown = Decision(4, 0.75, 0.5, "<b>")._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "referred" in shown
    assert read_bars(shown)[1]["width"] == "120.0"
    assert 'x1="180.0"' in shown
    assert "accepted" in Gate(alpha=0.1).decide(1.0)._repr_html_()


def test_a_decision_that_nothing_reaches_has_its_mark_at_the_end() -> None:
    assert 'x1="240.0"' in Decision(0, 2.0, 0.9)._repr_html_()


def test_a_simulation_is_its_miss_rate_beside_the_target() -> None:
    run = simulate(make("kt", alpha=0.25), np.full((2, 4), 0.9))
    shown = run._repr_html_()
    assert f"<td>miss rate</td><td>{run.misses.mean():.4f}</td>" in shown
    assert "<td>target miss rate</td><td>0.25</td>" in shown
    assert float(read_bars(shown)[1]["width"]) == pytest.approx(240 * run.misses.mean() / 0.5, abs=0.1)

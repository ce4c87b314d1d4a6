"""The README's promises are those of the library."""

import math
from pathlib import Path

import keyhole

README = Path(__file__).parents[2].joinpath("README.md").read_text()


def test_the_promise_of_the_default_is_its_bound() -> None:
    learner = keyhole.Predictor(alpha=0.1).learner
    least, most = keyhole.bounds.excess(learner, rounds=10**9)
    more, fewer = math.ceil(most), math.ceil(-least)
    assert f"at most {more} rounds more than a tenth of all, and at most {fewer} fewer" in README


def test_the_loop_fits_on_a_screen() -> None:
    loop = README.split("```python\n")[1].split("```")[0]
    assert loop.count("\n") <= 30
    assert max(map(len, loop.splitlines())) <= 104

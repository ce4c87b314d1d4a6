"""The README's promises are those of the library."""

import math
from pathlib import Path

import numpy as np

import keyhole
from keyhole.scenarios.digits import digit_guesses

README = Path(__file__).parents[2].joinpath("README.md").read_text()


def test_the_promise_of_the_default_is_its_bound() -> None:
    learner = keyhole.Predictor(alpha=0.1).learner
    least, most = keyhole.bounds.excess(learner, rounds=10**9)
    more, fewer = math.ceil(most), math.ceil(-least)
    assert f"at most {more} rounds more than a tenth of all, and at most {fewer} fewer" in README


def test_the_first_block_is_short() -> None:
    block = README.split("```python\n")[1].split("```")[0]
    assert len([line for line in block.splitlines() if line]) == 7
    assert max(map(len, block.splitlines())) <= 104


def test_the_first_lines_say_what_it_is_in_the_words_of_the_field() -> None:
    first = README.split("```python\n")[0]
    words = ("online conformal prediction", "coverage", "prediction sets", "intervals", "selective")
    assert [word for word in words if word not in first.lower()] == []


def test_the_fixed_thresholds_miss_what_the_page_says() -> None:
    chances, digits = digit_guesses(10_000, seed=7)
    true = chances[np.arange(digits.size), digits]
    alone = (chances > true[:, None]).sum(1) >= 1
    high, low = np.mean(true < 0.3), np.mean(true < 0.1)
    assert f"0.3 misses {high:.1%}".replace("%", " %") in README
    assert f"0.1 misses {low:.1%}".replace("%", " %") in README
    assert f"the best label alone misses {alone.mean():.1%}".replace("%", " %") in README

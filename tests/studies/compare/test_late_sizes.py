"""How large the default's sets are under every lateness, against its own with prompt answers."""

import numpy as np
import pytest

from keyhole import make, simulate
from keyhole.numeric import Array
from keyhole.studies.compare.contest import CHANNELS

ROUNDS = 30_000


def make_errors() -> dict[str, Array]:
    """Return what forecasts are off by, in units of the scale that the scores take."""
    rng = np.random.default_rng(8)
    noise = rng.standard_normal((3, ROUNDS))
    return {
        "scale a hundred times too large": 0.01 * noise[0],
        "scale a hundred times too small": 100.0 * noise[0],
        "heavy tails, thirty times too large": rng.standard_t(3, ROUNDS) / 30.0,
        "seasons": (1.0 + 0.7 * np.sin(np.arange(ROUNDS) / 700.0)) * noise[1],
        "jumps": np.repeat([1.0, 3.0, 0.5, 2.0], ROUNDS // 4) * noise[2],
    }


ERRORS = make_errors()


def play(alpha: float, errors: Array, channel: str) -> float:
    learner, scores = make("logit-tracker", alpha=alpha), 1.0 / (1.0 + np.abs(errors))
    run = simulate(learner, scores, channel=CHANNELS[channel][1])
    return float((1.0 / np.clip(run.thresholds[0], 1e-6, 1.0) - 1.0).mean())


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
def test_late_sets_stay_within_five_times_prompt_ones_and_on_average_one_and_a_half(
    alpha: float,
) -> None:
    """Kills: hits without a search, 10 times; and every answer counted alike, thousands of times."""
    prompt = {name: play(alpha, errors, "prompt") for name, errors in ERRORS.items()}
    ratios = [
        play(alpha, errors, channel) / prompt[name]
        for channel in CHANNELS
        for name, errors in ERRORS.items()
        if channel != "prompt"
    ]
    assert max(ratios) <= 5.0
    assert np.exp(np.mean(np.log(ratios))) <= 1.5

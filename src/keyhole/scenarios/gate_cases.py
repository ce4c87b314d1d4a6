"""Where the cases of simulated gates come from: scores, and whether the answer was wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keyhole.errors import InvalidError
from keyhole.numeric import Array
from keyhole.scenarios import imagenet
from keyhole.scenarios.digits import digits
from keyhole.scenarios.table_files import JUDGED, open_table

_SPELL = 5_000  # rounds of an outage, and between two


class GateCases(NamedTuple):
    """Scores in [0, 1], and 1 where the answer was wrong."""

    scores: Array
    wrong: Array


def make_calibrated(rounds: int, *, seed: int) -> GateCases:
    """Return a model whose score is the chance that it is right."""
    return _draw(np.random.default_rng(seed), rounds, slope=1.0, shift=0.0, mean=1.0)


def make_overconfident(rounds: int, *, seed: int) -> GateCases:
    """Return a model that is surer of itself than it should be."""
    return _draw(np.random.default_rng(seed), rounds, slope=0.5, shift=-1.0, mean=4.0)


def make_halving(rounds: int, *, seed: int) -> GateCases:
    """Return a calibrated model, half of its right answers wrong from midway."""
    rng = np.random.default_rng(seed)
    scores, wrong = _draw(rng, rounds, slope=1.0, shift=0.0, mean=1.0)
    late = np.arange(rounds) >= rounds // 2
    return GateCases(scores, np.where(late & (rng.random(rounds) < 0.5), 1.0, wrong))


def make_outages(rounds: int, *, seed: int) -> GateCases:
    """Return a calibrated model, always wrong every other 5,000 rounds."""
    scores, wrong = make_calibrated(rounds, seed=seed)
    return GateCases(scores, np.where(np.arange(rounds) // _SPELL % 2 == 1, 1.0, wrong))


def make_drifting(rounds: int, *, seed: int) -> GateCases:
    """Return a model better than its scores at first, then worse."""
    rng = np.random.default_rng(seed)
    half = rounds // 2
    early = _draw(rng, half, slope=1.0, shift=1.5, mean=1.0)
    late = _draw(rng, rounds - half, slope=1.0, shift=-0.5, mean=1.0)
    return GateCases(*(np.concatenate(parts) for parts in zip(early, late, strict=True)))


def make_always_wrong(rounds: int, *, seed: int) -> GateCases:
    """Return answers that are always wrong, whatever their score."""
    scores, _ = make_calibrated(rounds, seed=seed)
    return GateCases(scores, np.ones(rounds))


def make_turning(rounds: int, *, seed: int) -> GateCases:
    """Return answers that gain trust, then are wrong, over and over.

    It is the simplest adversary: 400 right answers with high scores, then 100 wrong ones.
    """
    rng = np.random.default_rng(seed)
    wrong = (np.arange(rounds) % 500 >= 400).astype(np.float64)
    return GateCases(rng.uniform(0.9, 1.0, rounds), wrong)


def make_digits(rounds: int, *, seed: int) -> GateCases:
    """Return handwritten digits, read by a classifier that saw 150 of them."""
    drawn = digits(rounds, seed=seed)
    best = drawn.probabilities.argmax(axis=1)
    return GateCases(drawn.probabilities.max(axis=1), (best != drawn.digits).astype(np.float64))


GATE_SCENARIOS: dict[str, Callable[..., GateCases]] = {
    "digits": make_digits,
    "calibrated": make_calibrated,
    "overconfident": make_overconfident,
    "drift": make_drifting,
    "accuracy halves": make_halving,
    "outages": make_outages,
    "always wrong": make_always_wrong,
    "turning": make_turning,
}


def read_imagenet_gate(path: Path) -> Callable[..., GateCases]:
    """Return the scenario of a file of classifier outputs: top-1 probabilities, drawn at random."""
    outputs = imagenet.load(path)
    best, top = outputs.values.argmax(axis=1), outputs.values.max(axis=1).astype(np.float64)
    if outputs.normalisers is not None:  # They are logits.
        top = np.exp(top - outputs.normalisers)
    wrong = (best != outputs.labels).astype(np.float64)

    def draw(rounds: int, *, seed: int) -> GateCases:
        """Return a classifier's first guesses, of images drawn at random."""
        rows = np.random.default_rng(seed).integers(top.size, size=rounds)
        return GateCases(np.clip(top[rows], 0.0, 1.0), wrong[rows])

    return draw


def pick_gate_scenarios(
    names: Sequence[str] | None, *, file: Path | None = None
) -> dict[str, Callable[..., GateCases]]:
    """Return the scenarios of these names, all unless told; a file adds one."""
    known = dict(GATE_SCENARIOS)
    if file is not None:
        known["imagenet"] = read_imagenet_gate(file)
    for name in names or ():
        if name not in known:
            raise InvalidError(f"there is no scenario {name!r} for gates; there are {', '.join(known)}")
    return {name: known[name] for name in (names or known)}


def _draw(
    rng: np.random.Generator, rounds: int, *, slope: float, shift: float, mean: float
) -> GateCases:
    """Return scores with normal logits, right with a chance whose logit is slope logit + shift."""
    logits = rng.normal(mean, 2.0, rounds)
    right = rng.random(rounds) < 1.0 / (1.0 + np.exp(-(slope * logits + shift)))
    return GateCases(1.0 / (1.0 + np.exp(-logits)), (~right).astype(np.float64))


def read_gate_log(path: Path) -> GateCases:
    """Return the cases in a .csv or .parquet file, in their order.

    It has a column ``score`` (or ``confidence``, ``probability``), and a column ``right`` (or
    ``correct``) or ``wrong``, which says so by 1 or 0, true or false, yes or no; their names in any
    case. Other columns are left alone, and so are rows without an outcome. What ``keyhole export``
    writes of a gate is such a file.
    """
    with open_table(path, known=JUDGED) as table:
        return GateCases(*np.array(list(table.judged())).T)

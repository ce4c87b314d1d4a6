"""Where each learner stands over all scenarios."""

import math
from dataclasses import dataclass

import numpy as np

from keyhole.studies.compare.contest import Cell, Contest

RATIO = "size_to_best_per_segment"


@dataclass(frozen=True)
class LearnerStanding:
    """A learner over all scenarios: mean miss rate, geometric mean of its sizes over the best.

    Adversaries make their scores as they go, so that no best size is common to all: of them only
    the worst miss rate counts, ``attacked``, NaN where there is none. ``kept`` is on how many of the
    ``scenarios`` the promise is kept, ``largest`` the largest ratio of sizes on any, ``worst_group``
    the mean over the scenarios that tell groups apart, NaN where none does.
    """

    learner: str
    miss_rate: float
    strayed: float
    ratio: float
    largest: float
    kept: int
    scenarios: int
    worst_window: float
    worst_group: float
    attacked: float


def standings(contest: Contest) -> list[LearnerStanding]:
    """Return the learners that ran: who keeps the promise most often first, then by size."""
    ran: dict[str, list[Cell]] = {}
    for cell in contest.cells:
        if cell.refusal is None:
            ran.setdefault(cell.learner, []).append(cell)
    every = [_standing(name, cells, contest) for name, cells in ran.items()]
    return sorted((one for one in every if one is not None), key=_order)


def _standing(name: str, cells: list[Cell], contest: Contest) -> LearnerStanding | None:
    given = [cell for cell in cells if cell.scenario in contest.frontiers]
    fair = [cell for cell in given if math.isfinite(cell.figures[RATIO].mean)]
    attacks = [cell.figures["miss_rate"].mean for cell in cells if cell not in given]
    if not fair:
        return None
    judged = [cell.figures["worst_group"].mean for cell in fair]
    groups = [worst for worst in judged if not math.isnan(worst)]
    rates = np.array([cell.figures["miss_rate"].mean for cell in fair])
    ratios = np.array([max(cell.figures[RATIO].mean, 1e-3) for cell in fair])
    return LearnerStanding(
        learner=name,
        miss_rate=float(rates.mean()),
        strayed=float(np.abs(rates - contest.terms.alpha).max()),
        ratio=float(np.exp(np.log(ratios).mean())),
        largest=float(ratios.max()),
        kept=sum(contest.keeps(cell) for cell in fair),
        scenarios=len(fair),
        worst_window=float(np.mean([cell.figures["worst_window"].mean for cell in fair])),
        worst_group=float(np.mean(groups)) if groups else math.nan,
        attacked=max(attacks, default=math.nan),
    )


def _order(standing: LearnerStanding) -> tuple[float, float, str]:
    return -standing.kept / standing.scenarios, standing.ratio, standing.learner

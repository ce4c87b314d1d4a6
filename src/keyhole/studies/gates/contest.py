"""Every gate's rule on every scenario, at several shares of audited answers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from keyhole.learners import make
from keyhole.simulation.gates import best_fixed, simulate_gate
from keyhole.studies.compare.contest import check_counts
from keyhole.studies.gates.scenarios import GateCases

AUDITS = (1.0, 0.3, 0.1)
_FEW = 0.01  # a best threshold that accepts less than this is none to be compared with


@dataclass(frozen=True)
class Row:
    """One rule on one scenario, a mean over runs.

    ``best`` is what the best fixed threshold accepts, known in hindsight only; ``beyond`` is by how
    much the share of wrong answers is beyond alpha in the run where it is farthest from it.
    """

    scenario: str
    rule: str
    audit: float
    accepted: float
    wrong: float
    best: float
    beyond: float

    @property
    def relative(self) -> float | None:
        """The share accepted over that of the best fixed threshold; None if that is hardly any."""
        return self.accepted / self.best if self.best >= _FEW else None


def hold(
    rules: Sequence[str],
    scenarios: Mapping[str, Callable[..., GateCases]],
    *,
    alpha: float,
    rounds: int,
    runs: int,
    seed: int = 0,
    audits: Sequence[float] = AUDITS,
) -> list[Row]:
    """Return a row for every scenario, rule and share of audits; the seed is that of the first run."""
    check_counts(rounds=rounds, runs=runs, seed=seed)
    rows = []
    for name, draw in scenarios.items():
        drawn = [draw(rounds, seed=seed + run) for run in range(1, runs + 1)]
        best = fmean(best_fixed(*cases, alpha=alpha)[1] for cases in drawn)
        for rule in rules:
            learner = make(rule, alpha=alpha)
            for audit in audits:
                played = [
                    simulate_gate(learner, *cases, seed=own, audit=audit)
                    for own, cases in enumerate(drawn, start=seed)
                ]
                beyond = max((run.wrong_share - alpha for run in played), key=abs)
                accepted = fmean(run.accepted_share for run in played)
                wrong = fmean(run.wrong_share for run in played)
                rows.append(Row(name, rule, audit, accepted, wrong, best, beyond))
    return rows


def write_table(rows: Sequence[Row], *, alpha: float) -> str:
    """Return the rows as a table of text."""
    lines = [f"{'scenario':<17}{'rule':<14}{'audited':>8}{'accepted':>10}{'of best':>9}{'wrong':>8}"]
    seen = ""
    for row in rows:
        name, seen = ("" if row.scenario == seen else row.scenario), row.scenario
        relative = "-" if row.relative is None else f"{row.relative:.3f}"
        mark = " *" if row.wrong > 1.25 * alpha else ""
        lines.append(
            f"{name:<17}{row.rule:<14}{row.audit:>8g}{row.accepted:>10.3f}{relative:>9}"
            f"{row.wrong:>8.4f}{mark}"
        )
    lines.append(f"target: {alpha:g} wrong; * a quarter or more beyond it; of best: the share accepted")
    lines.append("over that of the best fixed threshold in hindsight, - where none accepts 1 %")
    return "\n".join(lines)


def write_json(rows: Sequence[Row], *, alpha: float, rounds: int, runs: int, seed: int) -> str:
    """Return the rows as JSON."""
    told = [{**asdict(row), "relative": row.relative} for row in rows]
    return json.dumps(
        {"alpha": alpha, "rounds": rounds, "runs": runs, "seed": seed, "rows": told}, indent=1
    )

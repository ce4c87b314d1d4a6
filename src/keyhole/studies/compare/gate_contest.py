"""Every gate's rule on every scenario, at several shares of audited answers; and a log replayed."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from keyhole.learners import bounds, make
from keyhole.scenarios.gate_cases import GateCases
from keyhole.simulation.gate_runs import GateRun, best_fixed, simulate_gate
from keyhole.studies.compare.contest import Cell, Contest, Terms, estimate
from keyhole.studies.compare.listing import Listed
from keyhole.studies.figure_files import open_figure, save_figure

AUDITS = (1.0, 0.3, 0.1)
_FEW = 0.01  # a best threshold that accepts less than this is none to be compared with
_COLOURS = {
    "gate-tracker": "#0b6e4f",
    "exaul": "#c44900",
    "gate-split": "#3a6ea5",
    "gate-fixed": "#8a8a8a",
}
_OTHER = "#7b2d8b"
_WIDEST = 6.0  # times alpha: what is wrong more often stands at the edge


def run_gate_contest(
    rules: Sequence[str],
    scenarios: Mapping[str, Callable[..., GateCases]],
    terms: Terms,
    *,
    audits: Sequence[float] = AUDITS,
) -> Contest:
    """Play every rule on every scenario at every share of audits; the seed is that of the first run.

    Of each cell, ``accepted`` and ``wrong`` are shares; ``best`` is what the best fixed threshold
    accepts, known in hindsight only, and ``relative`` the share accepted over it, NaN where it is
    hardly any; ``beyond`` is by how much the share of wrong answers is beyond alpha in the run where it
    is farthest from it.
    """
    cells = []
    for name, draw in scenarios.items():
        drawn = [draw(terms.rounds, seed=terms.seed + run) for run in range(1, terms.runs + 1)]
        best = estimate([best_fixed(*cases, alpha=terms.alpha)[1] for cases in drawn])
        for rule in rules:
            learner = make(rule, alpha=terms.alpha)
            for audit in audits:
                played = [
                    simulate_gate(learner, *cases, seed=own, audit=audit)
                    for own, cases in enumerate(drawn, start=terms.seed)
                ]
                accepted = estimate([run.accepted_share for run in played])
                beyond = max((run.wrong_share - terms.alpha for run in played), key=abs)
                relative = accepted.mean / best.mean if best.mean >= _FEW else math.nan
                figures = {
                    "accepted": accepted,
                    "wrong": estimate([run.wrong_share for run in played]),
                    "best": best,
                    "relative": estimate([relative]),
                    "beyond": estimate([beyond]),
                }
                cells.append(Cell(rule, name, figures, audit=audit))
    return Contest(terms, tuple(list_gate_scenarios(scenarios)), tuple(cells), promised="wrong")


def list_gate_scenarios(scenarios: Mapping[str, Callable[..., GateCases]]) -> Iterator[Listed]:
    """Yield the scenarios, each with what the function that draws it says of itself."""
    for name, draw in scenarios.items():
        first = (draw.__doc__ or "").splitlines()[0]
        yield Listed(name, first.removeprefix("Return ").rstrip("."), "share accepted")


def draw_gate_contest(contest: Contest, path: Path) -> None:
    """Write the picture of share accepted against share wrong, a dot a scenario, the target a line."""
    figure, alpha = open_figure(8.0, 5.2), contest.terms.alpha
    axes = figure.subplots()
    axes.axvspan(0.0, alpha, color="#0b6e4f", alpha=0.06, lw=0)
    axes.axvline(alpha, color="#222222", lw=1.2, ls="--")
    most = _WIDEST * alpha
    for rule in reversed(dict.fromkeys(cell.learner for cell in contest.cells)):  # the first on top
        own = [cell for cell in contest.cells if cell.learner == rule]
        axes.scatter(
            [min(cell.figures["wrong"].mean, most) for cell in own],
            [cell.figures["accepted"].mean for cell in own],
            s=[30.0 + 50.0 * (cell.audit or 0.0) for cell in own],
            color=_COLOURS.get(rule, _OTHER),
            alpha=0.75,
            linewidths=0,
            label=rule,
        )
    axes.set(xlim=(0.0, 1.02 * most), ylim=(-0.02, 1.02))
    axes.set_xlabel(f"wrong among the accepted (dots at the right edge: {most:g} or more)")
    axes.set_ylabel("accepted without asking")
    axes.annotate(f"target {alpha:g}", (alpha, 1.02), (4, -12), textcoords="offset points", fontsize=9)
    figure.legend(
        frameon=False, loc="outside upper left", ncols=4, reverse=True,
        title="A dot is a scenario; the smaller, the fewer of its accepted answers were audited.",
    )  # fmt: skip
    save_figure(figure, path)


def replay_log(cases: GateCases, *, alpha: float) -> GateRun:
    """Return what the gate would have done with a log."""
    return simulate_gate(make("gate-tracker", alpha=alpha), *cases)


def describe_replay(run: GateRun) -> str:
    alpha, rounds = run.learner.alpha, run.scores.size
    threshold, best = best_fixed(run.scores, run.wrong, alpha=alpha)
    hindsight = "no threshold would have kept that"
    if best > 0.0:
        hindsight = f"from score {threshold:.4f} on, {best:.1%} of the cases"
    bound = bounds.excess(run.learner, rounds=rounds).most
    return (
        f"{rounds:,} cases, {run.wrong.mean():.1%} of them wrong.\n"
        f"The target is {alpha:.1%} wrong among answers used without review.\n"
        f"In hindsight: {hindsight}.\n"
        "The gate, which knew nothing beforehand, would have accepted\n"
        f"{run.accepted_share:.1%}, {run.wrong_share:.2%} of them wrong.\n"
        f"It promises at most {bound:.0f} wrong answers beyond {alpha:.1%} of the accepted\n"
        f"on any log of this length; here it was {run.excess[-1]:z.1f}."
    )


def draw_replay(run: GateRun, path: Path) -> None:
    """Write the picture of a log: what the gate accepts and gets wrong over time, and its threshold."""
    figure = open_figure(8.0, 6.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    alpha, rounds = run.learner.alpha, np.arange(1, run.scores.size + 1)
    threshold, best = best_fixed(run.scores, run.wrong, alpha=alpha)
    accepted = np.cumsum(run.accepted)
    wrong = np.cumsum(run.accepted * run.wrong) / np.maximum(accepted, 1)
    above.plot(rounds, accepted / rounds, color=_COLOURS["gate-tracker"], label="accepted")
    above.plot(rounds, wrong, color=_COLOURS["exaul"], label="wrong among the accepted")
    above.axhline(alpha, color="#222222", lw=1.0, ls="--", label=f"target {alpha:g}")
    above.axhline(
        best, color=_COLOURS["gate-fixed"], lw=1.0, ls=":",
        label=f"best fixed threshold, {best:.3f} accepted",
    )  # fmt: skip
    above.set(xlim=(0, rounds.size), ylim=(0.0, 1.0), ylabel="share so far")
    above.legend(frameon=False, fontsize=9, loc="upper right")
    open_only = np.where(run.thresholds > 1.0, np.nan, run.thresholds)  # gaps where it was shut
    below.plot(rounds, open_only, color=_COLOURS["gate-split"], lw=1.0)
    if threshold <= 1.0:
        below.axhline(threshold, color=_COLOURS["gate-fixed"], lw=1.0, ls=":")
    below.set(ylim=(0.0, 1.0), ylabel="threshold", xlabel="cases, in the order of the log")
    save_figure(figure, path)

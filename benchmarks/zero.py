"""Where the paper's learners end: the miss rate against the horizon, on airfoil rows drawn i.i.d.

Prints a table and draws docs/zero.png. ``python benchmarks/zero.py``.
"""

from pathlib import Path

from matplotlib.figure import Figure

from keyhole import make, simulate
from keyhole.scenarios.airfoil import airfoil

ALPHA = 0.1
HORIZONS = (20_000, 63_000, 200_000, 630_000, 2_000_000)
LEARNERS = ("ocp-bandit", "ocp-unlock", "ocp-unlock+", "logit-tracker")
PICTURE = Path(__file__).parents[1] / "docs" / "zero.png"


def measure(name: str, horizon: int) -> tuple[float, float]:
    """Return the miss rate and the mean length in dB of one run."""
    scenario = airfoil(horizon, seed=0)
    known, arms = (horizon, 20) if name.startswith("ocp") else (None, None)
    learner = make(name, alpha=ALPHA, horizon=known, arms=arms)
    run = simulate(learner, scenario.scores, seed=0)
    return float(run.misses.mean()), float(scenario.sizes(run.thresholds).mean())


def draw(table: dict[str, list[tuple[float, float]]]) -> None:
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    colours = ("#ea580c", "#7c3aed", "#dc2626", "#1d4ed8")
    titles = ("miss rate", "mean interval length, dB")
    for axis, column, title in zip(figure.subplots(1, 2), (0, 1), titles, strict=True):
        for (name, values), colour in zip(table.items(), colours, strict=True):
            axis.plot(HORIZONS, [v[column] for v in values], color=colour, marker="o", label=name)
        axis.set(xscale="log", xlabel="horizon, T (rounds)", ylim=(0, None))
        axis.set_xticks((20_000, 200_000, 2_000_000), ("20,000", "200,000", "2,000,000"))
        axis.minorticks_off()
        axis.set_title(title, loc="left", fontsize=11)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    misses = figure.axes[0]
    misses.axhline(ALPHA, color="black", linewidth=0.8, linestyle="--")
    misses.annotate(
        "alpha", (HORIZONS[0], ALPHA), xytext=(-4, 4), textcoords="offset points", fontsize=9
    )
    figure.axes[1].legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(PICTURE, dpi=130, metadata={"Software": None})


def main() -> None:
    table = {name: [measure(name, horizon) for horizon in HORIZONS] for name in LEARNERS}
    print(f"miss rate and mean length in dB after T rounds, airfoil i.i.d., alpha {ALPHA}, one run")
    print(f"{'':<15}" + "".join(f"{f'T = {horizon:,}':>16}" for horizon in HORIZONS))
    for name, values in table.items():
        print(f"{name:<15}" + "".join(f"{rate:>10.3f}{size:>6.1f}" for rate, size in values))
    draw(table)
    print(f"picture: {PICTURE.relative_to(PICTURE.parents[1])}")


if __name__ == "__main__":
    main()

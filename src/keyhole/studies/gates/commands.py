"""The commands about gates: ``keyhole gate``, and ``keyhole compare --gates``."""

import argparse
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keyhole.errors import MissingExtraError
from keyhole.learners import GATES
from keyhole.studies.gates import contest, pictures
from keyhole.studies.gates.log import LogReplay, read_log, replay_log
from keyhole.studies.gates.scenarios import SCENARIOS, pick_scenarios
from keyhole.studies.pictures import check_picture


def add(commands: Any) -> None:
    """Add ``keyhole gate``."""
    parser = commands.add_parser(
        "gate",
        help="find the confidence threshold that a log needed, and what a gate would do",
        description="Read a log of scores and outcomes, and print from which score on answers could "
        "have been used without review, and what a gate that knew nothing would have done.",
        epilog="example: keyhole gate --scores log.csv --alpha 0.05",
    )
    parser.add_argument(
        "--scores", type=Path, required=True, help="a .csv or .parquet with score, and right or wrong"
    )
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.05,
        help="share of wrong answers among the accepted; default: %(default)s",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/gate.png"), help="the picture; default: %(default)s"
    )
    parser.set_defaults(run=_gate)


def _gate(options: argparse.Namespace) -> None:
    check_picture(options.out)
    replay = replay_log(read_log(options.scores), alpha=options.alpha)
    print(describe(replay, alpha=options.alpha))
    try:
        pictures.draw_replay(replay, options.out, alpha=options.alpha)
        print(f"picture: {options.out}")
    except MissingExtraError as error:
        print(f"no picture: {error}")


def describe(replay: LogReplay, *, alpha: float) -> str:
    """Return what a log shows, in plain words."""
    cases, run = replay.cases, replay.run
    lines = [
        f"{cases.scores.size:,} cases, {cases.wrong.mean():.1%} of them wrong.",
        f"The target is {alpha:.1%} wrong among answers used without review.",
    ]
    if replay.best > 0.0:
        lines.append(
            f"In hindsight: from score {replay.threshold:.4f} on, {replay.best:.1%} of the cases."
        )
    else:
        lines.append("In hindsight: no threshold would have kept that.")
    lines += [
        "The gate, which knew nothing beforehand, would have accepted",
        f"{run.accepted_share:.1%}, {run.wrong_share:.2%} of them wrong.",
        f"It promises at most {_bound(replay):.0f} wrong answers beyond {alpha:.1%} of the accepted",
        f"on any log of this length; here it was {run.excess[-1]:z.1f}.",
    ]
    return "\n".join(lines)


def _bound(replay: LogReplay) -> float:
    from keyhole.learners import bounds

    return bounds.excess(replay.run.learner, rounds=replay.cases.scores.size).most


def show_scenarios(*, file: Path | None = None) -> None:
    """Print the scenarios of gates, and what each is; a file of classifier outputs adds one."""
    for name, draw in SCENARIOS.items():
        about = (inspect.getdoc(draw) or "").splitlines()[0].removeprefix("Return ").rstrip(".")
        print(f"{name:<17}{about}")
    if file is not None:
        print(f"{'imagenet':<17}classifier outputs in {file.name}")


def compare(
    rules: Sequence[str] | None,
    scenarios: Sequence[str] | None,
    *,
    file: Path | None,
    alpha: float,
    rounds: int,
    runs: int,
    seed: int = 0,
    out: Path,
) -> None:
    """Run ``keyhole compare --gates``: a table, and beside it JSON and a picture."""
    drawn = pick_scenarios(scenarios, file=file)
    rows = contest.hold(rules or list(GATES), drawn, alpha=alpha, rounds=rounds, runs=runs, seed=seed)
    print(contest.write_table(rows, alpha=alpha))
    out.mkdir(parents=True, exist_ok=True)
    numbers = contest.write_json(rows, alpha=alpha, rounds=rounds, runs=runs, seed=seed)
    (out / "gates.json").write_text(numbers, encoding="utf-8")
    print(f"\n{out / 'gates.json'}")
    try:
        pictures.draw_field(rows, out / "gates.png", alpha=alpha)
        print(out / "gates.png")
    except MissingExtraError as error:
        print(f"no picture: {error}")

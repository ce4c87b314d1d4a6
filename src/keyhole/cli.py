"""The command line: one function per command."""

import argparse
import os
import sys
import textwrap
import time
import warnings
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import keyhole
from keyhole import bounds, demo, imagenet_file, serving
from keyhole.channel import Channel
from keyhole.compare import listing, table
from keyhole.compare.contest import Terms, hold
from keyhole.compare.publish import publish
from keyhole.engine import ENGINES, Engine
from keyhole.errors import KeyholeError, KeyholeWarning, MissingExtraError
from keyhole.feedback import checked_regime
from keyhole.learners import LEARNERS, Learner, Rule, find, make, strategy
from keyhole.paper import reproduce
from keyhole.progress import Bar

_WIDTH = 80


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, 2 after saying what was wrong, or 130 if interrupted."""
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", KeyholeWarning)
            warnings.showwarning = _say  # type: ignore[assignment]
            options.run(options)
    except KeyholeError as error:
        print(f"keyhole: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nkeyhole: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # Whoever read our output, such as head, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _say(message: Warning | str, *_where: object) -> None:
    print(f"keyhole: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keyhole",
        description="Online conformal prediction when you only see part of the truth.",
        epilog="'keyhole COMMAND --help' tells more of each command.",
    )
    parser.add_argument("--version", action="version", version=f"keyhole {keyhole.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_learners(commands)
    _add_bounds(commands)
    _add_compare(commands)
    _add_paper(commands)
    _add_imagenet_file(commands)
    serving.add(commands)
    return parser


def _add_demo(commands: Any) -> None:
    parser = commands.add_parser("demo", help="run a learner on real streams, draw the result")
    parser.add_argument("--learner", default="ocp-unlock+", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=demo.ROUNDS, help="default: %(default)s")
    parser.add_argument(
        "--out", type=Path, default=Path("out/demo.png"), help="the picture; default: %(default)s"
    )
    parser.set_defaults(run=_demo)


def _demo(options: argparse.Namespace) -> None:
    find(options.learner)
    demo.check(options.rounds, options.out)
    print(
        f"{options.learner} on real streams, {options.rounds:,} rounds each.\n"
        "The true label is seen only if it was in the set. Compiling takes a while."
    )
    lived = list(demo.diaries(options.learner, options.rounds))
    print(f"\n{'stream':<20}{'target':>8}{'miss rate':>11}{'mean size':>15}{'truth seen*':>13}")
    for diary in lived:
        size = f"{diary.mean_sizes[-1]:.2f} {diary.unit}"
        print(
            f"{diary.name:<20}{demo.ALPHA:>8.3f}{diary.miss_rates[-1]:>11.3f}{size:>15}"
            f"{sum(diary.seen) / len(diary.seen):>13.1%}"
        )
    print("* the share of thresholds whose outcome the answer told, over all rounds\n")
    try:
        demo.draw(lived, options.out, learner=options.learner)
        print(f"picture: {options.out}")
    except MissingExtraError as error:
        print(f"no picture: {error}")


def _add_learners(commands: Any) -> None:
    parser = commands.add_parser("learners", help="list the rules and the feedback each needs")
    parser.set_defaults(run=_learners)


def _learners(_options: argparse.Namespace) -> None:
    for rule in LEARNERS.values():
        print(f"{rule.name:<17}needs {rule.needs.value}")
        for line in (rule.summary, _takes(rule), rule.guarantee, rule.source):
            print(textwrap.indent(textwrap.fill(line, _WIDTH - 4), " " * 4))
        print()


def _takes(rule: Rule[...]) -> str:
    """Return the rule's parameters beside alpha, with their defaults."""
    known = [field for field in fields(rule.parameters) if field.name != "alpha"]  # type: ignore[arg-type]
    shown = [f"{field.name}={field.default}" for field in known if field.default is not MISSING]
    return "takes " + ", ".join(["alpha", *shown])


def _add_compare(commands: Any) -> None:
    parser = commands.add_parser("compare", help="every learner on every stream, side by side")
    parser.add_argument("--learners", nargs="+", metavar="NAME", help="default: all")
    parser.add_argument(
        "--streams", nargs="+", metavar="NAME", help="default: all; an unknown name lists them"
    )
    parser.add_argument("--scores", type=Path, help="a log of your own instead: .csv, .npz, .parquet")
    parser.add_argument("--imagenet", type=Path, help="a file of classifier outputs: two streams more")
    parser.add_argument("--alpha", type=float, default=0.1, help="target miss rate; %(default)s")
    parser.add_argument(
        "--regime", default="semi-bandit", help="full, semi-bandit or bandit; %(default)s"
    )
    parser.add_argument("--rounds", type=int, default=10_000, help="of each run; %(default)s")
    parser.add_argument("--runs", type=int, default=5, help="of each learner; %(default)s")
    parser.add_argument("--arms", type=int, help="thresholds of the learners that have a grid")
    parser.add_argument("--delay", type=float, default=0.0, help="rounds that answers come late")
    parser.add_argument("--geometric", action="store_true", help="let delays vary around --delay")
    parser.add_argument("--lost", type=float, default=0.0, help="share of answers that never come")
    parser.add_argument("--wrong", type=float, default=0.0, help="share of answers that are wrong")
    parser.add_argument("--seed", type=int, default=0, help="of the first run; %(default)s")
    parser.add_argument("--out", type=Path, default=Path("out/compare"), help="%(default)s")
    parser.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> None:
    terms = Terms(
        alpha=options.alpha,
        regime=checked_regime(options.regime),
        rounds=options.rounds,
        runs=options.runs,
        seed=options.seed,
        arms=options.arms,
        channel=Channel(
            delay=options.delay, geometric=options.geometric, lost=options.lost, wrong=options.wrong
        ),
    )
    names = options.learners or list(LEARNERS)
    streams = listing.listing(imagenet_file=options.imagenet)
    asked = options.streams or list(streams)
    entered = [listing.logged(options.scores)] if options.scores else listing.chosen(asked, streams)
    print(f"{len(names)} learners on {len(entered)} streams; each is compiled first, a second or two.")
    bar = Bar("comparing", len(names) * len(entered))
    contest = hold(names, entered, terms, told=lambda _cell: bar.advance())
    print(f"\n{table.text(contest)}\n\n{textwrap.fill(table.KEY, _WIDTH)}\n")
    for path in publish(contest, options.out):
        print(path)


def _add_bounds(commands: Any) -> None:
    parser = commands.add_parser("bounds", help="what the theorems promise, in numbers")
    parser.add_argument("--learner", default="ocp-unlock+", help="default: %(default)s")
    parser.add_argument("--alpha", type=float, required=True, help="target miss rate")
    parser.add_argument("--horizon", type=int, required=True, help="number of rounds (T)")
    parser.add_argument("--arms", type=int, help="number of thresholds (K)")
    parser.add_argument("--delta", type=float, default=0.05, help="default: %(default)s")
    parser.set_defaults(run=_bounds)


def _bounds(options: argparse.Namespace) -> None:
    learner = make(
        options.learner,
        alpha=options.alpha,
        horizon=options.horizon,
        arms=options.arms,
        options={"delta": options.delta},
    )
    print(_bounds_text(learner, options.horizon, options.delta))


def _bounds_text(learner: Learner, horizon: int, delta: float) -> str:
    rates = strategy.Rates(*learner.settings.rates[0].tolist())
    arms = len(learner.settings.thresholds)
    asked = bounds.conditions_of(learner)
    lines = [
        f"{learner.name}: alpha {learner.alpha:g}, {horizon:,} rounds, {arms} arms, "
        f"probability {1 - delta:g}",
        "",
        f"rates      bonus (beta) {rates.bonus:.3g}, exploration (gamma) {rates.exploration:.3g}, "
        f"rate (eta) {rates.rate:.3g}",
        f"conditions at least 5 arms: {_yes(asked.enough_arms)}; "
        f"gamma <= 1/2: {_yes(asked.moderate_exploration)}; "
        f"(1 + 2 beta) K eta <= gamma: {_yes(asked.slow_enough)}",
        *(_promises(learner, horizon) if asked.hold else _no_promise(arms)),
    ]
    return "\n".join(
        textwrap.fill(line, _WIDTH, subsequent_indent=" " * 11) if line else "" for line in lines
    )


def _no_promise(arms: int) -> list[str]:
    enough = strategy.theorem_horizon(max(arms, 5))
    return [
        "           THE THEOREM DOES NOT APPLY, so that nothing is promised. "
        f"With {max(arms, 5)} arms it does from {enough:,} rounds on."
    ]


def _promises(learner: Learner, horizon: int) -> list[str]:
    loss = bounds.loss_of(learner)
    regret, misses = bounds.regret(learner), bounds.miss_rate(learner)
    on_target = bounds.miss_rate_speaks_from(learner, below=learner.alpha)
    return [
        "           The theorem applies, if every answer comes before the next prediction.",
        f"regret     <= {regret:,.0f}, that is {regret / horizon:.3f} a round; "
        f"a round can cost {loss.span:.3f}",
        f"           {_verdict(regret / horizon, loss.span, bounds.regret_speaks_from(learner))}",
        f"miss rate  <= {misses:.3f}, known before the first round (target {learner.alpha:g})",
        f"           {_verdict(misses, 1.0, bounds.miss_rate_speaks_from(learner))}",
        f"           It falls below the target from {on_target:,} rounds on. It needs that "
        "threshold 0 cannot miss: the true label is always among the candidates.",
        "afterwards miss rate - alpha <= regret / T + C_mc, where C_mc comes from the run itself "
        "(keyhole.metrics.coverage_slack): a check, not a forecast.",
    ]


def _verdict(bound: float, trivial: float, speaks_from: float) -> str:
    if bound < trivial:
        return f"Such a bound says something from {speaks_from:,} rounds on."
    return f"VACUOUS: it says nothing below {speaks_from:,} rounds."


def _yes(holds: bool) -> str:  # noqa: FBT001
    return "yes" if holds else "NO"


def _add_paper(commands: Any) -> None:
    parser = commands.add_parser(
        "paper",
        help="rerun the paper's experiments and set each number beside the published one",
        description="Finished runs are kept: after Ctrl-C the same command goes on from there.",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help="experiments or tables, by the beginning of their name: exp3, exp1/imagenet/iid, table2",
    )
    parser.add_argument("--runs", type=int, default=50, help="of every setting; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the first run; default: %(default)s")
    parser.add_argument(
        "--imagenet",
        type=Path,
        metavar="FILE",
        help="run ImageNet on these outputs as well (.npz, .npy)",
    )
    parser.add_argument("--model", help="what to call the classifier of that file")
    parser.add_argument("--out", type=Path, default=Path("out/paper"), help="default: %(default)s")
    parser.add_argument("--workers", type=int, help="how many runs at once; default: one a core")
    parser.add_argument("--engine", default="threads", choices=ENGINES, help="default: %(default)s")
    parser.add_argument("--address", help="of a Dask or Ray cluster that is there already")
    parser.set_defaults(run=_paper)


def _paper(options: argparse.Namespace) -> None:
    engine = Engine(options.engine, workers=options.workers, address=options.address)
    request = reproduce.Request(
        only=tuple(options.only),
        runs=options.runs,
        seed=options.seed,
        imagenet=options.imagenet,
        model=options.model,
    )
    began = time.monotonic()
    print("Compiling the learners takes some seconds; finished runs are kept.", file=sys.stderr)
    try:
        report = reproduce.reproduce(request, options.out, engine=engine)
    except KeyboardInterrupt:
        print(f"\nFinished runs are kept in {options.out}; the same command goes on.", file=sys.stderr)
        raise
    print(f"report: {report}  ({time.monotonic() - began:.0f} s)")


def _add_imagenet_file(commands: Any) -> None:
    parser = commands.add_parser(
        "imagenet-file",
        help="write a classifier's outputs on ImageNet to a file, for 'keyhole paper --imagenet'",
        description="Needs torch and torchvision, and the 50,000 validation images in one folder a "
        "class, named by WordNet id (n01440764, ...).",
    )
    parser.add_argument("images", type=Path, help="the folder that holds the 1,000 class folders")
    parser.add_argument("--model", default="resnet18", help="a torchvision model; default: %(default)s")
    parser.add_argument(
        "--out", type=Path, default=Path("imagenet_resnet18.npz"), help="default: %(default)s"
    )
    parser.set_defaults(run=_imagenet_file)


def _imagenet_file(options: argparse.Namespace) -> None:
    imagenet_file.write(options.images, options.out, model=options.model)
    print(f"outputs: {options.out}")

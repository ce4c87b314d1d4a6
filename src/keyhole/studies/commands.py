"""The commands that run many simulations: demo, compare, paper, imagenet-file."""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keyhole.errors import InvalidError, MissingExtraError, SpeedWarning
from keyhole.learners import GATES, LEARNERS, find, takes
from keyhole.live_line import live_line
from keyhole.numeric import can_compile
from keyhole.scenarios.gate_cases import pick_gate_scenarios, read_gate_log
from keyhole.simulation.channel import Channel
from keyhole.studies import demo, imagenet_file
from keyhole.studies.board import board as boards
from keyhole.studies.board import page as board_page
from keyhole.studies.compare import contest_page, gate_contest, listing, table
from keyhole.studies.compare.contest import (
    CHANNELS,
    Contest,
    Terms,
    check_entries,
    drop_adversaries,
    run_contest,
    run_late,
    write_record,
)
from keyhole.studies.engine import ENGINES, Engine
from keyhole.studies.figure_files import check_picture
from keyhole.studies.paper.reproduce import Request, reproduce

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    Commands = _SubParsersAction[argparse.ArgumentParser]

_CHANNEL = ("delay", "batch", "geometric", "lost", "wrong")
_TERMS = ("alpha", "feedback", "rounds", "runs", "seed", "arms")
_OF_SETS = ("feedback", "arms", "late", *_CHANNEL)
_OF_FILE = ("imagenet", "imagenet-shift")
_STYLES = {"head": "bold", "kept": "green", "broken": "red", "faint": "dim"}


def add(commands: "Commands") -> None:
    _add_compare(commands)
    _add_gate(commands)
    _add_bench(commands)
    _add_paper(commands)
    _add_imagenet_file(commands)


def add_demo(commands: "Commands") -> None:
    parser = commands.add_parser(
        "demo",
        help="compare with a fixed threshold on real data: a table and a picture",
        description="Play handwritten digits and airfoil noise with a fixed threshold, the paper's "
        "learner and the default; each sees the label only if it was in the set.",
        epilog="example: keyhole demo --rounds 20000 --out out/demo.svg",
    )
    add_option(parser, "--rounds", demo.ROUNDS)
    add_option(parser, "--out", Path("out/demo.png"), "the picture")
    parser.set_defaults(run=_demo)


def add_option(
    parser: argparse.ArgumentParser,
    flag: str,
    default: str | float | Path,
    about: str = "",
    *,
    metavar: str | None = None,
) -> None:
    """Add an option of the default's type; its help ends in the default."""
    shown = f"{about}; default: %(default)s".removeprefix("; ")
    parser.add_argument(flag, type=type(default), default=default, help=shown, metavar=metavar)


def _demo(options: argparse.Namespace) -> None:
    demo.check(options.rounds, options.out)
    print(
        f"Real data, {options.rounds:,} rounds each; asked for: {demo.ALPHA:.0%} misses. "
        "The true label\nis confirmed only if it was in the set."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpeedWarning)  # It is over in seconds, compiled or not.
        results = [
            demo.play(scenario, report=lambda name: print(f"  playing {name}", file=sys.stderr))
            for scenario in demo.scenarios(options.rounds)
        ]
    print(demo.tabulate(results))
    print()
    _print_file("picture", lambda: demo.draw(results, options.out), options.out)
    print(demo.NEXT)


def _add_gate(commands: "Commands") -> None:
    parser = commands.add_parser(
        "gate",
        help="find the confidence threshold that a log needed, and what a gate would do",
        description="Read a log of scores and outcomes, and print from which score on answers could "
        "have been used without review, and what a gate that knew nothing would have done.",
        epilog="example: keyhole gate --scores log.csv --alpha 0.05",
    )
    parser.add_argument(
        "--scores",
        type=Path,
        required=True,
        help="a .csv or .parquet with the columns score, and right or wrong",
    )
    add_option(parser, "--alpha", 0.05, "share of wrong answers among the accepted")
    add_option(parser, "--out", Path("out/gate.png"), "the picture")
    parser.set_defaults(run=_gate)


def _gate(options: argparse.Namespace) -> None:
    check_picture(options.out)
    run = gate_contest.replay_log(read_gate_log(options.scores), alpha=options.alpha)
    print(gate_contest.describe_replay(run))
    _print_file("picture", lambda: gate_contest.draw_replay(run, options.out), options.out)


def _print_file(kind: str, write: Callable[[], object], path: Path, *, plain: bool = False) -> None:
    """Write a file that needs an extra, and print where it is, or why there is none."""
    try:
        write()
        print(path if plain else f"{kind}: {path}")
    except MissingExtraError as error:
        print(f"no {kind}: {error}")


def _add_compare(commands: "Commands") -> None:
    parser = commands.add_parser(
        "compare",
        help="compare the learners on every scenario or on a log of your own",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # a line for each example
        description="Play every learner that the feedback allows on every scenario, or on a log of\n"
        "your own; print which keep the promise with the smallest sets, and write a page\nand JSON.",
        epilog="examples:\n"
        "  keyhole compare --learners logit-tracker tracker --scenarios fall digits\n"
        "  keyhole compare --scores log.csv\n"
        "  keyhole compare --late --scenarios airfoil",
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios and stop")
    parser.add_argument("--learners", nargs="+", metavar="NAME", help="default: all")
    parser.add_argument("--scenarios", nargs="+", metavar="NAME", help="see --list; default: all")
    parser.add_argument("--scores", type=Path, help="play this log instead: .csv, .npz, .parquet")
    parser.add_argument("--imagenet", type=Path, help="classifier outputs: adds two scenarios")
    add_option(parser, "--alpha", 0.1, "target miss rate")
    add_option(parser, "--feedback", "semi-bandit", "full, semi-bandit or bandit")
    add_option(parser, "--rounds", 10_000, "rounds of each run")
    add_option(parser, "--runs", 5, "runs of each learner")
    parser.add_argument("--arms", type=int, help="thresholds on a grid; default: the learner's")
    add_option(parser, "--batch", 1, "sets predicted at once", metavar="N")
    add_option(parser, "--delay", 0.0, "delay of answers in rounds")
    parser.add_argument("--geometric", action="store_true", help="let delays vary around --delay")
    add_option(parser, "--lost", 0.0, "share of rounds never answered")
    add_option(parser, "--wrong", 0.0, "share of answers that are wrong")
    parser.add_argument(
        "--late", action="store_true", help=f"play each of {len(CHANNELS)} kinds of lateness instead"
    )
    parser.add_argument("--gates", action="store_true", help="compare gates instead of sets")
    add_option(parser, "--seed", 0, "seed of the first run")
    add_option(parser, "--out", Path("out/compare"), "folder")
    parser.set_defaults(run=partial(_compare, parser))


def _compare(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.list:
        _list_scenarios(options)
        return
    given = [name for name, value in vars(options).items() if value != parser.get_default(name)]
    _refuse_unused(options, given)
    channel = Channel(**{name: getattr(options, name) for name in _CHANNEL})
    terms = Terms(channel=channel, **{name: getattr(options, name) for name in _TERMS})
    played = (_play_gates if options.gates else _play_sets)(options, terms)
    _show(table.write_lines(played))
    _publish(played, options.out)


def _play_sets(options: argparse.Namespace, terms: Terms) -> Contest:
    names = options.learners or list(LEARNERS)
    if options.scores:
        entered = listing.read_log(options.scores)
    else:
        scenarios = listing.list_scenarios(imagenet_file=options.imagenet)
        entered = listing.pick_scenarios(options.scenarios or scenarios, scenarios)
    check_entries(names, terms)
    gridless = _list_gridless(names) if options.arms is not None else []
    if gridless and options.learners:
        print(f"--arms does not apply to {', '.join(gridless)}: no grid to choose from.")
    if options.late:
        entered = _drop_adversaries(entered)
    learners = "1 learner" if len(names) == 1 else f"{len(names)} learners"
    places = "1 scenario" if len(entered) == 1 else f"{len(entered)} scenarios"
    compiling = "; each learner is compiled first, a second or two" if can_compile() else ""
    print(f"{learners}, {places}{compiling}.\n")
    cells = len(names) * len(entered) * (len(CHANNELS) if options.late else 1)
    with live_line("comparing", cells) as advance:
        play = run_late if options.late else run_contest
        return play(names, entered, terms, report=lambda cell: advance(title=cell))


def _play_gates(options: argparse.Namespace, terms: Terms) -> Contest:
    scenarios = pick_gate_scenarios(options.scenarios, file=options.imagenet)
    return gate_contest.run_gate_contest(options.learners or list(GATES), scenarios, terms)


def _refuse_unused(options: argparse.Namespace, given: list[str]) -> None:
    """Raise if an option was given that would change nothing beside the others."""
    one_of_two = "a log of your own (--scores) is played instead; give one of the two"
    of_its_own = f"--late plays {len(CHANNELS)} kinds of its own; give one of the two"
    no_delay = "it lets delays vary around --delay, which is 0; give one"
    without_file = not set(options.scenarios or _OF_FILE) & set(_OF_FILE)
    for applies, names, reason in (
        (options.gates, ["scores"], "a log of a gate's is read by keyhole gate --scores FILE"),
        (options.gates, _OF_SETS, "it is for sets, and not for gates (--gates); leave it out"),
        (options.scores is not None, ["scenarios", "imagenet"], one_of_two),
        (options.late, _CHANNEL, of_its_own),
        (options.delay == 0.0, ["geometric"], no_delay),
        (without_file, ["imagenet"], "none of the scenarios is of that file; add imagenet to them"),
    ):
        for name in names:
            if applies and name in given:
                raise InvalidError(f"--{name} would change nothing: {reason}")


def _list_gridless(names: Iterable[str]) -> list[str]:
    """Return the learners that ``--arms`` tells nothing, or raise if that is all of them."""
    names = list(names)
    gridless = [name for name in names if "arms" not in takes(find(name))]
    if gridless == names:
        raise InvalidError(
            f"--arms would change nothing: {', '.join(names)} chooses from no grid; leave it out"
        )
    return gridless


def _list_scenarios(options: argparse.Namespace) -> None:
    listed: Iterable[listing.Listed] = listing.list_scenarios(imagenet_file=options.imagenet).values()
    if options.gates:
        listed = gate_contest.list_gate_scenarios(pick_gate_scenarios(None, file=options.imagenet))
    for one in listed:
        print(f"{one.name:<{17 if options.gates else 21}}{one.about}")


def _drop_adversaries(entered: list[listing.Listed]) -> list[listing.Listed]:
    """Return the scenarios that can be played late, and name the others."""
    played = drop_adversaries(entered)
    unplayed = [listed.name for listed in entered if listed not in played]
    if unplayed:
        print(f"Not played late, because nothing is best against an adversary: {', '.join(unplayed)}.")
    return played


def _publish(contest: Contest, folder: Path) -> None:
    """Write the record, and of sets a page, of gates a picture."""
    name, kind, suffix = (
        ("gates", "picture", "png") if contest.is_of_gates else ("compare", "page", "html")
    )
    path = folder / f"{name}.{suffix}"
    draw = gate_contest.draw_gate_contest if contest.is_of_gates else contest_page.write_page
    print(f"\n{write_record(contest, path.with_suffix('.json'))}")
    _print_file(kind, partial(draw, contest, path), path, plain=True)


def _show(lines: Iterable[table.Line]) -> None:
    """Print the lines, in colour where the terminal and rich allow."""
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        for line in lines:
            print(line.text)
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text(line.text, style=_STYLES.get(line.tone, "")))


def _add_bench(commands: "Commands") -> None:
    parser = commands.add_parser(
        "bench",
        help="play the board: every learner and other library on a fixed set of scenarios",
        description="Play every learner, those of installed packages included, and every other library "
        "that is installed on the board's scenarios; print who keeps the promise with the smallest "
        "sets, and write a page and JSON. Finished cells are kept: the same command continues, and in "
        "another environment adds what is installed there.",
        epilog="example: keyhole bench --quick --entrants my-learner informed-tracker peers",
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds and runs")
    parser.add_argument(
        "--entrants", nargs="+", metavar="NAME",
        help="who plays; learners and peers stand for all of a kind; default: all",
    )  # fmt: skip
    parser.add_argument(
        "--scenarios", nargs="+", metavar="NAME", help=f"of {', '.join(boards.SCENARIOS)}; default: all"
    )
    parser.add_argument("--show", type=Path, metavar="JSON", help="play nothing, show this record")
    parser.add_argument("--page", type=Path, help="a Markdown page to put the tables into as well")
    add_option(parser, "--out", Path("out/board"), "folder")
    parser.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> None:
    board = _play_board(options) if options.show is None else boards.read_record(options.show)
    for line in board_page.write_text(board):
        print(line)
    if options.show is None:
        record, page = options.out / "board.json", options.out / "board.html"
        boards.write_record(board, record)
        board_page.write_page(board, page)
        print(record, page, sep="\n")
    if options.page is not None:
        board_page.fill_page(board, options.page)
        print(options.page)


def _play_board(options: argparse.Namespace) -> boards.Board:
    entrants = boards.pick_entrants(options.entrants)
    scenarios = boards.pick_board_scenarios(options.scenarios)
    pairs = boards.list_pairs(entrants, scenarios)
    if not pairs:
        raise InvalidError(
            "none of these entrants plays any of these scenarios: gates' rules play those whose names "
            "begin with gate, all others the rest"
        )
    absent = ", ".join(boards.list_absent())
    if absent and options.entrants is None:
        print(f"Not installed here, and not played: {absent}.", file=sys.stderr)
    size = boards.QUICK if options.quick else boards.FULL
    with _describe_kept("cells", options.out), live_line("board", len(pairs)) as advance:
        return boards.play_board(
            entrants, scenarios, size, options.out, report=lambda cell: advance(title=cell)
        )


@contextmanager
def _describe_kept(noun: str, folder: Path) -> Iterator[None]:
    """Print after Ctrl-C that what is finished is not lost."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"\nFinished {noun} are kept in {folder}; the same command continues.", file=sys.stderr)
        raise


def _add_paper(commands: "Commands") -> None:
    parser = commands.add_parser(
        "paper",
        help="repeat the paper's experiments and compare each number with the published one",
        description="Repeat the paper's experiments and write a report. Finished runs are kept: "
        "after Ctrl-C the same command continues from there.",
        epilog="example: keyhole paper --only table2 exp5/airfoil --runs 10",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help="experiments or tables, by the beginning of their name: exp3, exp1/imagenet/iid, table2; "
        "default: all",
    )
    add_option(parser, "--runs", 50, "runs of every setting")
    add_option(parser, "--seed", 0, "seed of the first run")
    parser.add_argument(
        "--imagenet",
        type=Path,
        metavar="FILE",
        help="run ImageNet on these outputs as well (.npz, .npy)",
    )
    parser.add_argument("--model", help="name of that classifier; default: the file's name")
    add_option(parser, "--out", Path("out/paper"))
    parser.add_argument("--workers", type=int, help="number of parallel runs; default: one per core")
    parser.add_argument("--engine", default="threads", choices=ENGINES, help="default: %(default)s")
    parser.add_argument("--address", help="address of a running Dask cluster")
    parser.set_defaults(run=_paper)


def _paper(options: argparse.Namespace) -> None:
    engine = Engine(options.engine, workers=options.workers, address=options.address)
    request = Request(
        only=tuple(options.only),
        runs=options.runs,
        seed=options.seed,
        imagenet=options.imagenet,
        model=options.model,
    )
    began = time.monotonic()
    compiling = "Compiling the learners takes some seconds; finished" if can_compile() else "Finished"
    print(f"{compiling} runs are kept.", file=sys.stderr)
    with _describe_kept("runs", options.out):
        verdict = reproduce(request, options.out, engine=engine)
    print(f"report: {options.out / 'report.html'}  ({time.monotonic() - began:.0f} s)")
    print(verdict)


def _add_imagenet_file(commands: "Commands") -> None:
    parser = commands.add_parser(
        "imagenet-file",
        help="write a classifier's outputs on ImageNet to a file, for 'keyhole paper --imagenet'",
        description="Write a classifier's outputs on the ImageNet validation images. Needs torch and "
        "torchvision, and the 50,000 images in one folder per class, named by WordNet id "
        "(n01440764, ...).",
        epilog="example: keyhole imagenet-file val/ --model resnet18 --out resnet18.npz",
    )
    parser.add_argument("images", type=Path, help="the folder that holds the 1,000 class folders")
    add_option(parser, "--model", "resnet18", "a torchvision model")
    parser.add_argument("--out", type=Path, help="default: imagenet_MODEL.npz")
    parser.set_defaults(run=_imagenet_file)


def _imagenet_file(options: argparse.Namespace) -> None:
    out = options.out or Path(f"imagenet_{options.model}.npz")
    imagenet_file.write(options.images, out, model=options.model)
    print(f"outputs: {out}")

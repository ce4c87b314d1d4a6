"""The command line: one function per command."""

import argparse
import os
import sys
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING

import keyhole
from keyhole.errors import KeyholeError, KeyholeWarning, LostDatabaseError
from keyhole.learners import DEFAULT, Rule, find, list_rules, make, takes
from keyhole.service import commands as serving
from keyhole.studies import commands as studying
from keyhole.studies.promises import check_horizon, describe_promises

if TYPE_CHECKING:
    from keyhole.studies.commands import Commands

_WIDTH = 80


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, 2 or 3 after an error message, 130 if interrupted."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not hasattr(options, "run"):
        parser.print_help()
        return 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", KeyholeWarning)
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            options.run(options)
    except KeyholeError as error:
        print(f"keyhole: {error}", file=sys.stderr)
        # Whoever starts the service again must not do so on a new, empty database.
        return 3 if isinstance(error, LostDatabaseError) else 2
    except KeyboardInterrupt:
        print("\nkeyhole: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # Whoever read our output, such as head, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # A file that was asked for cannot be read or written.
        if error.filename is None:
            raise
        print(f"keyhole: {error.strerror}: {error.filename}", file=sys.stderr)
        return 2
    return 0


def _show_warning(message: Warning | str, *_where: object) -> None:
    print(f"keyhole: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keyhole",
        description="Online conformal prediction when you only see part of the truth.",
        epilog="'keyhole COMMAND --help' describes a command, with an example.",
    )
    parser.add_argument("--version", action="version", version=f"keyhole {keyhole.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    studying.add_demo(commands)
    _add_learners(commands)
    _add_bounds(commands)
    studying.add(commands)
    serving.add(commands)
    return parser


def _add_learners(commands: "Commands") -> None:
    parser = commands.add_parser(
        "learners",
        help="list the rules and the feedback each needs",
        description="List every learner, or the named ones: the feedback that it needs, its "
        "parameters, and what is proven.",
        epilog="example: keyhole learners informed-tracker tracker",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.set_defaults(run=_learners)


def _learners(options: argparse.Namespace) -> None:
    rules = [find(name) for name in options.names] or list_rules()
    for rule in rules:
        about = rule.about
        late = f"late answers: {about.late or 'not measured'}"
        default = " (the default)" if rule.name == rule.kind.default else ""
        print(f"{rule.name:<18} {rule.use}{default}")
        for line in (about.summary, _takes(rule), about.guarantee, late, about.source):
            print(textwrap.indent(textwrap.fill(line, _WIDTH - 4), " " * 4))
        print()


def _takes(rule: Rule[...]) -> str:
    """Return the rule's parameters beside alpha, with their defaults."""
    shown = [f"{name}={default}" for name, default in takes(rule).items() if default is not MISSING]
    return "takes " + ", ".join(["alpha", *shown])


def _add_bounds(commands: "Commands") -> None:
    parser = commands.add_parser(
        "bounds",
        help="print what a learner guarantees, in numbers",
        description="Print the bound on a learner's misses on every sequence and what its theorem "
        "promises, or say that there is none.",
        epilog="example: keyhole bounds --alpha .1 --horizon 50000",
    )
    studying.add_option(parser, "--learner", DEFAULT)
    studying.add_option(parser, "--alpha", 0.1, "target miss rate")
    studying.add_option(parser, "--horizon", 50_000, "number of rounds (T)")
    parser.add_argument(
        "--open", type=int, default=1,
        help="largest number of open rounds; default: %(default)s, prompt answers",
    )  # fmt: skip
    parser.add_argument("--arms", type=int, help="number of thresholds (K); default: the learner's")
    parser.add_argument(
        "--delta", type=float, help="probability that the theorem fails; default: the learner's"
    )
    parser.set_defaults(run=_bounds)


def _bounds(options: argparse.Namespace) -> None:
    check_horizon(options.horizon)
    learner = make(
        options.learner,
        alpha=options.alpha,
        horizon=options.horizon if "horizon" in takes(find(options.learner)) else None,
        arms=options.arms,
        options=None if options.delta is None else {"delta": options.delta},
    )
    print(describe_promises(learner, rounds=options.horizon, waiting=options.open))

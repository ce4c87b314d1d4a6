"""The commands that need the service's extra: serve, token, verify, export."""

import argparse
import logging
import sys
import time
from pathlib import Path
from typing import Any

from keyhole.errors import KeyholeError, MissingExtraError

DATABASE = "sqlite:///keyhole.db"


class DifferenceError(KeyholeError):
    """A log and its replay are not the same."""


def add(commands: Any) -> None:
    """Add the commands to a parser's."""
    _add_serve(commands)
    _add_token(commands)
    _add_verify(commands)
    _add_export(commands)


def _command(commands: Any, name: str, help_: str, run: Any) -> Any:
    parser = commands.add_parser(name, help=help_)
    parser.add_argument(
        "--database", default=DATABASE, metavar="URL", help="SQLite or PostgreSQL; default: %(default)s"
    )
    parser.set_defaults(run=run)
    return parser


def _add_serve(commands: Any) -> None:
    parser = _command(commands, "serve", "run the service and its page", _serve)
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    parser.add_argument("--port", type=int, default=8000, help="0 takes any; default: %(default)s")
    parser.add_argument("--demo", action="store_true", help="with handwritten digits to label by hand")
    parser.add_argument(
        "--rate", type=float, default=2000.0, metavar="N", help="requests a second from one client"
    )
    parser.add_argument(
        "--log", default="info", choices=["debug", "info", "warning"], help="%(default)s"
    )


def _serve(options: argparse.Namespace) -> None:
    database = _database(options)
    from keyhole.service import access, app, demo
    from keyhole.service.gate import Limits

    access.check_binding(database, options.host)
    if options.demo:
        demo.create(database, now=time.time())
        demo.pictures()
    ways = app.Ways(limits=Limits(requests_per_second=options.rate), demo=options.demo)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("keyhole").setLevel(options.log.upper())
    app.run(app.create_app(database, ways), host=options.host, port=options.port)


def _add_token(commands: Any) -> None:
    parser = commands.add_parser("token", help="make, list and revoke bearer tokens")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    make = _command(actions, "create", "make a token and show it once", _token_create)
    make.add_argument("name", help="whose it is")
    make.add_argument(
        "--scopes", nargs="+", default=["read"], help="read, predict, feedback, admin; default: read"
    )
    _command(actions, "list", "list the tokens, not their secrets", _token_list)
    gone = _command(actions, "revoke", "make a token useless, within a second", _token_revoke)
    gone.add_argument("id", help="as keyhole token list shows it")


def _token_create(options: argparse.Namespace) -> None:
    database = _database(options)
    from keyhole.store import tokens

    print(tokens.create(database, options.name, scopes=options.scopes, now=time.time()))
    print("Keep it: it is not shown again.", file=sys.stderr)


def _token_list(options: argparse.Namespace) -> None:
    database = _database(options)
    from keyhole.store import tokens

    for token in tokens.every(database):
        state = "revoked" if token.revoked is not None else "in use"
        print(f"{token.id}  {state:<8} {','.join(sorted(token.scopes)):<28} {token.name}")


def _token_revoke(options: argparse.Namespace) -> None:
    database = _database(options)
    from keyhole.store import tokens

    tokens.revoke(database, options.id, now=time.time())
    print(f"token {options.id} is revoked")


def _add_verify(commands: Any) -> None:
    parser = _command(commands, "verify", "replay the log of streams, choice by choice", _verify)
    parser.add_argument("streams", nargs="*", metavar="STREAM", help="default: every stream")


def _verify(options: argparse.Namespace) -> None:
    database = _database(options)
    from keyhole.store import replay, streams

    names = options.streams or [here.name for here in streams.every(database)]
    differing = 0
    for name in names:
        found = replay.replay(database, name)
        verdict = "the replay is the same, bit for bit" if found.difference is None else "DIFFERENT"
        print(f"{name}: {found.rounds:,} rounds, {found.answers:,} answers: {verdict}")
        if found.difference is not None:
            differing += 1
            print(f"  first difference: {found.difference}")
    if differing:
        raise DifferenceError(f"{differing} of {len(names)} streams are not what their log says")


def _add_export(commands: Any) -> None:
    parser = _command(commands, "export", "write the log of a stream to a file", _export)
    parser.add_argument("stream", metavar="STREAM")
    parser.add_argument("out", type=Path, metavar="FILE", help="ends in .csv or .parquet")


def _export(options: argparse.Namespace) -> None:
    database = _database(options)
    from keyhole.store import export

    if options.out.suffix == ".parquet":
        options.out.write_bytes(export.parquet(database, options.stream))
    else:
        with options.out.open("w", newline="", encoding="utf-8") as file:
            file.writelines(export.csv_lines(database, options.stream))
    print(f"{options.out}: {export.told(database, options.stream)}")


def _database(options: argparse.Namespace) -> Any:
    try:
        import fastapi  # noqa: F401

        from keyhole.store.database import Database
    except ImportError as error:
        raise MissingExtraError(
            f"the service needs {error.name}; pip install 'keyhole[service]'"
        ) from None
    return Database(options.database)

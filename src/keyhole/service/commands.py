"""The commands that need the service's extra: serve, token, verify, calibrate, backup, export."""

import argparse
import json
import logging
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from keyhole.errors import DatabaseError, InvalidError, MissingExtraError, UnknownStreamError
from keyhole.studies.commands import add_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from keyhole.service.http.webhooks import Receiver
    from keyhole.service.store.sql.database import Database
    from keyhole.studies.commands import Commands

DATABASE = "sqlite:///keyhole.db"
WEBHOOK_SECRET = "KEYHOLE_WEBHOOK_SECRET"  # noqa: S105 - a variable of the environment
VARIABLE = "KEYHOLE_DATABASE"  # A password in it is seen by fewer than one on a command line.
BACKUPS = "KEYHOLE_BACKUPS"


def add(commands: "Commands") -> None:
    _add_serve(commands)
    _add_token(commands)
    verify = _command(
        commands, _verify, "verify", "replay the logs of streams and compare",
        "verify --database sqlite:///keyhole.db digits", read_only=True,
    )  # fmt: skip
    verify.add_argument("streams", nargs="*", metavar="STREAM", help="default: every stream")
    backup = _command(
        commands, _backup, "backup", "copy a SQLite database that is in use",
        "backup keyhole-monday.db", read_only=True,
    )  # fmt: skip
    backup.add_argument(
        "out", type=Path, metavar="PATH", help="a file for the copy, or a folder of copies"
    )
    backup.add_argument(
        "--keep",
        type=_read_count,
        metavar="N",
        help="PATH is a folder, made if need be, which keeps the newest N copies; default: 14",
    )
    export = _command(
        commands, _export, "export", "write the log of a stream to a file",
        "export digits digits.csv", read_only=True,
    )  # fmt: skip
    export.add_argument("stream", metavar="STREAM", help="name of the stream")
    export.add_argument("out", type=Path, metavar="FILE", help="a .csv, .jsonl or .parquet file")
    erase = _command(
        commands, _erase, "erase", "erase the content of rounds of a stream",
        """erase digits --metadata '{"user": "42"}'""",
    )  # fmt: skip
    erase.add_argument("stream", metavar="STREAM", help="name of the stream")
    which = erase.add_mutually_exclusive_group(required=True)
    which.add_argument("--id", help="of a prediction or a decision")
    which.add_argument("--metadata", metavar="JSON", help="of all rounds that were given this")
    which.add_argument("--older-than", type=float, metavar="DAYS", help="of all rounds made before")
    _command(commands, _vacuum, "vacuum", "rewrite a SQLite file without what was erased", "vacuum")
    calibrate = _command(
        commands, _calibrate, "calibrate", "teach a new stream labelled history",
        "calibrate digits history.csv",
    )  # fmt: skip
    calibrate.add_argument("stream", metavar="STREAM", help="name of the stream")
    calibrate.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help=".csv: a column 'label' and one of scores for each label, or 'centre', or 'lower' and "
        "'upper'; of a gate, 'score' and 'right'; "
        '.jsonl: a line like {"scores": {"cat": 0.7}, "label": "cat"}',
    )


def _command(
    commands: "Commands",
    run: "Callable[[Database, argparse.Namespace], None]",
    name: str,
    help_: str,
    example: str,
    *,
    read_only: bool = False,
    may_create: bool = False,
    is_patient: bool = True,
) -> argparse.ArgumentParser:
    """Add a command, described by the text of the function that runs it on an open database.

    Unless it may create one, a mistyped name makes no new database.
    """
    epilog = f"example: keyhole {example}"
    parser = commands.add_parser(name, help=help_, description=run.__doc__, epilog=epilog)
    parser.add_argument(
        "--database",
        default=os.environ.get(VARIABLE, DATABASE),
        metavar="URL",
        help=f"SQLite or PostgreSQL; default: {VARIABLE}, or {DATABASE}",
    )

    def open_and_run(options: argparse.Namespace) -> None:
        try:
            import fastapi  # noqa: F401

            from keyhole.service.store.sql.backend import Timeouts
            from keyhole.service.store.sql.database import Database
        except ImportError as error:
            raise MissingExtraError(
                f"the service needs {error.name}; pip install 'keyhole-conformal[service]'"
            ) from None
        # A command may take as long as it takes; a request may not.
        timeouts = Timeouts(statement=0.0) if is_patient else Timeouts()
        must_exist = not (read_only or may_create)
        database = Database(
            options.database, timeouts=timeouts, read_only=read_only, must_exist=must_exist
        )
        with closing(database):  # or the file would look like one that was not closed
            run(database, options)

    parser.set_defaults(run=open_and_run)
    return parser


def _add_serve(commands: "Commands") -> None:
    parser = _command(
        commands, _serve, "serve", "run the service and its page",
        "serve --database sqlite:///keyhole.db --port 8000", may_create=True, is_patient=False,
    )  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    parser.add_argument(
        "--port", type=_read_port, default=8000, help="0 for any free port; default: %(default)s"
    )
    parser.add_argument(
        "--open",
        action="store_true",
        help="make no token: until there is one, programs on this machine need none",
    )
    parser.add_argument("--demo", action="store_true", help="add handwritten digits to label by hand")
    parser.add_argument(
        "--backups",
        type=Path,
        metavar="FOLDER",
        default=os.environ.get(BACKUPS),
        help=f"where backups are, so that /metrics can say how old the newest is; default: {BACKUPS}",
    )
    rate = "largest number of requests per second from one client"
    add_option(parser, "--rate", 2000.0, rate, metavar="N")
    connections = "most open connections from one address, such as a proxy"
    add_option(parser, "--connections", 500, connections, metavar="N")
    parser.add_argument(
        "--log",
        default="info",
        choices=["debug", "info", "warning"],
        help="lowest level that is logged; default: %(default)s",
    )
    parser.add_argument(
        "--webhook",
        metavar="URL",
        help="notify this address of alarms, quarantine and refusals; default: none",
    )
    parser.add_argument(
        "--webhook-secret",
        type=Path,
        metavar="FILE",
        help=f"file with the secret that signs the messages; default: {WEBHOOK_SECRET}",
    )


def _read_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _read_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65_535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, a whole number from 0 to 65535")
    return int(text)


def _serve(database: "Database", options: argparse.Namespace) -> None:
    """Serve predictors as streams over HTTP, with a durable log of every round and a live page.

    Requests need a token: the first start makes one and prints it, keyhole token shows it again. With
    --open, and while there is no token, every program of this machine may do everything.
    """
    from keyhole.service.http import access, app, digits_demo, server
    from keyhole.service.http.limits import Limits
    from keyhole.service.store import tokens

    limits = Limits(requests_per_second=options.rate, address_connections=options.connections)
    if options.open:
        access.check_binding(database, options.host)
    elif (token := tokens.create_first(database, now=time.time())) is not None:
        print(f"A token was made, and is kept in {database.token_file}:\n  {token}", file=sys.stderr)
    if not tokens.in_use(database):
        print("Open: whatever runs on this machine may read, answer and delete.", file=sys.stderr)
    if options.demo:
        digits_demo.create(database, now=time.time())
        digits_demo.pictures()
    settings = app.Settings(
        limits=limits,
        demo=options.demo,
        backups=options.backups,
        webhook=_find_receiver(options),
    )
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("keyhole").setLevel(options.log.upper())
    server.run(app.create_app(database, settings), host=options.host, port=options.port)


def _find_receiver(options: argparse.Namespace) -> "Receiver | None":
    if options.webhook is None:
        return None
    from keyhole.service.http.webhooks import Receiver

    file = options.webhook_secret
    try:
        secret = os.environ.get(WEBHOOK_SECRET, "") if file is None else file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(f"the secret of the webhook cannot be read: {error}") from None
    if not secret:
        raise InvalidError(
            f"--webhook needs a secret to sign with; set {WEBHOOK_SECRET} or give --webhook-secret FILE"
        )
    return Receiver(options.webhook, secret)


def _add_token(commands: "Commands") -> None:
    parser = commands.add_parser(
        "token",
        help="show, create, list and revoke bearer tokens",
        description="Manage who may read, predict, give feedback or administer. Without an action it "
        "shows the token that the first start of the service made.",
        epilog="example: keyhole token create warehouse --scopes predict feedback",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    show = _command(actions, _token_show, "show", "show the token of the first start", "token show")
    parser.set_defaults(run=show.get_default("run"), database=show.get_default("database"))
    make = _command(
        actions, _token_create, "create", "create a token and show it once",
        "token create warehouse --scopes predict feedback", may_create=True,
    )  # fmt: skip
    make.add_argument("name", help="name of its owner")
    make.add_argument(
        "--scopes", nargs="+", default=["read"], help="read, predict, feedback, admin; default: read"
    )
    make.add_argument(
        "--days", type=float, metavar="N", help="after how many days it expires; default: never"
    )
    make.add_argument(
        "--streams",
        default="",
        metavar="PREFIX",
        help="only for streams whose names begin with this; default: for all",
    )
    _command(actions, _token_list, "list", "list the tokens, not their secrets", "token list")
    revoke = _command(actions, _token_revoke, "revoke", "revoke a token", "token revoke 3f2a")
    revoke.add_argument("id", help="as keyhole token list shows it")


def _token_show(database: "Database", _options: argparse.Namespace) -> None:
    """Print the token that the first start of the service made, and kept beside its database."""
    from keyhole.service.store import tokens

    print(tokens.find_first(database, now=time.time()))


def _token_create(database: "Database", options: argparse.Namespace) -> None:
    """Create a token and print it; only its hash is stored."""
    from keyhole.service.store import tokens

    now = time.time()
    expires = None if options.days is None else now + 86_400.0 * options.days
    made = tokens.create(
        database,
        options.name,
        scopes=options.scopes,
        now=now,
        expires=expires,
        streams=options.streams,
    )
    print(made)
    print("Keep it: it is not shown again.", file=sys.stderr)


def _token_list(database: "Database", _options: argparse.Namespace) -> None:
    """Print id, state, scopes, streams and name of every token."""
    from keyhole.service.store import tokens

    for token in tokens.every(database):
        state = "revoked" if token.revoked is not None else "in use"
        if token.expires is not None and token.revoked is None:
            day = time.strftime("%Y-%m-%d", time.gmtime(token.expires))
            state = f"{'until' if time.time() < token.expires else 'expired'} {day}"
        scopes = ",".join(sorted(token.scopes))
        print(f"{token.id}  {state:<18} {scopes:<22} {token.streams + '*':<12} {token.name}")


def _token_revoke(database: "Database", options: argparse.Namespace) -> None:
    """Revoke a token; a running service refuses it within a second."""
    from keyhole.service.store import tokens

    tokens.revoke(database, options.id, now=time.time())
    print(f"token {options.id} is revoked")


def _verify(database: "Database", options: argparse.Namespace) -> None:
    """Replay every logged round and compare.

    It fails if one choice differs, or if there is nothing to verify.
    """
    from keyhole.service.store.log import replay
    from keyhole.service.store.streams import registry

    names = options.streams or registry.list_names(database)
    strays = [] if options.streams else replay.find_strays(database)
    if not names and not strays:
        raise DatabaseError(f"there is nothing to verify: {options.database} holds no streams")
    differing = sum([not _verify_one(database, name) for name in names])
    for stray in strays:
        print(stray)
    if differing or strays:
        gone = f", and rows of {len(strays)} streams that are gone" if strays else ""
        raise DatabaseError(f"{differing} of {len(names)} streams are not what their log says{gone}")
    if database.backend.lacks_log:
        raise DatabaseError("what is there is sound, but it may not be all: its log is missing")


def _verify_one(database: "Database", name: str) -> bool:
    """Print what the replay of a stream says, and return whether it is the same."""
    from keyhole.service.store.log import replay

    try:
        found = replay.replay(database, name)
    except UnknownStreamError as error:
        print(f"{name}: {error}")
        return False
    verdict = "the replay is the same, bit for bit" if found.difference is None else "DIFFERENT"
    print(f"{name}: {found.rounds:,} rounds, {found.answers:,} answers: {verdict}")
    if found.erased:
        print(
            f"  {_count(found.erased, 'round')} erased: {found.unplayed:,} choices cannot be replayed; "
            "links and counts are right"
        )
    if found.difference is None:
        print(f"  last link {found.link.hex()}")
    else:
        print(f"  first difference: {found.difference}")
    return found.difference is None


def _backup(database: "Database", options: argparse.Namespace) -> None:
    """Make a complete, verified copy of a SQLite database while a service writes to it.

    A copy whose replay differs replaces no earlier one: it is kept as PATH.damaged. For PostgreSQL use
    pg_dump.
    """
    from keyhole.service.store.sql.database import Database

    if options.keep is not None:
        if options.out.is_file():
            raise DatabaseError(f"{options.out} is a file; --keep is for a folder of copies")
        options.out.mkdir(parents=True, exist_ok=True)
    is_folder = options.out.is_dir()
    name = f"keyhole-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.db" if is_folder else ""
    path = options.out / name
    if database.file is not None and path.exists() and path.samefile(database.file):
        raise DatabaseError(f"{path} is the database itself; give the copy a file of its own")
    damaged = Path(f"{options.out / 'keyhole.db' if is_folder else path}.damaged")
    streams, rounds = database.copy_to(damaged)
    with closing(Database(f"sqlite:///{damaged}", read_only=True)) as copy:
        _check_copy(copy, damaged)
    damaged.replace(path)
    print(f"{path}: {_count(streams, 'stream')}, {_count(rounds, 'round')}, verified")
    for old in sorted(options.out.glob("keyhole-*.db"))[: -(options.keep or 14)] if is_folder else []:
        old.unlink()


def _check_copy(copy: "Database", path: Path) -> None:
    """Raise unless every stream of a copy replays to the same."""
    from keyhole.service.store.log import replay
    from keyhole.service.store.streams import registry

    found = [replay.replay(copy, name) for name in registry.list_names(copy)]
    wrong = [f"{one.stream}: {one.difference}" for one in found if one.difference is not None]
    wrong += replay.find_strays(copy)
    if wrong:
        raise DatabaseError(
            f"the copy is not what its log says, so that no earlier one was touched; it is {path}, and "
            f"the first difference is: {wrong[0]}"
        )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _export(database: "Database", options: argparse.Namespace) -> None:
    """Write every round of a stream, with its answer, as a table for keyhole compare --scores."""
    from keyhole.service.store.log import export

    export.write(database, options.stream, options.out)
    print(f"{options.out}: {export.describe_scores(database, options.stream)}")


def _erase(database: "Database", options: argparse.Namespace) -> None:
    """Erase outputs, labels, answers, features, keys and metadata of rounds permanently.

    The statistics stay, and the log can be verified as before.
    """
    from keyhole.service.store.streams import erasures

    now = time.time()
    if options.id is not None:
        count = erasures.erase_round(database, options.stream, options.id, now=now)
    elif options.metadata is not None:
        wanted = _read_metadata(options.metadata)
        count = erasures.erase_matching(database, options.stream, metadata=wanted, now=now)
    else:
        before = now - 86_400.0 * options.older_than
        count = erasures.erase_matching(database, options.stream, before=before, now=now)
    print(f"{options.stream}: {_count(count, 'round')} erased")
    if options.database.startswith("sqlite"):
        print("copies may be left in unused parts of the file: keyhole vacuum", file=sys.stderr)


def _read_metadata(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidError(f'{text[:80]!r} is not a JSON object; give {{"user": "42"}}')
    return found


def _vacuum(database: "Database", _options: argparse.Namespace) -> None:
    """Rewrite a SQLite file without what was erased or deleted; it needs space for a second copy.

    A service that uses the file accepts no writes meanwhile.
    """
    database.backend.vacuum()
    print("nothing that was erased or deleted is left in the file")


def _calibrate(database: "Database", options: argparse.Namespace) -> None:
    """Teach a stream labelled history before its first round.

    Its first set then starts from what that history taught; its counts stay at zero.
    """
    from keyhole.live_line import live_line
    from keyhole.service.history_file import read_history
    from keyhole.service.store.streams import calibrations, registry

    stream = registry.get(database, options.stream)
    before = stream.tally.calibrated
    size = options.file.stat().st_size if options.file.is_file() else 1
    with live_line(f"calibrating {options.stream}", 2 * size) as advance:
        # First on a copy: a round that cannot be used is found before any is played for good.
        for batch in read_history(options.file, advance=advance):
            calibrations.learn(stream, batch, now=time.time())
        for batch in read_history(options.file, advance=advance):
            calibrations.calibrate(database, options.stream, batch, now=time.time())
    tally = registry.get(database, options.stream).tally
    print(f"{options.stream}: {tally.calibrated - before:,} rounds of history played")

"""The links of the log, by hand: those that are kept must be found again for ever."""

import struct
from hashlib import blake2b
from typing import Any

import pytest

from keyhole.service.store.log import replay
from keyhole.service.store.log.chain import FIRST, make_link
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.sql.schema import AnswerRow, ChangeRow
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from tests.service.scene import NOW, run_sql

SALT = b"salt of sixteen "
ANSWER = AnswerRow(
    3, 9, 1, 7, 1.5, "hit", '"hit"', 0.0, 1.0, None, 2.0, None, SALT, None, b"not part of it"
)
CHANGE = ChangeRow(1, 0, 1, 5.0, "changed", "{}", b"")


def text(content: bytes) -> bytes:
    return struct.pack("<cq", b"s", len(content)) + content


def test_a_link_is_a_hash_of_the_link_before_every_account_and_a_salted_digest_of_the_rest() -> None:
    content = text(b'"hit"') + b"-"
    digest = blake2b(content, digest_size=16, key=SALT, person=b"answers.1").digest()
    parts = [
        *(b"before", struct.pack("<cq", b"q", 3), struct.pack("<cq", b"q", 9)),
        *(struct.pack("<cq", b"q", 7), struct.pack("<cd", b"d", 1.5), text(b"hit")),
        *(struct.pack("<cd", b"d", 0.0), struct.pack("<cd", b"d", 1.0)),
        *(struct.pack("<cd", b"d", 2.0), b"-", digest),
    ]
    expected = blake2b(b"".join(parts), digest_size=16, person=b"answers.1").digest()
    assert make_link(b"before", ANSWER) == expected
    erased = ANSWER._replace(answer="", score=None, salt=b"", digest=digest)
    assert make_link(b"before", erased) == expected


def test_bytes_are_told_apart_by_their_length_and_missing_ones_from_empty_ones() -> None:
    contents = (b"", b"-", None, b"--")
    assert len({make_link(FIRST, CHANGE._replace(progress=one)) for one in contents}) == 4


def test_a_zero_has_no_sign_and_a_whole_number_in_a_column_of_floats_is_one() -> None:
    assert len({make_link(FIRST, CHANGE._replace(at=zero)) for zero in (0.0, -0.0, 0)}) == 1


def test_the_first_link_has_nothing_before_it() -> None:
    assert FIRST == b""


def test_a_format_that_nobody_named_is_not_guessed() -> None:
    with pytest.raises(LookupError):
        make_link(FIRST, CHANGE._replace(format=2))


@pytest.mark.parametrize("table", [schema.rounds, schema.answers, schema.amendments, schema.changes])
def test_every_column_that_is_written_now_is_hashed_but_the_format_and_the_link(table: Any) -> None:
    """Kills: a column that is new, and that anybody may change unnoticed."""
    columns = {column.name for column in table.columns} - {"format", "link", "salt", "digest"}
    named = table.name, schema.FORMAT[table.name]
    hashed = [*schema.HASHED[named].split(), *schema.ERASABLE.get(named, "").split()]
    assert sorted(hashed) == sorted(columns)


@pytest.mark.parametrize("table", ["rounds", "answers", "changes"])
def test_a_log_verifies_after_its_tables_got_another_column(light: Database, table: str) -> None:
    setup, _ = settings.make_setup("kt", alpha=0.1, seed=7)
    registry.create(light, "pets", setup=setup, now=NOW)
    opened = proposals.predict(light, "pets", asks=[Query([0.5])] * 3, now=NOW)
    answers.answer(light, [Reply(opened[0].id, "miss")], now=NOW)
    run_sql(light, f"ALTER TABLE {table} ADD COLUMN weather TEXT")
    assert replay.replay(light, "pets").difference is None
    proposals.predict(light, "pets", asks=[Query([0.5])], now=NOW)
    assert replay.replay(light, "pets").difference is None


def test_a_field_that_a_later_format_names_breaks_no_link_of_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row with one more field, as a later version would write it. Kills: a hash of every column."""
    from typing import NamedTuple

    from keyhole.service.store.log import chain

    class Later(NamedTuple):
        stream: int
        version: int
        format: int
        at: float
        kind: str
        content: str
        progress: bytes | None
        weather: str | None = None
        link: bytes = b""

    tables: dict[type, Any] = {**chain._TABLES, Later: schema.changes}
    monkeypatch.setattr(chain, "_TABLES", tables)
    later: Any = Later(*CHANGE[:-1])
    assert make_link(FIRST, later) == make_link(FIRST, CHANGE)

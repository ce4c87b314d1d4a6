"""The public ids of rounds."""

from pathlib import Path

from keyhole.errors import QuarantinedError, UnknownRoundError
from keyhole.service.store.log import replay
from keyhole.service.store.sql import schema
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query
from keyhole.service.wire.responses import Receipt
from tests.service.scene import NOW, read_table, run_sql


def ask(database: Database, count: int, *, now: float, name: str = "pets") -> list[str]:
    asks = [Query([0.9, 0.2])] * count
    return [opened.id for opened in proposals.predict(database, name, asks=asks, now=now)]


def create(database: Database, name: str, *, now: float = NOW) -> None:
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    registry.create(database, name, setup=setup, now=now)


def test_the_id_of_a_round_is_its_stream_its_number_and_the_begin_of_its_link(light: Database) -> None:
    create(light, "pets")
    ids = ask(light, 2, now=NOW) + ask(light, 1, now=NOW + 1)
    rows = read_table(light, schema.rounds, "ORDER BY number")
    assert ids == [f"1-{row.number}-{row.link.hex()[:16]}" for row in rows]


def test_ids_of_rounds_cannot_be_guessed_from_one_another(light: Database) -> None:
    """Kills: a tag that streams of one seed share."""
    create(light, "pets")
    create(light, "beasts")
    ids = ask(light, 100, now=NOW) + ask(light, 100, now=NOW, name="beasts")
    assert len({id_.split("-")[2] for id_ in ids}) == 200


def test_after_a_restore_no_answer_to_a_lost_round_is_taken_for_another(tmp_path: Path) -> None:
    """Kills: an id that is made of a seed and a number, which come again."""
    live = Database(f"sqlite:///{tmp_path / 'live.db'}")
    create(live, "pets")
    kept = ask(live, 20, now=NOW)
    live.copy_to(tmp_path / "copy.db")
    lost = ask(live, 5, now=NOW + 10)
    live.close()
    restored = Database(f"sqlite:///{tmp_path / 'copy.db'}")
    new = ask(restored, 5, now=NOW + 20)
    assert [id_.split("-")[1] for id_ in new] == [id_.split("-")[1] for id_ in lost]
    assert not {*new} & {*lost}
    stale = answers.answer(restored, [Reply(id_, "miss") for id_ in lost], now=NOW + 30)
    assert all(isinstance(one, UnknownRoundError) for one in stale)
    good = answers.answer(restored, [Reply(id_, "miss") for id_ in (*kept, *new)], now=NOW + 30)
    assert all(isinstance(one, Receipt) and not one.repeated for one in good)
    found = replay.replay(restored, "pets")
    assert (found.rounds, found.answers, found.difference) == (25, 25, None)
    restored.close()


def test_a_stream_made_after_a_restore_answers_to_no_id_of_a_lost_stream(tmp_path: Path) -> None:
    ids = []
    for k, name in enumerate(("live", "restored")):
        database = Database(f"sqlite:///{tmp_path / name}.db")
        create(database, "pets", now=NOW + k)
        ids += ask(database, 1, now=NOW + 10)
        database.close()
    assert [id_[:4] for id_ in ids] == ["1-0-"] * 2
    assert ids[0] != ids[1]


def test_a_stream_whose_link_is_none_is_quarantined_at_its_round(light: Database) -> None:
    create(light, "pets")
    (id_,) = ask(light, 1, now=NOW)
    run_sql(light, "UPDATE rounds SET link = 'no link'")
    (result,) = answers.answer(light, [Reply(id_, "miss")], now=NOW)
    assert isinstance(result, QuarantinedError)


def test_recent_rounds_are_a_bit_each_the_newest_last_and_the_oldest_leaves(light: Database) -> None:
    setup, _ = settings.make_setup("logit-tracker", alpha=0.1, seed=7)
    registry.create(light, "pets", setup=setup, now=NOW, window=20)

    def play(losses: list[float]) -> int:
        replies = [
            Reply(id_, {"loss": loss})
            for id_, loss in zip(ask(light, len(losses), now=NOW), losses, strict=True)
        ]
        answers.answer(light, replies, now=NOW)
        return registry.get(light, "pets").recent

    assert play([1.0, 0.0, 0.4, 0.5]) == 0b1001
    assert play([0.0] * 17) == 0b001 << 17
    assert play([0.0] * 3) == 0

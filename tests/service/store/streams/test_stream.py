"""The public ids of rounds."""

from hashlib import blake2b

from keyhole.service.store.streams.settings import make_setup
from keyhole.service.store.streams.stream import Stream, start_stream


def begin(seed: int) -> Stream:
    setup, _ = make_setup(alpha=0.1, seed=seed)
    return start_stream(setup, id=1, name="pets", lifetime=1.0, window=20, created=0.0)


def test_the_id_of_a_round_is_the_same_for_ever() -> None:
    """Kills: another tag for the same stream and round, which clients have noted."""
    for seed in (7, 2**64 - 1):
        tag = blake2b(b"12", key=seed.to_bytes(8, "big"), digest_size=5).hexdigest()
        assert begin(seed).prediction_id(12) == f"1-12-{tag}"


def test_ids_of_rounds_cannot_be_guessed_from_one_another() -> None:
    tags = {begin(seed).prediction_id(n).split("-")[2] for seed in (7, 8) for n in range(100)}
    assert len(tags) == 200
    assert {len(tag) for tag in tags} == {10}

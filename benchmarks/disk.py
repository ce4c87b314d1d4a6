"""What an answered round takes on disk, by the number of its labels: python benchmarks/disk.py."""

import tempfile
from pathlib import Path

import numpy as np

from keyhole.learners import DEFAULT
from keyhole.service.store.sql.database import Database
from keyhole.service.store.streams import answers, proposals, registry, settings
from keyhole.service.store.streams.answers import Reply
from keyhole.service.store.streams.proposals import Query

ROUNDS, BATCH = 2_000, 500


def fill(folder: Path, labels: int) -> None:
    """Play rounds of a stream with so many labels into a new database."""
    database = Database(f"sqlite:///{folder / 'keyhole.db'}")
    names = [f"label {index}" for index in range(labels)]
    setup, _ = settings.make_setup(DEFAULT, alpha=0.1, seed=1, labels=names)
    registry.create(database, "disk", setup=setup, now=0.0)
    rng = np.random.default_rng(1)
    for _ in range(ROUNDS // BATCH):
        asks = [Query(rng.dirichlet(np.ones(labels)).tolist()) for _ in range(BATCH)]
        made = proposals.predict(database, "disk", asks=asks, now=1.0)
        answers.answer(
            database, [Reply(one.id, "hit" if one.size else "miss") for one in made], now=2.0
        )
    database.close()


def main() -> None:
    """Print bytes a round."""
    for labels in (3, 10, 200, 1_000):
        with tempfile.TemporaryDirectory() as scratch:
            fill(Path(scratch), labels)
            size = sum(file.stat().st_size for file in Path(scratch).iterdir())
        print(f"{labels:>6,} labels: {size / ROUNDS:8,.0f} bytes a round on SQLite")


if __name__ == "__main__":
    main()

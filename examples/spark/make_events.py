"""Write asks and answers of a few shops as files, as if a queue had been read: the first command.

python examples/spark/make_events.py out/spark
"""

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

KEYS, FILES, ASKS_A_FILE = 20, 8, 40
START = datetime(2030, 1, 1, tzinfo=UTC)
LABELS = ("return", "exchange", "keep")


def main(folder: Path) -> None:
    """Write a file of asks and one of answers for every minute; one ask in ten stays unanswered."""
    rng = Random(7)
    for minute in range(FILES):
        asks, answers = [], []
        for number in range(ASKS_A_FILE):
            at = START + timedelta(minutes=minute, seconds=number)
            who = {"shop": f"shop {rng.randrange(KEYS)}", "id": f"{minute}-{number}"}
            scores = [rng.random() for _ in LABELS]
            output = {name: score / sum(scores) for name, score in zip(LABELS, scores, strict=True)}
            asks.append({**who, "at": at.isoformat(), "output": output})
            if number % 10:
                truth = rng.choices(LABELS, [output[name] for name in LABELS])[0]
                later = (at + timedelta(seconds=10)).isoformat()
                answers.append({**who, "at": later, "label": truth})
        write(folder / "asks", minute, asks)
        write(folder / "answers", minute, answers)
    # A day later one more round: its time moves the watermark on, and what is unanswered expires.
    who = {"shop": "last shop", "id": "last", "at": (START + timedelta(days=1)).isoformat()}
    write(folder / "asks", FILES, [{**who, "output": dict.fromkeys(LABELS, 0.5)}])
    write(folder / "answers", FILES, [{**who, "label": LABELS[0]}])


def write(folder: Path, minute: int, rows: list[dict[str, object]]) -> None:
    """Write rows as JSON lines; Spark takes files in the order of their times."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{minute:03}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (1_900_000_000 + minute, 1_900_000_000 + minute))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Turn a file of events into a file of sets, with Bytewax.

    python examples/spark/make_events.py out/bytewax
    mkdir -p out/bytewax/recovery
    python -m bytewax.recovery out/bytewax/recovery 1
    python -m bytewax.run "examples/bytewax/flow.py:make_flow('out/bytewax')" \\
        -r out/bytewax/recovery -s 1 -b 0

Killed at any moment and started again by the last command, it goes on from its last snapshot: every
set is written once, with the threshold that it has without the interruption.
"""

import json
from datetime import datetime
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.files import FileSink, FileSource
from bytewax.dataflow import Dataflow

from keyhole.integrations.bytewax import streams
from keyhole.keyed import Answered, Asked, Output, make_fold

FOLD = make_fold(alpha=0.1, seed=7, lifetime=3_600_000)


def make_flow(folder: str) -> Dataflow:
    """Return the dataflow; asks and answers of all files are first put into one, by time."""
    rows = [
        line
        for kind in ("asks", "answers")
        for path in sorted(Path(folder, kind).glob("*.json"))
        for line in path.read_text().splitlines()
    ]
    rows.sort(key=lambda line: json.loads(line)["at"])  # asks stay before answers of their time
    events = Path(folder, "events.json")
    if not events.exists():
        events.write_text("\n".join(rows) + "\n")
    flow = Dataflow("sets")
    lines = op.input("events", flow, FileSource(events, batch_size=10))
    keyed = op.map("read", lines, read_event)
    outputs = streams("play", keyed, FOLD)
    texts = op.map("write", outputs, lambda pair: (pair[0], write_output(*pair)))
    op.output("sets", texts, FileSink(Path(folder, "sets.json")))
    return flow


def read_event(line: str) -> tuple[str, Asked | Answered]:
    row = json.loads(line)
    at = int(datetime.fromisoformat(row["at"]).timestamp() * 1000)
    if "output" in row:
        return row["shop"], Asked(row["id"], row["output"], at=at)
    return row["shop"], Answered(row["id"], label=row["label"], at=at)


def write_output(shop: str, one: Output) -> str:
    written = {"shop": shop, "id": one.id, "kind": one.kind, "miss": one.miss, "note": one.note}
    if one.region is not None:
        written |= {"threshold": one.region.threshold, "labels": list(one.region.labels)}
        written |= {"size": one.region.size}
    return json.dumps(written)

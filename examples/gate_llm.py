# %% [markdown]
# # When may an assistant's answer be sent unread?
# An assistant answers support questions. Each answer has a confidence in [0, 1]: the mean token
# probability, the share of samples that agree, a judge's rating. Above some threshold it is sent at
# once; below it, a colleague reads it first. The target: 5 % of the answers sent unread may be bad.
#
# Few people press a thumb, hours later, and mostly those who got a bad answer. So a colleague also
# audits one answer in ten, drawn at random. `langfuse_scores.jsonl.gz` holds all three as Langfuse
# exports scores, one JSON object a line (`GET /api/public/v2/scores` returns the same under `data`):
# `confidence`, `user-feedback` and `audit`. The file was made by `write_recording` below.

# %%
import gzip
import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import keyhole

ALPHA = 0.05
WAIT = timedelta(days=1)  # for thumbs and audits
RECORDING = Path(__file__).with_name("langfuse_scores.jsonl.gz")
Record = dict[str, object]


def read_recording(path: Path) -> list[Record]:
    """Return the scores of an export, in order of time."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return sorted(map(json.loads, file), key=lambda score: score["timestamp"])


# %% [markdown]
# Decide when an answer is made, and store the decision's `id` under that of the trace. A day later
# everything that anybody will say about it is known, and `settle` passes it on to the gate.

# %%
Settle = Callable[[keyhole.Gate, int, Record], None]


def play(scores: list[Record], settle: Settle) -> tuple[keyhole.Gate, float]:
    """Play an export through a gate; return the gate and the share of sent answers that were bad."""
    gate = keyhole.Gate(alpha=ALPHA, seed=7, history=10_000)
    known: dict[object, Record] = {}  # of each trace, what was said of it
    sent: list[tuple[datetime, int, object]] = []  # not settled yet
    bad = total = 0
    for score in scores:
        now = datetime.fromisoformat(str(score["timestamp"]))
        while sent and now - sent[0][0] > WAIT:
            _, number, trace = sent.pop(0)
            settle(gate, number, known.pop(trace))
        if score["name"] == "confidence":
            decision = gate.decide(float(str(score["value"])))
            if decision.accepted:
                sent.append((now, decision.id, score["traceId"]))
                known[score["traceId"]] = {}
                bad += not score["metadata"]["good"]  # type: ignore[index]
                total += 1
        elif score["traceId"] in known:  # was sent
            known[score["traceId"]][str(score["name"])] = score["value"] == 1
    return gate, bad / total


# %% [markdown]
# Three ways to learn from the same recording. Thumbs alone are not a fair sample: most are about bad
# answers, and the gate refers nearly everything. Audits alone are fair, and few: each counts for ten.
# Thumbs *and* audits use all that is known. Silence counts as a thumb up, which is often wrong, and the
# audits show how often: `judged` is what the thumb says, `right` what the audit found.


# %%
def settle_by_thumbs(gate: keyhole.Gate, number: int, known: Record) -> None:
    """Believe thumbs, and nothing else."""
    if "user-feedback" in known:
        gate.learn(number, right=bool(known["user-feedback"]))
    else:
        gate.skip(number)


def settle_by_audits(gate: keyhole.Gate, number: int, known: Record) -> None:
    """Believe the audits of one answer in ten."""
    if "audit" in known:
        gate.learn(number, right=bool(known["audit"]), chance=0.1)
    else:
        gate.skip(number)


def settle_by_both(gate: keyhole.Gate, number: int, known: Record) -> None:
    """Let audits correct what thumbs say."""
    thumb = bool(known.get("user-feedback", True))
    if "audit" in known:
        gate.learn(number, right=bool(known["audit"]), judged=thumb)
    else:
        gate.learn(number, judged=thumb)


def main() -> None:
    """Play the recording in three ways; print the results, and draw the last."""
    scores = read_recording(RECORDING)
    names = [score["name"] for score in scores]
    for name in ("confidence", "user-feedback", "audit"):
        print(f"{names.count(name):5,} {name}")
    ways = {"thumbs": settle_by_thumbs, "audits": settle_by_audits, "both": settle_by_both}
    for name, settle in ways.items():
        gate, bad = play(scores, settle)
        print(f"{name}: {gate.accepted_share:5.1%} sent unread, {bad:.1%} of them bad")
    top, _ = gate.plot(window=1_000)  # by what the gate was told: thumbs, silence and audits
    top.figure.savefig("gate-llm.png", dpi=110)


# %% [markdown]
# In your application there is no loop: `decide` is called where the answer is made, and a nightly job
# settles what is a day old. Send what people say to Langfuse as you do now:
#
# ```
# langfuse.create_score(trace_id=trace_id, name="user-feedback", value=1, data_type="BOOLEAN")
# ```
#
# The recording has 6,000 answers in 60 days. A quarter of the bad ones and a twentieth of the good
# ones get a thumb. From the middle on, answers are worse. `metadata` holds whether an answer
# was good, which no export knows: it serves only to print what was really bad.


# %%
def write_recording(path: Path, answers: int = 6_000) -> None:
    """Write an export as an assistant's might be."""
    draw = random.Random(4)
    lines = [json.dumps(one) for trace in range(answers) for one in make_scores(draw, trace, answers)]
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write("\n".join(lines).encode())


def make_scores(draw: random.Random, trace: int, answers: int) -> Iterator[Record]:
    """Return the confidence of a trace, and what people said of it."""
    at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=14.4 * trace)
    confidence = draw.betavariate(6, 1.5)
    good = draw.random() < confidence ** (0.4 if trace < answers // 2 else 0.8)

    def make(name: str, value: float, source: str, hours: float, **more: object) -> Record:
        kind = "NUMERIC" if name == "confidence" else "BOOLEAN"
        time = (at + timedelta(hours=hours)).isoformat(timespec="seconds")
        return {
            "traceId": f"t-{trace:05}", "name": name, "value": value, "dataType": kind,
            "source": source, "timestamp": time, **more,
        }  # fmt: skip

    yield make("confidence", round(confidence, 4), "API", 0, metadata={"good": good})
    if draw.random() < (0.05 if good else 0.25):
        yield make("user-feedback", int(good), "API", draw.uniform(0.1, 23))
    if draw.random() < 0.1:
        yield make("audit", int(good), "ANNOTATION", draw.uniform(2, 23))


if __name__ == "__main__":
    main()

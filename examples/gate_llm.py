# %% [markdown]
# # When may an assistant's answer be sent unread?
# An assistant answers support questions. Each answer comes with a score in [0, 1]: the mean token
# probability, the share of samples that agree, a judge's rating. Above some threshold it is sent at
# once; below it, a colleague reads it first. Thumbs come minutes or days later, and only for answers
# that were sent. The gate finds the threshold, and keeps the share of bad answers at 5 %.
#
# No model is needed: the first cell writes a file of recorded scores and thumbs.

# %%
import csv
import random
import tempfile
from pathlib import Path

import keyhole

ALPHA = 0.05


def write_recording(path: Path, answers: int = 8_000) -> None:
    """Write a log like an assistant's; midway the product changes, and answers get worse."""
    draw = random.Random(4)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["trace", "score", "thumb", "late"])
        for number in range(answers):
            score = draw.betavariate(6, 1.5)
            good = draw.random() < score ** (0.4 if number < answers // 2 else 0.8)
            thumb, late = "up" if good else "down", draw.randint(0, 40)
            rows.writerow([f"trace-{number}", f"{score:.4f}", thumb, late])


# %% [markdown]
# `decide` says at once whether the answer may be sent. Keep its `id` with your trace; `learn` takes it
# when the thumb comes, however late and in any order.


# %%
def play_recording(path: Path) -> keyhole.Gate:
    """Play the recording through a gate, with late thumbs, and return the gate."""
    gate = keyhole.Gate(alpha=ALPHA)
    due: dict[int, list[tuple[int, bool]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for now, row in enumerate(csv.DictReader(file)):
            decision = gate.decide(float(row["score"]))
            if decision.accepted:
                due.setdefault(now + int(row["late"]), []).append((decision.id, row["thumb"] == "up"))
                # Langfuse, when the thumb comes:
                #   langfuse = langfuse.get_client()
                #   langfuse.create_score(trace_id=trace_id, name="user-feedback", value=1,
                #                         data_type="BOOLEAN")
                # MLflow:
                #   mlflow.log_feedback(trace_id=trace_id, name="user_feedback", value=True,
                #                       source=AssessmentSource(source_type=AssessmentSourceType.HUMAN,
                #                                               source_id="user-7"))
                # and in the same handler:
                #   gate.learn(decision_id, right=True)
            for number, is_good in due.pop(now, []):
                gate.learn(number, right=is_good)
    return gate


# %%
def main() -> None:
    """Write a recording, play it, and print the result."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.csv"
        write_recording(path)
        gate = play_recording(path)
    print(gate)
    print(f"sent unread: {gate.accepted_share:.1%}; of those bad: {gate.wrong_share:.2%}")
    late, prompt = gate.bound().most, keyhole.bounds.excess(gate.learner, rounds=8_000).most
    print(f"for certain at most {late:.0f} bad ones beyond 5 %, thumbs as late as they were")
    print(f"(had all thumbs come at once, {prompt:.0f})")


if __name__ == "__main__":
    main()

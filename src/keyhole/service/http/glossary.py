"""One word for each thing: what a field means wherever it stands, unless it says so itself."""

from typing import Any

WORDS = {
    "accepted": "Whether the answer may be used as it is; else a person should be asked.",
    "alpha": "Target miss rate: the share of rounds that may miss.",
    "answer": "What was told of the truth, as it was given; null while the round is open.",
    "answered_at": "When its answer came.",
    "archived": "Since when it takes no more rounds; null while it does.",
    "at": "When.",
    "code": "What is wrong, in a word for programs.",
    "created": "When it was made.",
    "decisions": "One for each output, in order.",
    "expired": "Rounds whose time was over before an answer came.",
    "groups": "The groups: of a stream how each has fared, of a round those it belongs to.",
    "guarantee": "What is proven of the learner, in a sentence.",
    "hit": "Whether the set held the truth.",
    "id": "The name of a round, as its prediction gave it.",
    "interval": "The two ends, null where it has none; null as a whole if it is empty or a set.",
    "key": "A word of your own: asked again with it, the service gives the same prediction.",
    "kind": "What the stream proposes, and from what.",
    "label": "The true label, or the true value.",
    "labels": "The labels of the set, or those that a stream fixes.",
    "learner": "The rule that picks thresholds; see 'keyhole learners'.",
    "lifetime": "Seconds until an open round expires.",
    "mean_size": "Mean number of labels, or width, of the answered rounds.",
    "message": "What is wrong and what helps, in a sentence for people.",
    "miss": "Whether the set did not hold the truth.",
    "miss_rate": "Share of answered rounds that missed.",
    "missed": "Whether the set missed the truth; null while that is not known.",
    "misses": "Answered rounds that missed.",
    "name": "Its name.",
    "needs": "What an answer must tell for the learner to learn.",
    "notes": "What one should know of how things stand; mostly nothing.",
    "open": "Rounds that wait for an answer.",
    "open_limit": "How many rounds may wait; then the oldest expires.",
    "predicted": "Rounds asked for.",
    "predictions": "One for each output, in order.",
    "probabilities": "How likely each of the thresholds is to be played next.",
    "quarantined": "Streams that cannot be used; where they have a reason, by name.",
    "feedback": "What answers can tell: bandit, semi-bandit or full; in a batch, the answers.",
    "results": "For each answer, in order, what was counted or why not.",
    "round": "Its number in the stream, from 0.",
    "rounds": "Rounds: how many were answered, or the rounds themselves.",
    "score": "The true label's score, where the answer told it.",
    "size": "Number of labels, or width; null if it is unbounded.",
    "source": "Where the learner comes from.",
    "status": "That all is well.",
    "stream": "The name of its stream.",
    "streams": "What each is and where it stands.",
    "threshold": "What a score must reach to be in the set.",
    "thresholds": "Those that may be played next.",
    "unreachable": "True values that no threshold would have covered.",
    "broken_bounds": "True values that no threshold would have covered.",
    "window": "How many answered rounds count as recent.",
}


def explain_fields(schemas: dict[str, Any]) -> None:
    """Give every field that has no description of its own the one of its name."""
    for schema in schemas.values():
        for field, about in schema.get("properties", {}).items():
            if not about.get("description") and field in WORDS:
                about["description"] = WORDS[field]

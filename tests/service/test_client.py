"""The client against a service in a process of its own, and the commands that go with it."""

import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import keyhole
from keyhole.cli import main
from keyhole.errors import (
    AnsweredError,
    FeedbackError,
    InvalidError,
    KeyholeError,
    LabelError,
    ScoreError,
    StreamExistsError,
    TokenError,
    UnknownRoundError,
    UnknownStreamError,
    UnreachableError,
)
from keyhole.service.client import operations
from keyhole.service.http import bodies
from keyhole.service.wire.responses import Receipt
from tests.patience import SECONDS
from tests.service.process import Service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(f"sqlite:///{tmp_path_factory.mktemp('client') / 'keyhole.db'}") as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[keyhole.Client]:
    with keyhole.Client(service.url) as opened:
        yield opened


def test_the_two_verbs(client: keyhole.Client) -> None:
    client.create_stream("verbs", alpha=0.1, seed=7)
    hits = 0
    for _ in range(10):
        made = client.predict("verbs", {"cat": 0.7, "lynx": 0.2})
        if "cat" in made:
            hits += not client.learn(made, label="cat").missed
        else:
            client.learn(made, keyhole.MISS)
    stands = client.stream("verbs")
    assert (stands.rounds, stands.misses) == (10, 10 - hits)
    assert "verbs" in {stream.name for stream in client.streams()}


def test_arrays_and_labels_of_numpy_are_taken(client: keyhole.Client) -> None:
    client.create_stream("arrays", alpha=0.1, arms=5, horizon=1000, learner="ocp-bandit")
    made = client.predict("arrays", np.array([0.5, 0.5], dtype=np.float32))
    assert client.learn(made, label=np.int64(1)).repeated is False


def test_intervals(client: keyhole.Client) -> None:
    client.create_stream("widths", alpha=0.1, bound=3.0)
    made = client.predict("widths", 10.0)
    assert made.interval is not None
    assert 10.0 in made
    assert 99.0 not in made
    client.learn(made, label=10.0)


def test_many_at_once(client: keyhole.Client) -> None:
    client.create_stream("many", alpha=0.1, horizon=1000, learner="ocp-bandit")
    made = client.predict_batch("many", [[1.0, 0.1]] * 20)
    results = client.learn_batch([*((one, keyhole.HIT) for one in made), ("nonsense", keyhole.MISS)])
    assert [type(result).__name__ for result in results[:20]] == ["Receipt"] * 20
    assert isinstance(results[20], UnknownRoundError)


def test_a_gate_is_judged_in_batches(client: keyhole.Client) -> None:
    client.create_stream("gate", alpha=0.1, kind="gate", feedback="both")
    verdicts = client.decide_batch("gate", [0.99, 0.98, 0.97])
    told = [{"right": True}, {"right": False, "wrong": 0.1}, {"skip": True}]
    results = client.learn_batch(list(zip(verdicts, told, strict=True)))
    assert [result.missed for result in results if isinstance(result, Receipt)] == [False, True, None]
    answers = [entry.answer for entry in client.rounds("gate")]
    assert answers[::-1] == [{"right": True}, {"right": False, "wrong": 0.1}, "skip"]


def test_an_answer_of_a_batch_is_whatever_one_may_be(client: keyhole.Client) -> None:
    client.create_stream("parts", alpha=0.1, seed=7)
    made = client.predict_batch("parts", [[0.9, 0.1]] * 5)
    told = [
        {"score": 0.9},
        {"loss": 0.5},
        {"label": 0, "chance": 0.5},
        {"answer": keyhole.MISS, "wrong": 0.1},
        {"label": 0},
    ]
    results = client.learn_batch(list(zip(made, told, strict=True)))
    assert [type(result) for result in results] == [Receipt] * 5
    answers = [entry.answer for entry in client.rounds("parts")]
    assert answers[::-1] == [
        {"score": 0.9},
        {"loss": 0.5},
        {"label": 0, "chance": 0.5},
        {"miss": True, "wrong": 0.1},
        {"label": 0},
    ]


def test_a_refusal_is_raised_as_the_library_raises_it(client: keyhole.Client) -> None:
    client.create_stream("errors", alpha=0.1)
    made = client.predict("errors", [0.5])
    client.learn(made, keyhole.MISS)
    with pytest.raises(AnsweredError):
        client.learn(made, label=0)
    with pytest.raises(ScoreError, match="at place 0 is not a number"):
        client.predict("errors", [2.0])
    with pytest.raises(UnknownStreamError):
        client.stream("nobody")
    with pytest.raises(StreamExistsError):
        client.create_stream("errors", alpha=0.1)
    with pytest.raises(FeedbackError, match="one answer"):
        client.learn(made)


def test_a_retry_after_a_lost_response_gives_the_same_round(
    client: keyhole.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_stream("retries", alpha=0.1)
    send = httpx.Client.send
    lost: list[httpx.Response] = []

    def unreliable(self: httpx.Client, request: httpx.Request) -> httpx.Response:
        response = send(self, request)
        if len(lost) < 3:
            lost.append(response)
            raise httpx.ReadError("the line was cut")
        return response

    monkeypatch.setattr(httpx.Client, "send", unreliable)
    made = client.predict("retries", [0.5])
    assert {response.json()["id"] for response in lost} == {made.id}
    lost.clear()
    assert client.learn(made, keyhole.MISS).repeated is True
    stands = client.stream("retries")
    assert (stands.predicted, stands.rounds) == (1, 1)


@pytest.mark.parametrize("id_", ["../streams/safe/archive?x=", "../../v1/streams/safe/archive#", ".."])
def test_no_id_reaches_another_route(client: keyhole.Client, id_: str) -> None:
    if "safe" not in {stream.name for stream in client.streams()}:
        client.create_stream("safe", alpha=0.1)
    with pytest.raises(KeyholeError):
        client.learn(id_, keyhole.MISS)
    with pytest.raises(KeyholeError):
        client.predict(id_, [0.5])
    with pytest.raises(KeyholeError):
        client.archive("x/../safe")
    assert client.stream("safe").archived is None


def test_labels_keep_their_type(client: keyhole.Client) -> None:
    client.create_stream("typed", alpha=0.1, learner="aci", feedback="full", options={"window": 20})
    made = client.predict("typed", {3: 0.5, "3": 0.25, 2.5: 0.2, np.int64(7): 0.05})
    assert made.labels is not None
    assert set(map(repr, made.labels)) <= {"3", "'3'", "2.5", "7"}
    assert client.learn(made, label=3).repeated is False
    assert client.learn(made, label=3).repeated is True
    with pytest.raises(AnsweredError):
        client.learn(made, label="3")
    (entry,) = client.rounds("typed")
    assert entry.answer == {"label": 3}
    # The text alone was a candidate: the number is not taken for it, nor for a miss.
    assert client.learn(client.predict("typed", {"3": 1.0}), label="3").missed is False
    with pytest.raises(LabelError, match="convert it to the labels' type"):
        client.learn(client.predict("typed", {"3": 1.0}), label=3)


def test_nobody_there_is_said_plainly() -> None:
    client = keyhole.Client("http://127.0.0.1:9", retries=1)
    with pytest.raises(UnreachableError, match="is it running"):
        client.streams()
    client.close()


def test_a_live_view_hears_of_every_move(service: Service, client: keyhole.Client) -> None:
    client.create_stream("live", alpha=0.1)
    with httpx.stream("GET", f"{service.url}/v1/streams/live/events", timeout=SECONDS) as response:
        lines = response.iter_lines()
        data = (json.loads(line[6:]) for line in lines if line.startswith("data: "))
        assert next(data)["predicted"] == 0
        made = client.predict("live", [0.5])
        client.learn(made, keyhole.MISS)
        seen = next(data)
        while seen["rounds"] < 1:
            seen = next(data)
        assert seen["misses"] == 1


def test_the_log_can_be_downloaded_and_exported(client: keyhole.Client) -> None:
    client.create_stream("logged", alpha=0.1)
    client.learn(client.predict("logged", [0.5]), keyhole.MISS)
    assert client.export("logged").decode().count("\r\n") == 2
    assert client.export("logged", format="parquet")[:4] == b"PAR1"
    assert client.history("logged").miss_rate == [1.0]
    assert client.archive("logged").archived is not None


def test_the_snippets_on_forgetting_a_person_do_as_the_page_says(client: keyhole.Client) -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "privacy.md"
    first, second = re.findall(r"^```py\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"client": client}
    exec(first, names)  # noqa: S102 - our own page
    assert client.stream("triage").retention == 90 * 86_400
    (found,) = client.rounds("triage", metadata={"patient": "p-4711"})
    assert (found.answer, found.erased) == ({"label": "flu"}, False)
    exec(second, names)  # noqa: S102
    assert client.rounds("triage", metadata={"patient": "p-4711"}) == []
    (found,) = client.rounds("triage")
    assert (found.answer, found.metadata, found.missed, found.erased) == (None, None, False, True)
    assert client.erase("triage", names["shown"]) == 0
    with pytest.raises(InvalidError, match="either a prediction or metadata"):
        client.erase("triage")


def test_rounds_are_erased_from_the_command_line_and_verify_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    with Service(url) as service, keyhole.Client(service.url) as here:
        here.create_stream("triage", alpha=0.1, seed=7)
        made = [here.predict("triage", [0.9, 0.1], metadata={"user": n}) for n in range(4)]
        for one in made[:3]:
            here.learn(one, keyhole.MISS)
        for which in (["--id", made[0].id], ["--metadata", '{"user": 1}'], ["--older-than", "1"]):
            assert main(["erase", "triage", *which, "--database", url]) == 0
        erased = capsys.readouterr().out.splitlines()
        assert erased == [f"triage: {what} erased" for what in ("1 round", "1 round", "0 rounds")]
        assert main(["erase", "triage", "--metadata", "[]", "--database", url]) != 0
        assert main(["vacuum", "--database", url]) == 0
        assert [one.erased for one in here.rounds("triage")] == [False, False, True, True]
        here.learn(made[3], keyhole.MISS)
    capsys.readouterr()
    assert main(["verify", "--database", url]) == 0
    said = capsys.readouterr().out
    assert "triage: 4 rounds, 4 answers: the replay is the same, bit for bit" in said
    assert "2 rounds erased: 4 choices cannot be replayed" in said


def test_tokens_are_made_listed_and_revoked_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    assert main(["token", "create", "ops", "--scopes", "read", "predict", "--database", url]) == 0
    token = capsys.readouterr().out.strip()
    id_ = token.split("_")[1]
    with Service(url) as service:
        with pytest.raises(TokenError), keyhole.Client(service.url) as stranger:
            stranger.streams()
        with keyhole.Client(service.url, token=token) as friend:
            assert friend.streams() == []
    assert main(["token", "list", "--database", url]) == 0
    assert (
        f"{id_}  in use             predict,read           *            ops" in capsys.readouterr().out
    )
    assert main(["token", "revoke", id_, "--database", url]) == 0
    assert main(["token", "revoke", id_, "--database", url]) == 2


def test_serve_refuses_to_be_open_to_strangers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    assert main(["serve", "--open", "--host", "0.0.0.0", "--database", url]) == 2  # noqa: S104
    assert "refusing to listen on 0.0.0.0" in capsys.readouterr().err


def test_export_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    with Service(url) as service, keyhole.Client(service.url) as client:
        client.create_stream("logged", alpha=0.1)
        client.learn(client.predict("logged", [0.5]), keyhole.MISS)
    out = tmp_path / "log.csv"
    assert main(["export", "logged", str(out), "--database", url]) == 0
    assert "the true label's score is known in 0 of them" in capsys.readouterr().out
    assert out.read_text().splitlines()[1].startswith("0,1-0-")


def test_a_stream_is_taught_changed_and_removed(client: keyhole.Client) -> None:
    client.create_stream("lives", alpha=0.1, labels=["cat", "dog"])
    taught = client.calibrate("lives", [[0.9, 0.1]] * 2500, ["cat"] * 2500)
    assert taught.calibrated == 2500
    client.create_stream("judged", alpha=0.1, kind="gate")
    assert client.calibrate("judged", [0.9, {"a": 0.4}], [True, False]).calibrated == 2
    with pytest.raises(FeedbackError, match="right='no' is neither True nor False"):
        client.calibrate("judged", [0.9], ["no"])
    changed = client.update_stream("lives", alpha=0.2, labels=["lynx"])
    assert (changed.alpha, changed.labels) == (0.2, ["cat", "dog", "lynx"])
    assert len(changed.notes) == 2
    client.archive("lives")
    client.delete("lives")
    with pytest.raises(UnknownStreamError):
        client.stream("lives")


def test_features_groups_and_every_kind_of_answer(client: keyhole.Client) -> None:
    client.create_stream("known", alpha=0.1, features=["hour", "load"], groups=["weekend"])
    made = client.predict("known", [0.7, 0.3], features={"hour": np.float32(7.0)}, groups=["weekend"])
    assert client.learn(made, loss=0.25, chance=0.5).missed is False
    many = client.predict_batch(
        "known", [[0.7, 0.3]] * 3, features={"hour": [1.0, np.nan, 3.0]}, groups=[[], ["weekend"], []]
    )
    assert client.skip(many[0]).missed is None
    client.learn(many[1], score=0.9)
    client.learn(many[2], keyhole.MISS, wrong=0.1)
    stands = client.stream("known")
    assert (stands.skipped, stands.groups[0].rounds) == (1, 3)
    features: Any = [row.features for row in client.rounds("known")]
    assert [given["hour"] for given in features] == [3.0, None, 1.0, 7.0]
    with pytest.raises(InvalidError, match="did you mean 'weekend'"):
        client.predict("known", [0.5], groups=["weekends"])


def test_history_is_taught_with_what_is_known_of_it(client: keyhole.Client) -> None:
    """Kills: history sent without its features and groups, which the library would have heeded."""
    client.create_stream("taught", alpha=0.1, features=["hour"], groups=["weekend"], seed=7)
    past: Any = [[0.7, 0.3]] * 60, [0, 0, 1] * 20
    about: Any = {"features": {"hour": [*range(60)]}, "groups": [["weekend"], []] * 30}
    client.calibrate("taught", *past, **about)
    predictor = keyhole.Predictor(alpha=0.1, features=["hour"], groups=["weekend"], seed=7)
    predictor.calibrate(*past, **about)
    case: Any = {"features": {"hour": 7}, "groups": ["weekend"]}
    ours = predictor.predict([0.6, 0.4], **case)
    assert client.predict("taught", [0.6, 0.4], **case).threshold == ours.threshold


def test_bands(client: keyhole.Client) -> None:
    client.create_stream("bands", alpha=0.1, kind="band")
    made = client.predict("bands", (46.0, 54.0))
    assert made.interval == (46.0, 54.0)
    assert client.learn(made, label=60.0).missed is True


def test_gates(client: keyhole.Client) -> None:
    client.create_stream("gated", alpha=0.05, kind="gate", feedback="both", groups=["new"])
    about = {"model": "v3"}
    sure, unsure = client.decide_batch("gated", [0.99, 0.02], groups=[["new"], []], metadata=about)
    assert [row.metadata for row in client.rounds("gated")] == [about, about]
    named = client.decide("gated", {"invoice": 0.97, "letter": 0.04})
    assert (sure.accepted, unsure.accepted, named.candidate) == (True, False, "invoice")
    assert client.learn(sure, right=True).missed is False
    assert client.learn(unsure, right=False).missed is True
    assert client.skip(named).missed is None
    stands = client.stream("gated")
    assert (stands.accepted_share, stands.wrong_share) == (1 / 3, 0.0)
    with pytest.raises(FeedbackError, match="give it alone"):
        client.learn(named, keyhole.HIT, right=True)


def test_rounds_are_answered_by_key_and_found_by_metadata(client: keyhole.Client) -> None:
    client.create_stream("keyed", alpha=0.1)
    shown = client.predict("keyed", {"cat": 0.9}, key="order/1%2F", metadata={"model": "v1"})
    assert client.learn_key("keyed", "order/1%2F", label="cat").id == shown.id
    assert client.amend_key("keyed", "order/1%2F", keyhole.MISS).missed is True
    assert client.amend_key("keyed", "order/1%2F", label="cat").missed is False
    left = client.predict("keyed", {"cat": 0.9}, key="order 2")
    receipt = client.skip_key("keyed", "order 2")
    assert (receipt.id, receipt.missed) == (left.id, None)
    with pytest.raises(keyhole.errors.UnknownRoundError, match="'order 3'"):
        client.skip_key("keyed", "order 3")
    client.predict_batch("keyed", [{"cat": 0.9}] * 600, metadata={"model": "v2"})
    assert len(client.rounds("keyed", limit=1000)) == 602
    assert [one.id for one in client.rounds("keyed", metadata={"model": "v1"})] == [shown.id]


@pytest.mark.parametrize("key", ["", " a", "a ", "a\nb", "é", "x" * 201])
def test_a_key_that_no_header_can_carry_is_refused_at_once(client: keyhole.Client, key: str) -> None:
    with pytest.raises(keyhole.errors.InvalidError, match="cannot be sent"):
        client.predict("nowhere", {"cat": 0.9}, key=key)  # It never gets as far as that.


@pytest.mark.parametrize(
    ("operation", "body"),
    [(operations.create_stream, bodies.NewStream), (operations.update_stream, bodies.UpdateBody)],
)
def test_settings_are_keywords_by_the_names_of_the_request_body(
    operation: Callable[..., object], body: type[bodies.Body]
) -> None:
    keywords = inspect.signature(operation).parameters.keys()
    assert keywords | {"name"} == body.model_fields.keys() | {"name"}


def test_every_setting_of_a_new_stream_is_sent() -> None:
    given = dict.fromkeys(bodies.NewStream.model_fields, 1)
    call = next(operations.create_stream(**given))  # type: ignore[arg-type]
    assert call.json == given


def test_an_answer_that_turned_out_otherwise_is_amended_by_a_client(client: keyhole.Client) -> None:
    client.create_stream("turned", alpha=0.1)
    shown = client.predict("turned", {"cat": 0.9, "dog": 0.1})
    client.learn(shown, label="cat")
    assert client.amend(shown, label="dog").missed
    assert client.amend(shown.id, keyhole.HIT).missed is False
    (row,) = client.rounds("turned")
    assert (row.answer, row.first_answer) == ("hit", {"label": "cat"})


def test_shadows_are_added_read_removed_and_promoted_by_a_client(client: keyhole.Client) -> None:
    client.create_stream("shaded", alpha=0.1, shadows=[{"name": "wider", "alpha": 0.05}])
    client.add_shadow("shaded", "paper", learner="ocp-unlock+", horizon=1000, arms=20)
    client.learn(client.predict("shaded", {"cat": 0.7, "lynx": 0.2}), label="cat")
    assert [(one.name, one.rounds) for one in client.stream("shaded").shadows] == [
        ("wider", 1), ("paper", 1),
    ]  # fmt: skip
    assert client.remove_shadow("shaded", "paper").shadows[0].alpha == 0.05
    promoted = client.promote_shadow("shaded", "wider")
    assert (promoted.alpha, promoted.shadows) == (0.05, [])
    with pytest.raises(InvalidError, match="there is no shadow 'wider'"):
        client.promote_shadow("shaded", "wider")

"""Bodies are read once it is known who sends them, and measured before anything is built from them."""

import json
import threading
import tracemalloc
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from keyhole.errors import RefusedError
from keyhole.service.http import bodies
from keyhole.service.http.app import create_app
from keyhole.service.http.bodies import check_shape
from keyhole.service.http.limits import Limits
from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from tests.service.scene import NOW, Clock, client_of, made
from tests.service.serving import hear, serving

JSON = {"Content-Type": "application/json"}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='[]{},"\\a'),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text('[,"\\'), inner, max_size=5),
    max_leaves=30,
)


def measured(value: Any) -> tuple[int, int, int]:
    """Return how many values there are, how deep they are nested, and how many are empty."""
    if not isinstance(value, (list, dict)):
        return 1, 0, 0
    inner = [measured(one) for one in (value.values() if isinstance(value, dict) else value)]
    counts = [sum(column) for column in zip(*inner, strict=True)] or [0, 0, 0]
    return 1 + counts[0], 1 + max((one[1] for one in inner), default=0), counts[2] + (not inner)


@given(value=anything, depth=st.integers(1, 6))
def test_what_is_nested_too_deep_is_found_from_the_bytes(value: Any, depth: int) -> None:
    content = json.dumps(value).encode()
    if measured(value)[1] <= depth:
        check_shape(content, elements=10**6, depth=depth)
    else:
        with pytest.raises(RefusedError, match="nested deeper"):
            check_shape(content, elements=10**6, depth=depth)


@given(value=anything, most=st.integers(1, 40))
def test_too_many_values_are_found_from_the_bytes(value: Any, most: int) -> None:
    content, (count, _, empty) = json.dumps(value).encode(), measured(value)
    if count + empty <= most:  # An empty list counts as if it held one.
        check_shape(content, elements=most, depth=1000)
    elif count > most:
        with pytest.raises(RefusedError, match="values"):
            check_shape(content, elements=most, depth=1000)


@pytest.mark.parametrize(
    "content", [b'"' + b'\\"' * 400_000, b'"' * 400_001, b"\\" * 800_000, b'["' + b"[" * 800_000]
)
def test_text_that_never_ends_is_measured_in_one_pass(content: bytes) -> None:
    # A pattern that began again at every quotation mark would need hours for these.
    check_shape(b"[[[[" + content, elements=10**7, depth=5)


@pytest.mark.parametrize(
    "body",
    [b"[" * 7_800_000, b"[" + b"[]," * 2_600_000 + b"[]]", b'{"scores":[' + b"0," * 600_000 + b"0]}"],
)
def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(one: TestClient, body: bytes) -> None:
    made(one)
    response = one.post("/v1/streams/pets/predictions", content=body, headers=JSON)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")


def test_ever_so_many_faults_are_counted_not_listed() -> None:
    body: Any = {"scores": {str(n): [] for n in range(1000)}}
    with pytest.raises(Exception, match="values are not what they must be"):
        bodies.parse(bodies.OutputBody, json.dumps(body).encode(), Limits())


def test_a_long_body_is_parsed_off_the_event_loop(
    one: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(one)
    parse, threads = bodies.parse, []

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return parse(*given)

    monkeypatch.setattr(bodies, "parse", noted)
    for labels in (10, 9_000):
        body = {"scores": [0.5] * labels}
        assert one.post("/v1/streams/pets/predictions", json=body).status_code == 201
    short, long = threads
    assert "worker" not in short.lower()
    assert "worker" in long.lower()


def test_a_stranger_is_refused_before_the_body_has_come(light: Database) -> None:
    tokens.create(light, "someone", scopes=["admin"], now=NOW)
    head = b"POST /v1/streams HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with serving(create_app(light)) as address, address.connect() as line:
        line.sendall(head + b"Content-Length: 7000000\r\n\r\n[")
        assert hear(line).startswith(b"HTTP/1.1 401")


def test_long_bodies_share_a_bounded_space_and_short_ones_pass(light: Database) -> None:
    http = client_of(light, Clock(), bodies_bytes=100_000)
    made(http)
    long = http.post("/v1/streams/pets/predictions", content=b" " * 200_000, headers=JSON)
    assert (long.status_code, long.json()["error"]["code"]) == (503, "busy")
    assert long.headers["retry-after"] == "1"
    again = http.post("/v1/streams/pets/predictions", content=b" " * 90_000, headers=JSON)
    assert again.status_code == 422  # Read, and so the space of the first one is free again.
    assert http.post("/v1/streams/pets/predictions", json={"scores": [0.5]}).status_code == 201


@pytest.mark.parametrize(
    ("learner", "feedback", "options"),
    [("aci", "full", {"window": 250}), ("logit-tracker", "semi-bandit", {"step": 1, "first": 2.5})],
)
def test_options_may_be_whole_numbers(
    one: TestClient, learner: str, feedback: str, options: Any
) -> None:
    told = made(one, learner=learner, feedback=feedback, options=options, horizon=None)["parameters"]
    assert {name: told[name] for name in options} == options


def test_unknown_labels_of_several_types_are_named(one: TestClient) -> None:
    made(one, labels=["cat", "dog"])
    body = {"scores": [0.5, 0.25], "labels": [3, "lynx"]}
    response = one.post("/v1/streams/pets/predictions", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (422, "label")


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 64])
@pytest.mark.parametrize(
    "text", ['[["a,[{"]]', '[["\\\\", ["]"]]]', '[["\\"", [1, 2]]]', '[{"\\\\\\"": [[]]}, [3]]']
)
def test_a_body_measured_in_pieces_is_as_deep_as_whole(
    monkeypatch: pytest.MonkeyPatch, text: str, piece: int
) -> None:
    monkeypatch.setattr(bodies, "_PIECE", piece)

    def find_depth(value: Any) -> int:
        held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if held is None else 1 + max(map(find_depth, held), default=0)

    deep = find_depth(json.loads(text))
    bodies.check_shape(text.encode(), elements=100, depth=deep)
    with pytest.raises(RefusedError):
        bodies.check_shape(text.encode(), elements=100, depth=deep - 1)


def test_measuring_a_long_body_takes_little_room() -> None:
    content = b'{"scores": [' + b"[],".join([b""] * 2_000_000) + b"1]}"
    tracemalloc.start()
    bodies.check_shape(content, elements=10**7, depth=16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000

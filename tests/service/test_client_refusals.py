"""What the clients, awaited or not, refuse by themselves: by name, with the place and the remedy."""

import asyncio
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest

import keyhole
from keyhole.errors import (
    FeedbackError,
    InvalidError,
    LabelError,
    ScoreError,
    TokenError,
    UnknownRoundError,
    UnreachableError,
)
from keyhole.service.client.client import AsyncClient, Client
from keyhole.service.wire.responses import Prediction, Verdict

NAN, INF = math.nan, math.inf
URL = "http://127.0.0.1:1"  # where nobody listens


@pytest.fixture(params=[Client, AsyncClient])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Where loops run: a browser test may have left one running in this thread."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def call(client: Any, verb: str, *given: Any, **named: Any) -> Any:
    """Ask a client of either kind; what it refuses by itself it refuses before it sends."""
    asked = getattr(client, verb)(*given, **named)
    if not isinstance(client, AsyncClient):
        return asked

    async def within() -> Any:
        return await asyncio.wait_for(asked, 30.0)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, within()).result(timeout=60.0)


@pytest.mark.parametrize(
    ("verb", "given", "named", "error", "said"),
    [
        ("predict", ("s", {"cat": 0.5, "dog": NAN}), {}, ScoreError, "score of 'dog' is nan"),
        ("predict", ("s", [0.5, INF]), {}, ScoreError, "score at place 1 is inf"),
        ("predict", ("s", np.array([-INF])), {}, ScoreError, "score at place 0 is -inf"),
        ("predict", ("s", {"cat": "high"}), {}, ScoreError, "score of 'cat' is 'high'"),
        ("predict", ("s", NAN), {}, ScoreError, "centre is nan"),
        ("predict", ("s", None), {}, ScoreError, "centre is None"),
        ("predict", ("s", (1.0, INF)), {}, ScoreError, "upper is inf"),
        ("predict", ("s", (NAN, 1.0)), {}, ScoreError, "lower is nan"),
        ("predict", ("s", {NAN: 0.5}), {}, LabelError, "label nan cannot be sent"),
        ("predict", ("s", {("a", 1): 0.5}), {}, LabelError, r"label \('a', 1\) cannot be sent"),
        ("predict", ("s", [0.5]), {"features": {"load": INF}}, InvalidError, "feature 'load' is inf"),
        ("predict", ("s", [0.5]), {"features": [0.5, -INF]}, InvalidError, "feature 1 is -inf"),
        ("predict", ("s", [0.5]), {"groups": [NAN]}, InvalidError, "group nan cannot be sent"),
        ("predict", ("s", [0.5]), {"metadata": {"x": NAN}}, InvalidError, "metadata is {'x': nan}"),
        ("predict", ("s", [0.5]), {"key": 5}, InvalidError, "key 5 cannot be sent"),
        ("predict_batch", ("s", [[0.5], [NAN]]), {}, ScoreError, "output 1: score at place 0 is nan"),
        ("decide", ("s", NAN), {}, ScoreError, "score is nan"),
        ("decide_batch", ("s", [0.5, {"a": INF}]), {}, ScoreError, "case 1: score of 'a' is inf"),
        ("learn", ("1-0-0123456789abcdef",), {"label": NAN}, LabelError, "label nan cannot be sent"),
        (
            "learn",
            ("1-0-0123456789abcdef",),
            {"label": np.float32(INF)},
            LabelError,
            "label inf cannot",
        ),
        (
            "learn",
            ("1-0-0123456789abcdef",),
            {"label": b"cat"},
            LabelError,
            "label b'cat' cannot be sent",
        ),
        ("learn", ("1-0-0123456789abcdef",), {"score": NAN}, ScoreError, "score is nan"),
        ("learn", ("1-0-0123456789abcdef",), {"loss": INF}, FeedbackError, "loss is inf"),
        (
            "learn",
            ("1-0-0123456789abcdef", keyhole.HIT),
            {"chance": NAN},
            FeedbackError,
            "chance is nan",
        ),
        ("learn", ("1-0-0123456789abcdef", keyhole.HIT), {"wrong": NAN}, FeedbackError, "wrong is nan"),
        ("learn", ("a",), {"right": keyhole.MISS}, FeedbackError, "right=<miss> is neither True nor"),
        ("learn", ("a",), {"judged": "hit"}, FeedbackError, "judged='hit' cannot be sent; use keyhole"),
        ("learn", ("a",), {}, FeedbackError, "a decision right=True or right=False"),
        ("amend", ("a",), {"right": "no"}, FeedbackError, "right='no' is neither True nor False"),
        ("learn_key", ("s", "k"), {"right": "no"}, FeedbackError, "right='no' is neither True nor"),
        ("learn_batch", ([("a", {"right": "no"})],), {}, FeedbackError, "answer 0: right='no' is"),
        ("learn", (3, keyhole.HIT), {}, UnknownRoundError, "3 is no prediction of the service"),
        ("learn", ("", keyhole.HIT), {}, InvalidError, "'' is neither a name nor an id"),
        ("learn_batch", ([("a", keyhole.HIT), ("b", NAN)],), {}, LabelError, "answer 1: label nan"),
        (
            "learn_batch",
            ([("a", {"hit": True})],),
            {},
            FeedbackError,
            "answer 0: 'hit' is no part of an",
        ),
        (
            "learn_batch",
            ([("a", {"skip": True, "label": 1})],),
            {},
            FeedbackError,
            "answer 0: 'skip' is no part of an answer",
        ),
        ("create_stream", ("s",), {"alpha": NAN}, InvalidError, "alpha is nan"),
        ("create_stream", ("s",), {"alpha": 0.1, "labels": b""}, InvalidError, "labels is b''"),
        ("update_stream", ("s",), {"lifetime": INF}, InvalidError, "lifetime is inf"),
        ("stream", ("",), {}, InvalidError, "'' is neither a name nor an id"),
        ("stream", (3,), {}, InvalidError, "3 is neither a name nor an id"),
        ("stream", ("\ud800",), {}, InvalidError, "is no text that can be sent"),
    ],
)
def test_what_cannot_be_sent_is_named(
    kind: Any, verb: str, given: tuple[Any, ...], named: dict[str, Any], error: Any, said: str
) -> None:
    with pytest.raises(error, match=said) as raised:
        call(kind(URL), verb, *given, **named)
    assert type(raised.value) is error
    assert "; " in str(raised.value)  # the remedy


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://there", "http://", "http://a:b", None])
def test_a_url_that_is_none_is_refused_at_once(kind: Any, url: Any) -> None:
    with pytest.raises(InvalidError, match="is no URL of a service; give one such as"):
        kind(url)


@pytest.mark.parametrize("token", ["abc\n", " abc", "é"])
def test_a_token_that_no_header_carries_is_refused_and_not_shown(kind: Any, token: str) -> None:
    with pytest.raises(TokenError) as raised:
        kind(URL, token=token)
    assert token not in str(raised.value)


def test_a_closed_client_says_so(kind: Any, threads: ThreadPoolExecutor) -> None:
    client = kind(URL)
    if kind is AsyncClient:
        threads.submit(asyncio.run, client.close()).result(timeout=30.0)
    else:
        client.close()
    with pytest.raises(UnreachableError, match="the client is closed; make another one"):
        call(client, "streams")


def test_a_client_of_another_loop_says_so(threads: ThreadPoolExecutor) -> None:
    client = AsyncClient(URL, retries=0)
    with pytest.raises(UnreachableError, match="no answer"):
        threads.submit(asyncio.run, client.streams()).result(timeout=30.0)
    with pytest.raises(InvalidError, match="another event loop before; make one client"):
        threads.submit(asyncio.run, client.streams()).result(timeout=30.0)


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (httpx.Response(200, text="<html>Please log in</html>"), "answers, but not as Keyhole does"),
        (httpx.Response(200, json={"hello": "world"}), "answers, but not as Keyhole does"),
        (httpx.Response(200, json=[]), "answers, but not as Keyhole does"),
        (httpx.Response(307, headers={"Location": "https://there/"}), "has moved to 'https://there/'"),
    ],
)
def test_somebody_else_at_the_url_is_said_plainly(response: httpx.Response, said: str) -> None:
    client = Client("http://test")
    transport = httpx.MockTransport(lambda _request: response)
    client._http = httpx.Client(base_url="http://test", transport=transport)
    with client, pytest.raises(UnreachableError, match=said):
        client.predict("pets", [0.5])


def test_a_proposal_does_not_say_that_it_lacks_what_it_holds_in_another_type() -> None:
    proposal = Prediction("1-0-a", 0, 0.5, ("1", "2"), None, 2.0, "later")
    assert "1" in proposal
    assert "3" not in proposal
    with pytest.raises(LabelError, match="convert it to the labels' type"):
        _ = 1 in proposal


@pytest.mark.parametrize("accepted", [True, False])
def test_a_verdict_is_true_where_the_answer_is_accepted(*, accepted: bool) -> None:
    assert bool(Verdict("1-0-a", 0, accepted, 0.85, 0.9, None, "later")) is accepted

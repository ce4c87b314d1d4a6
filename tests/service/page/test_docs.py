"""/docs explains every field of every body, with an example that was really there."""

import json
from pathlib import Path
from typing import Any

import pytest

from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from tests.patience import SECONDS
from tests.service.page.examples import FILE
from tests.service.process import Service
from tests.service.scene import Clock, client_of

LEFT_OUT = {"Picture", "Simulated", "Simulation"}  # The demo's: nobody else calls them.


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The schemas of bodies, by name."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('docs') / 'keyhole.db'}")
    with client_of(database, Clock()) as http:
        found: dict[str, Any] = http.get("/openapi.json").json()["components"]["schemas"]
    database.close()
    kept = {name: one for name, one in found.items() if "properties" in one}
    return {name: one for name, one in kept.items() if name not in LEFT_OUT}


def test_every_field_is_explained(schemas: dict[str, Any]) -> None:
    silent = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, about in schema["properties"].items()
        if not about.get("description") and "$ref" not in about
    ]
    assert silent == []


def test_every_field_has_an_example(schemas: dict[str, Any]) -> None:
    examples = json.loads(Path(FILE).read_text())["fields"]
    without = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, about in schema["properties"].items()
        if field not in examples.get(name, {}) and "examples" not in about
    ]
    assert without == [], "run make examples, and ask for what is missing in examples.py"


def test_no_example_is_of_a_field_that_is_gone(schemas: dict[str, Any]) -> None:
    examples = json.loads(Path(FILE).read_text())["fields"]
    gone = [
        f"{name}.{field}"
        for name, fields in examples.items()
        if name not in LEFT_OUT
        for field in fields
        if field not in schemas.get(name, {"properties": {}})["properties"]
    ]
    assert gone == [], "run make examples"


def test_request_and_response_stand_side_by_side_and_no_field_is_broken(page: Any) -> None:
    page.goto("/docs")
    route = page.locator("section.route").filter(
        has=page.get_by_role("heading", name="POST /v1/streams/{name}/predictions", exact=True)
    )
    sent, received = (route.locator(".sides > div").nth(place).bounding_box() for place in (0, 1))
    assert sent["y"] == received["y"]
    assert sent["x"] + sent["width"] <= received["x"]
    route.get_by_text("Fields of the response").click()
    names = route.locator("details[open] .fields td:first-child code").all()
    assert {round(one.bounding_box()["height"]) for one in names} == {
        round(names[0].bounding_box()["height"])
    }
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_request_is_sent_with_the_token_that_was_given(browser: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    database = Database(url)
    token = tokens.create(database, "docs", scopes=["admin", "read"], now=0.0)
    database.close()
    with Service(url) as service:
        page = browser.new_page(base_url=service.url)
        page.set_default_timeout(1000 * SECONDS)
        page.goto("/docs")
        route = page.locator("section.route").filter(
            has=page.get_by_role("heading", name="GET /v1/streams", exact=True)
        )
        route.get_by_text("Send one").click()
        route.get_by_role("button", name="Send").click()
        route.get_by_role("status").get_by_text("401").wait_for()
        page.get_by_label("Token to send").fill(token)
        page.get_by_label("Token to send").blur()
        route.get_by_role("button", name="Send").click()
        route.get_by_role("status").get_by_text("200").wait_for()
        page.close()


def test_a_request_is_sent_from_the_page_and_its_answer_shown(page: Any) -> None:
    page.goto("/docs")
    route = page.locator("section.route").filter(
        has=page.get_by_role("heading", name="POST /v1/streams", exact=True)
    )
    route.get_by_text("Send one").click()
    route.get_by_label("body").fill('{"name": "from-docs", "alpha": 0.1}')
    route.get_by_role("button", name="Send").click()
    answer = route.get_by_role("status")
    answer.get_by_text("201").wait_for()
    assert '"name": "from-docs"' in answer.inner_text()
    other = page.locator("section.route").filter(
        has=page.get_by_role("heading", name="GET /v1/streams/{name}", exact=True)
    )
    other.get_by_text("Send one").click()
    other.get_by_label("name (path)").fill("from-docs")
    other.get_by_role("button", name="Send").click()
    other.get_by_role("status").get_by_text("200").wait_for()

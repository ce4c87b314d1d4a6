"""/openapi.json is as people and their tools expect it."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import keyhole
from keyhole.service.http.app import create_app
from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from keyhole.service.wire.problems import PROBLEMS, REFUSALS
from tests.patience import SECONDS
from tests.service.scene import NOW
from tests.service.serving import serving


@pytest.fixture
def described(one: TestClient) -> Any:
    return one.get("/openapi.json").json()


def list_operations(described: Any) -> list[tuple[str, Any]]:
    return [(path, about) for path, ways in described["paths"].items() for about in ways.values()]


def test_it_has_the_version_of_the_package_and_says_where_the_service_is(described: Any) -> None:
    assert described["info"]["version"] == keyhole.__version__
    assert [server["url"] for server in described["servers"]] == ["/"]


def test_every_route_has_a_short_name_of_its_own_and_a_tag_that_is_explained(described: Any) -> None:
    operations = list_operations(described)
    names = [about["operationId"] for _, about in operations]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 16
    explained = {tag["name"] for tag in described["tags"]}
    assert {tag for _, about in operations for tag in about["tags"]} == explained


def test_every_route_but_the_probes_says_which_scope_its_token_must_have(described: Any) -> None:
    scheme = described["components"]["securitySchemes"]["token"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for path, about in list_operations(described):
        if path in ("/healthz", "/readyz"):
            assert "security" not in about
        else:
            (needed,) = about["security"]
            assert set(needed["token"]) <= {scope.value for scope in tokens.Scope}


def test_every_error_has_the_one_form_and_a_code_that_is_listed(
    one: TestClient, described: Any
) -> None:
    for _, about in list_operations(described):
        for status, response in about["responses"].items():
            if status >= "400":
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}
    codes = described["components"]["schemas"]["Fault"]["properties"]["code"]["enum"]
    assert {kind.code for kind in (*PROBLEMS.values(), *REFUSALS.values())} <= set(codes)
    for response in (one.get("/nowhere"), one.delete("/v1/streams"), one.get("/v1/streams/nobody")):
        assert response.json()["error"]["code"] in codes


def test_a_generated_client_plays_a_round(
    light: Database, described: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openapi_python_client")
    (tmp_path / "openapi.json").write_text(json.dumps(described))
    command = ["-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # It formats with ruff.
    made = subprocess.run(  # noqa: S603
        [sys.executable, *command, "--output-path", "keyhole_generated", "--fail-on-warning"],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True,
        timeout=10 * SECONDS, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    monkeypatch.syspath_prepend(str(tmp_path))

    def find(name: str) -> Any:
        return importlib.import_module(f"keyhole_generated.{name}")

    models, token = find("models"), tokens.create(light, "all", scopes=["admin"], now=NOW)
    with (
        serving(create_app(light)) as address,
        find("client").AuthenticatedClient(base_url=address.url, token=token) as client,
    ):
        new = models.NewStream.from_dict({"name": "pets", "alpha": 0.1})
        find("api.streams.create_stream").sync(client=client, body=new)
        output = models.OutputBody.from_dict({"scores": {"cat": 0.7, "dog": 0.3}})
        shown = find("api.rounds.predict").sync("pets", client=client, body=output)
        answer = models.AnswerBody.from_dict({"label": "cat"})
        receipt = find("api.rounds.answer").sync(shown.id, client=client, body=answer)
        assert (receipt.stream, receipt.repeated) == ("pets", False)
        problem = find("api.reading.get_stream").sync("nobody", client=client)
        assert problem.error.code == "unknown_stream"

"""The files in deploy/ say what is true of the service: its metrics, its paths, its health."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from keyhole.cli import _parser
from keyhole.service.http.app import Settings, create_app
from keyhole.service.store.sql.database import Database
from tests.deploy.image import read_lines
from tests.patience import SECONDS
from tests.service.serving import Address, serving, wait_until

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
ADDED_BY_PROMETHEUS = {"instance", "job"}
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
BOARD = json.loads((DEPLOY / "grafana/dashboards/keyhole.json").read_text())
QUERIES = [
    *(rule["expr"] for rule in RULES),
    *(target["expr"] for panel in BOARD["panels"] for target in panel["targets"]),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A service that has heard one of everything, so that every metric has a sample."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('deploy') / 'keyhole.db'}")
    settings = Settings(backups=tmp_path_factory.mktemp("backups"))
    with serving(create_app(database, settings)) as address:
        with httpx.Client(base_url=address.url, timeout=SECONDS) as http:
            http.post("/v1/streams", json={"name": "mail", "alpha": 0.1})
            made = http.post("/v1/streams/mail/predictions", json={"scores": {"letter": 0.9}}).json()
            for told in ("hit", "miss"):  # The second is refused.
                http.post(f"/v1/predictions/{made['id']}/feedback", json={told: True})
            http.post("/v1/streams", json={"name": "claims", "kind": "gate", "alpha": 0.05})
        yield address
    database.close()


@pytest.fixture(scope="module")
def metrics(service: Address) -> dict[str, dict[str, set[str]]]:
    """Every metric by name, with its labels and the values they have."""
    found: dict[str, dict[str, set[str]]] = {"up": {"job": {"keyhole"}}}
    text = httpx.get(f"{service.url}/metrics", timeout=SECONDS).text
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name, {})  # Some have no sample while all is well.
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


def selectors(query: str) -> list[tuple[str, dict[str, str]]]:
    """Return the metrics a query asks for, each with what it demands of its labels."""
    bare = re.sub(
        r"\b(sum|count|by|on|rate|increase|and|or|vector|histogram_quantile|abs|time)\b", " ", query
    )
    bare = re.sub(r"\([\w, ]*\)(?=\s*[\(k])|\[\w+\]", " ", bare)  # by (...), [5m]
    found = re.findall(r"([a-z_]\w*)\s*(?:\{([^}]*)\})?", re.sub(r'"[^"]*"', _hide, bare))
    texts = re.findall(r'"([^"]*)"', bare)
    shown = []
    for name, demands in found:
        pairs = re.findall(r"(\w+)\s*([!=~]+)\s*", demands)
        shown.append(
            (name, {label: texts.pop(0) if sign == "=" else _drop(texts) for label, sign in pairs})
        )
    return shown


def _hide(_match: re.Match[str]) -> str:
    return '""'


def _drop(texts: list[str]) -> str:
    texts.pop(0)
    return ""


def test_selectors_are_found_in_a_query() -> None:
    query = 'sum by (le) (rate(a_total{state="too many",stream=~"x|y"}[5m])) > 0.5 * b'
    assert selectors(query) == [("a_total", {"state": "too many", "stream": ""}), ("b", {})]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_asks_for_metrics_labels_and_values_that_the_service_has(
    metrics: dict[str, dict[str, set[str]]], query: str
) -> None:
    asked = selectors(query)
    assert asked
    for name, demands in asked:
        assert name in metrics
        for label, value in demands.items():
            assert label in metrics[name]
            if value and label == "state":
                assert value in metrics[name][label]
    for grouping in re.findall(r"by \(([^)]*)\)", query):
        for label in re.split(r",\s*", grouping):
            assert any(label in {*metrics[name], *ADDED_BY_PROMETHEUS} for name, _ in asked)


@pytest.mark.parametrize("panel", BOARD["panels"], ids=lambda panel: panel["title"])
def test_a_legend_names_labels_that_its_query_keeps(
    metrics: dict[str, dict[str, set[str]]], panel: dict[str, Any]
) -> None:
    for target in panel["targets"]:
        kept = re.findall(r"by \(([^)]*)\)", target["expr"])
        labels = set(re.split(r",\s*", kept[0])) if kept else set()
        for name, _ in selectors(target["expr"]) if not kept else []:
            labels |= set(metrics[name])
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels


def test_the_stream_to_show_is_chosen_from_a_metric_that_is_there(
    metrics: dict[str, dict[str, set[str]]],
) -> None:
    (variable,) = BOARD["templating"]["list"]
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
    assert found is not None
    assert metrics[found[1]][found[2]] == {"mail", "claims"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_to_do_in_a_section_of_its_name(rule: dict[str, Any]) -> None:
    assert {"alert", "expr", "labels", "annotations"} <= set(rule)
    assert set(rule["annotations"]) == {"summary", "description"}
    assert f"### {rule['alert']}\n" in (ROOT / "docs/production.md").read_text()


def test_the_compose_file_mounts_what_is_there_and_keeps_every_port_on_loopback() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for one in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
        for volume in one.get("volumes", []):
            source = volume.partition(":")[0]
            assert (
                (DEPLOY / source).exists() if source.startswith("./") else source in compose["volumes"]
            )
    assert (DEPLOY / compose["services"]["keyhole"]["build"]["context"]).resolve() == ROOT
    assert (ROOT / compose["services"]["keyhole"]["build"]["dockerfile"]).is_file()


def test_prometheus_reads_the_rules_and_the_token_that_compose_gives_it() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert config["rule_files"] == ["alerts.yaml"]
    (scrape,) = config["scrape_configs"]
    assert scrape["job_name"] == "keyhole"
    secret = scrape["authorization"]["credentials_file"].removeprefix("/run/secrets/")
    assert secret in compose["services"]["prometheus"]["secrets"]


def test_the_container_runs_as_nobody_in_particular_on_a_volume() -> None:
    lines = read_lines()
    at = lines.index("USER keyhole")
    assert not [line for line in lines[at:] if line.startswith(("RUN", "USER root", "COPY", "ADD"))]
    assert "VOLUME /data" in lines
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            assert all((ROOT / name).exists() for name in line.split()[1:-1])


def health_command(port: int) -> list[str]:
    (line,) = (line for line in read_lines() if line.startswith("HEALTHCHECK"))
    command = json.loads(line.partition(" CMD ")[2])
    assert command[0] == "python"
    return [sys.executable, *(part.replace(":8000", f":{port}") for part in command[1:])]


def test_the_health_check_passes_where_the_service_lives_and_fails_where_none_does(
    service: Address,
) -> None:
    def check(port: int) -> int:
        command = health_command(port)
        return subprocess.run(command, timeout=SECONDS, check=False, capture_output=True).returncode  # noqa: S603

    wait_until(lambda: check(service.port) == 0)  # It waits four seconds, and Docker asks again.
    assert check(1) == 1


def test_every_container_is_limited_and_its_log_rotates_and_the_service_is_no_superuser() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for one in compose["services"].values():
        assert {"mem_limit", "cpus", "restart"} <= set(one)
        assert set(one["logging"]["options"]) == {"max-size", "max-file"}
    assert "POSTGRES_USER" not in compose["services"]["postgres"]["environment"]
    assert "NOSUPERUSER" in (DEPLOY / "postgres-role.sh").read_text()
    config = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())
    ((target,),) = [one["static_configs"][0]["targets"] for one in config["alerting"]["alertmanagers"]]
    assert target.partition(":")[0] in compose["services"]
    routed = yaml.safe_load((DEPLOY / "alertmanager.yaml").read_text())
    named = {one["name"] for one in routed["receivers"]}
    assert {
        routed["route"]["receiver"],
        *(one["receiver"] for one in routed["route"]["routes"]),
    } == named


def test_the_backup_runs_as_the_service_does_and_tells_when_it_fails() -> None:
    backup = (DEPLOY / "keyhole-backup.service").read_text()
    service = (DEPLOY / "keyhole.service").read_text().splitlines()
    for line in ("User=keyhole", "DynamicUser=yes", "StateDirectory=keyhole keyhole-backup"):
        assert line in backup.splitlines()
        assert line in service
    (failed,) = re.findall(r"^OnFailure=(.*)$", backup, re.MULTILINE)
    assert (DEPLOY / failed).is_file()


@pytest.mark.parametrize("unit", ["keyhole.service", "keyhole-backup.service"])
def test_a_unit_starts_commands_that_there_are(unit: str) -> None:
    found = re.findall(r"^ExecStart=\S+/keyhole (.*)$", (DEPLOY / unit).read_text(), re.MULTILINE)
    assert found
    for command in found:
        _parser().parse_args(command.split())


def test_the_unit_makes_no_new_database_in_the_place_of_a_lost_one() -> None:
    assert "RestartPreventExitStatus=3" in (DEPLOY / "keyhole.service").read_text().splitlines()


def test_the_unit_starts_the_service_again_after_whatever_else() -> None:
    unit = (DEPLOY / "keyhole.service").read_text().splitlines()
    assert {"Restart=always", "StartLimitIntervalSec=0"} <= {*unit}

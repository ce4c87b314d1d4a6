"""A service asks for a token from its first start on, unless it is told to be open."""

from pathlib import Path

import httpx
import pytest

import keyhole
from keyhole.cli import main
from keyhole.errors import TokenError
from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from tests.service.process import Service

HEADER = "Authorization"


def test_what_a_plain_proxy_passes_on_needs_a_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: a door that is open to whatever comes from loopback by the name of loopback."""
    url = f"sqlite:///{tmp_path / 'keyhole.db'}"
    with Service(url, guarded=True) as service, httpx.Client(base_url=service.url) as http:
        body = {"name": "pets", "alpha": 0.1}
        # As nginx does with nothing but proxy_pass: the address of the service, and no other header.
        stranger = http.post("/v1/streams", json=body, headers={"Host": service.url[7:]})
        assert (stranger.status_code, stranger.json()["error"]["code"]) == (401, "token")
        assert http.get("/v1/streams").status_code == 401
        assert http.get("/metrics").status_code == 401
        assert [http.get(path).status_code for path in ("/healthz", "/readyz", "/")] == [200] * 3
        assert main(["token", "show", "--database", url]) == 0
        token = capsys.readouterr().out.strip()
        assert f"  {token}\n" in service.greeting
        made = http.post("/v1/streams", json=body, headers={HEADER: f"Bearer {token}"})
        assert made.status_code == 201
        service.stop()
        service.start()
        assert not [line for line in service.greeting if "kh_" in line]
        assert http.get("/v1/streams", headers={HEADER: f"Bearer {token}"}).status_code == 200
    kept = tmp_path / "keyhole.db.token"
    assert kept.read_text() == f"{token}\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert token.split("_", 2)[2].encode() not in (tmp_path / "keyhole.db").read_bytes()


def test_an_open_service_says_so_and_makes_no_token(tmp_path: Path) -> None:
    with Service(f"sqlite:///{tmp_path / 'keyhole.db'}", "--demo") as service:
        assert "Open: whatever runs on this machine may read, answer and delete.\n" in service.greeting
        assert httpx.get(f"{service.url}/v1/streams").status_code == 200
    assert not (tmp_path / "keyhole.db.token").exists()


def test_two_services_make_one_first_token(light: Database) -> None:
    token = tokens.create_first(light, now=1.0)
    assert token is not None
    assert tokens.create_first(light, now=1.0) is None
    assert tokens.find_first(light, now=3.0) == token
    assert tokens.verify(light, token, now=3.0).allows(tokens.Scope.FEEDBACK)


def test_a_revoked_first_token_is_not_shown_and_the_next_start_makes_another(light: Database) -> None:
    token = tokens.create_first(light, now=1.0)
    assert token is not None
    tokens.revoke(light, token.split("_")[1], now=2.0)
    with pytest.raises(TokenError, match="revoked"):
        tokens.find_first(light, now=3.0)
    other = tokens.create_first(light, now=3.0)
    assert other is not None
    assert tokens.find_first(light, now=3.0) == other != token


def test_where_no_token_is_kept_the_command_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Database("sqlite:///keyhole.db").close()
    assert main(["token"]) == 2
    assert "there is no keyhole.db.token" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [
        "keyhole.db"
    ]  # whole: every command closes what it opened


def test_a_client_takes_the_token_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Service(f"sqlite:///{tmp_path / 'keyhole.db'}", guarded=True) as service:
        with keyhole.Client(service.url) as client, pytest.raises(TokenError):
            client.streams()
        monkeypatch.setenv("KEYHOLE_TOKEN", (tmp_path / "keyhole.db.token").read_text().strip())
        with keyhole.Client(service.url) as client:
            assert client.create_stream("pets", alpha=0.1).name == "pets"

"""Tokens: made once, shown once, good for what they say until they are revoked."""

import pytest

from keyhole.errors import TokenError
from keyhole.service.store import tokens
from keyhole.service.store.sql.database import Database
from keyhole.service.store.tokens import Scope

NOW = 1_800_000_000.0


def test_a_token_is_an_id_and_256_random_bits(light: Database) -> None:
    made = [tokens.create(light, "ci", scopes=["read"], now=NOW) for _ in range(3)]
    for token in made:
        prefix, id_, secret = token.split("_", 2)
        assert (prefix, len(id_), len(secret)) == ("kh", 8, 43)  # 43 letters of 6 bits
        assert tokens.verify(light, token, now=NOW).id == id_
    assert len(set(made)) == 3


def test_a_token_allows_its_scopes_and_admin_everything(light: Database) -> None:
    some = tokens.verify(
        light, tokens.create(light, "ci", scopes=["read", "predict"], now=NOW), now=NOW
    )
    assert [some.allows(scope) for scope in Scope] == [True, True, False, False]
    every = tokens.verify(light, tokens.create(light, "me", scopes=["admin"], now=NOW), now=NOW)
    assert all(every.allows(scope) for scope in Scope)


def test_a_revoked_token_is_refused_and_cannot_be_revoked_again(light: Database) -> None:
    first, second = (tokens.create(light, name, scopes=["read"], now=NOW) for name in ("a", "b"))
    assert tokens.in_use(light)
    id_ = first.split("_")[1]
    tokens.revoke(light, id_, now=NOW + 1.0)
    with pytest.raises(TokenError, match="unknown or revoked"):
        tokens.verify(light, first, now=NOW)
    with pytest.raises(TokenError, match=f"no token '{id_}' in use"):
        tokens.revoke(light, id_, now=NOW + 2.0)
    assert tokens.verify(light, second, now=NOW).name == "b"
    assert [(one.name, one.revoked) for one in tokens.every(light)] == [("a", NOW + 1.0), ("b", None)]
    tokens.revoke(light, second.split("_")[1], now=NOW)
    assert not tokens.in_use(light)


def test_every_part_of_a_token_counts(light: Database) -> None:
    token = tokens.create(light, "ci", scopes=["read"], now=NOW)
    other = tokens.create(light, "ci", scopes=["read"], now=NOW)
    prefix, id_, secret = token.split("_", 2)
    wrong = [f"xx_{id_}_{secret}", f"{prefix}_{other.split('_', 2)[1]}_{secret}", f"{prefix}_{id_}_"]
    for given in (*wrong, "", "kh", f"{token}x", token[:-1]):
        with pytest.raises(TokenError, match="unknown or revoked"):
            tokens.verify(light, given, now=NOW)


@pytest.mark.parametrize(
    ("name", "scopes"), [("", ["read"]), ("x" * 101, ["read"]), ("ci", []), ("ci", ["write"])]
)
def test_a_token_needs_a_name_and_a_scope_that_there_is(
    light: Database, name: str, scopes: list[str]
) -> None:
    with pytest.raises(TokenError):
        tokens.create(light, name, scopes=scopes, now=NOW)
    assert not tokens.in_use(light)


def test_a_name_of_a_hundred_letters_is_taken(light: Database) -> None:
    tokens.create(light, "x" * 100, scopes=["read"], now=NOW)
    assert len(tokens.every(light)) == 1


def test_a_token_is_good_until_the_moment_it_expires_and_made_only_before(light: Database) -> None:
    token = tokens.create(light, "ci", scopes=["read"], now=NOW, expires=NOW + 10.0)
    assert tokens.verify(light, token, now=NOW + 9.0).expires == NOW + 10.0
    with pytest.raises(TokenError, match="has expired"):
        tokens.verify(light, token, now=NOW + 10.0)
    for over in (NOW, NOW - 1.0):
        with pytest.raises(TokenError, match="would have expired already"):
            tokens.create(light, "ci", scopes=["read"], now=NOW, expires=over)


@pytest.mark.parametrize(
    ("streams", "fits"), [("", True), ("shop.", True), (".shop", False), ("a b", False)]
)
def test_a_token_is_for_streams_whose_names_can_begin_so(
    light: Database, streams: str, *, fits: bool
) -> None:
    if fits:
        token = tokens.create(light, "ci", scopes=["read"], now=NOW, streams=streams)
        assert tokens.verify(light, token, now=NOW).streams == streams
        return
    with pytest.raises(TokenError, match="no name of a stream begins with"):
        tokens.create(light, "ci", scopes=["read"], now=NOW, streams=streams)


def test_the_first_token_is_made_once_and_kept_for_its_owner_alone(light: Database) -> None:
    with pytest.raises(TokenError, match=r"there is no .*token"):
        tokens.find_first(light, now=NOW)
    token = tokens.create_first(light, now=NOW)
    assert token is not None
    assert light.token_file.read_text() == f"{token}\n"
    assert light.token_file.stat().st_mode & 0o777 == 0o600
    assert tokens.find_first(light, now=NOW) == token
    assert tokens.verify(light, token, now=NOW).scopes == {Scope.ADMIN}
    assert tokens.create_first(light, now=NOW) is None
    tokens.revoke(light, token.split("_")[1], now=NOW)
    with pytest.raises(TokenError, match="unknown or revoked"):
        tokens.find_first(light, now=NOW)
    other = tokens.create_first(light, now=NOW)
    assert other not in (None, token)
    assert tokens.find_first(light, now=NOW) == other

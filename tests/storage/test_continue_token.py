"""Continue tokens are encrypted, bound to their list, and shared by the servers of a store."""

import asyncio
import base64
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.storage.backends import open_store
from kapiserver.storage.errors import Corrupt
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.continue_token import (
    SECRET,
    SECRET_BYTES,
    BadToken,
    ContinueToken,
    ContinueTokenCodec,
    load_continue_token_codec,
)

PREFIX = "/registry/pods/"
TOKEN = ContinueToken(Revision(7), "/registry/pods/default/web\0")
TOKENS = ContinueTokenCodec(bytes(32))

keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).filter(
    lambda key: ".." not in key.split("/")
)


@settings(max_examples=50)
@given(keys, st.integers(-1, 2**63 - 1))
def test_round_trip(key: str, revision: int) -> None:
    """Decoding a token for its own prefix returns the original values."""
    token = ContinueToken(Revision(revision), PREFIX + key)
    assert TOKENS.decode(TOKENS.encode(token, PREFIX), PREFIX) == token


def test_does_not_show_names() -> None:
    """The text of a token contains no part of the key, and differs each time."""
    text = TOKENS.encode(TOKEN, PREFIX)
    assert b"default" not in base64.urlsafe_b64decode(text + "==")
    assert text != TOKENS.encode(TOKEN, PREFIX)


@settings(max_examples=200)
@given(st.data())
def test_any_flipped_bit_is_refused(data: st.DataObject) -> None:
    """A token with a changed, missing or added byte is a BadToken."""
    text = TOKENS.encode(TOKEN, PREFIX)
    sealed = bytearray(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))
    truncated, extended = sealed[:at], sealed + bytes((at % 256,))
    for altered in (sealed, truncated, extended):
        with pytest.raises(BadToken):
            TOKENS.decode(base64.urlsafe_b64encode(altered).rstrip(b"=").decode(), PREFIX)


def test_any_changed_character_is_refused() -> None:
    """A token with any changed character is a BadToken."""
    text = TOKENS.encode(TOKEN, PREFIX)
    for at in range(len(text)):
        for character in "ABCDwxyz0189-_":
            if character != text[at]:
                with pytest.raises(BadToken):
                    TOKENS.decode(text[:at] + character + text[at + 1 :], PREFIX)
    with pytest.raises(BadToken):
        TOKENS.decode(text + "=" * (-len(text) % 4 or 4), PREFIX)


@pytest.mark.parametrize(
    "prefix", ["/registry/pods/default/", "/registry/secrets/", "/registry/", ""]
)
def test_other_prefix(prefix: str) -> None:
    """A token is valid only for the prefix of its list."""
    with pytest.raises(BadToken):
        TOKENS.decode(TOKENS.encode(TOKEN, PREFIX), prefix)


@pytest.mark.parametrize(
    "start", ["/registry/secrets/x", "/registry/pods/../secrets/x", "/registry/pods/.."]
)
def test_a_key_outside_of_the_prefix_is_refused(start: str) -> None:
    """A valid token whose key is outside of the prefix is a BadToken."""
    with pytest.raises(BadToken):
        TOKENS.decode(TOKENS.encode(ContinueToken(Revision(7), start), PREFIX), PREFIX)


@pytest.mark.parametrize("text", ["", "x", "%%%", "é", "A" * 40, "A" * 100_000, "a b", "AAAA====A"])
def test_malformed_tokens(text: str) -> None:
    """Text that is not a token is a BadToken."""
    with pytest.raises(BadToken):
        TOKENS.decode(text, PREFIX)


def test_other_selectors() -> None:
    """A token is valid only for the selectors of its list."""
    text = TOKENS.encode(TOKEN, PREFIX, "a=b")
    assert TOKENS.decode(text, PREFIX, "a=b") == TOKEN
    for selectors in ("", "a=c", "a=b\0"):
        with pytest.raises(BadToken):
            TOKENS.decode(text, PREFIX, selectors)


def test_other_store() -> None:
    """A token is valid only for the store whose secret encrypted it."""
    with pytest.raises(BadToken):
        ContinueTokenCodec(os.urandom(32)).decode(TOKENS.encode(TOKEN, PREFIX), PREFIX)


def test_all_servers_of_a_store_share_the_secret() -> None:
    """Servers that start together on an empty store agree on one secret, and read each other's
    tokens."""

    async def scenario() -> None:
        store = await open_store("sqlite::memory:")
        first, *tokens = await asyncio.gather(
            *(load_continue_token_codec(store, os.urandom(SECRET_BYTES)) for _ in range(8))
        )
        tokens.append(await load_continue_token_codec(store, os.urandom(SECRET_BYTES)))
        assert all(token.decode(first.encode(TOKEN, PREFIX), PREFIX) == TOKEN for token in tokens)
        await store.close()

    asyncio.run(scenario())


def test_a_damaged_secret_is_corrupt() -> None:
    """A stored secret of the wrong length is Corrupt."""

    async def scenario() -> None:
        store = await open_store("sqlite::memory:")
        await store.create(SECRET, b"short")
        with pytest.raises(Corrupt):
            await load_continue_token_codec(store, os.urandom(SECRET_BYTES))
        await store.close()

    asyncio.run(scenario())

"""Continue tokens of paged lists, encrypted so that clients can neither read nor forge them.

Tokens are encrypted with AES-GCM. The key is stored in the store, so a token works on every server
and after a restart. The listed prefix and the selectors are authenticated as associated data: a
token is only valid for the list that returned it. Knows no object and no query. Mirrors the
continue tokens of k8s.io/apiserver's storage, which are plain text there.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import struct

from msgspec import Struct

from kapiserver.storage.errors import Corrupt, KeyExists
from kapiserver.storage.kv.contract import KV, Revision

SECRET = "/kapiserver/continue-token-secret"
"""The key in the store, below its root, under which the encryption key is saved."""

SECRET_BYTES = 32
_NONCE_BYTES = 12
_MAX_TOKEN_LENGTH = 8192
"""Longer tokens are rejected."""
_VERSION = 1
_NO_BASE64 = re.compile(r"[^A-Za-z0-9_-]")
_HEADER = struct.Struct(">Bq")


class BadToken(Exception):
    """A token that was not returned for this list by a server of this store."""


class ContinueToken(Struct, frozen=True):
    """The start key of the next page, and the revision of the list."""

    revision: Revision
    start: str


class ContinueTokenCodec:
    """Encrypts and decrypts continue tokens. Made by `load_continue_token_codec`."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def encode(self, token: ContinueToken, prefix: str, selectors: str = "") -> str:
        """Return the encrypted token of a list of `prefix`, in unpadded URL-safe base64.

        selectors   identifies the selectors of the list
        """
        # Imported here because most servers never page a list.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        content = _HEADER.pack(_VERSION, token.revision) + token.start.encode(
            errors="surrogateescape"
        )
        encrypted = nonce + AESGCM(self._secret).encrypt(
            nonce, content, _associated_data(prefix, selectors)
        )
        return _to_base64(encrypted)

    def decode(self, text: str, prefix: str, selectors: str = "") -> ContinueToken:
        """Return the token that a client sent for the same list. Raises BadToken."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if len(text) > _MAX_TOKEN_LENGTH:
            raise BadToken("continue key is not valid: too long")
        other = _NO_BASE64.search(text)
        if other is not None or len(text) % 4 == 1:
            at = other.start() if other is not None else len(text) - 1
            raise BadToken(f"continue key is not valid: illegal base64 data at input byte {at}")
        try:
            encrypted = base64.b64decode(
                text + "=" * (-len(text) % 4), altchars=b"-_", validate=True
            )
            if _to_base64(encrypted) != text:  # padding, or unused bits set
                raise BadToken("continue key is not valid")
            nonce, content = encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:]
            content = AESGCM(self._secret).decrypt(
                nonce, content, _associated_data(prefix, selectors)
            )
            version, revision = _HEADER.unpack_from(content)
            start = content[_HEADER.size :].decode(errors="surrogateescape")
        except (binascii.Error, InvalidTag, struct.error, ValueError) as error:
            raise BadToken("continue key is not valid") from error
        if version != _VERSION:
            raise BadToken(f"continue key is not valid: server does not recognize v{version}")
        # Authenticated, so a server of this store encrypted it; check the start key anyway.
        if not start.startswith(prefix) or ".." in start.split("/"):
            raise BadToken("continue key is not valid")
        return ContinueToken(Revision(revision), start)


def _to_base64(encrypted: bytes) -> str:
    return base64.urlsafe_b64encode(encrypted).rstrip(b"=").decode("ascii")


def _associated_data(prefix: str, selectors: str) -> bytes:
    # Neither prefixes nor selectors contain NUL.
    return f"{prefix}\0{selectors}".encode()


async def load_continue_token_codec(kv: KV, secret: bytes, *, root: str = "") -> ContinueTokenCodec:
    """Return the codec of a store, and save `secret` as its encryption key below `root` if it has
    none. Raises Refused if it cannot be saved, Unavailable, Corrupt."""
    key = root + SECRET
    item = (await kv.get(key)).item
    if item is None:
        try:
            await kv.create(key, secret)
        except KeyExists:  # another server created it first
            item = (await kv.get(key)).item
    value = secret if item is None else item.value
    if len(value) != SECRET_BYTES:
        raise Corrupt(f"{key} holds {len(value)} bytes, not {SECRET_BYTES}")
    return ContinueTokenCodec(value)

"""Continue tokens: where a list in pages goes on, sealed so that clients can neither read nor
forge one.

The seal is AES-GCM with a key that all servers of one store share: it lies in the store under a
key of its own, so a token works on every server and after a restart. The prefix that was listed and
the selectors are sealed in too: a token opens only for the list that made it. Knows no object and
no query; mirrors the continue tokens of k8s.io/apiserver's storage, which are plain text there.
"""

from __future__ import annotations

import base64
import binascii
import os
import struct
from dataclasses import dataclass

from kapiserver.storage.errors import Corrupt, KeyExists
from kapiserver.storage.kv import KV, Revision

SECRET = "/kapiserver/continue-token-secret"
"""Where the sealing key lies in the store, below its root."""

_KEY_BYTES = 32
_NONCE_BYTES = 12
_LONGEST = 8192
"""Characters of a token that is worth looking at."""
_VERSION = 1
_HEAD = struct.Struct(">Bq")


class BadToken(Exception):
    """A token that no server of this store made, or not for this list."""


@dataclass(frozen=True, slots=True)
class ContinueToken:
    """Where the next page begins: at the key `start`, of the state at `revision`."""

    revision: Revision
    start: str


class ContinueTokenCodec:
    """Seals and opens continue tokens. Made by `load_continue_token_codec`."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def encode(self, token: ContinueToken, prefix: str, selectors: str = "") -> str:
        """The text to give to a client that lists `prefix` through `selectors` (any text that tells
        them from others); unpadded URL-safe base64."""
        # Imported here: most servers start, and many stop, without a list in pages.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        content = _HEAD.pack(_VERSION, token.revision) + token.start.encode(
            errors="surrogateescape"
        )
        sealed = nonce + AESGCM(self._secret).encrypt(nonce, content, _place(prefix, selectors))
        return _text(sealed)

    def decode(self, text: str, prefix: str, selectors: str = "") -> ContinueToken:
        """Read a client's token for the same list. Raises BadToken."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if len(text) > _LONGEST:
            raise BadToken("continue key is not valid: too long")
        try:
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            if _text(sealed) != text:  # bits of the last character that mean nothing, or padding
                raise BadToken("continue key is not valid")
            nonce, content = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
            content = AESGCM(self._secret).decrypt(nonce, content, _place(prefix, selectors))
            version, revision = _HEAD.unpack_from(content)
            start = content[_HEAD.size :].decode(errors="surrogateescape")
        except (binascii.Error, InvalidTag, struct.error, ValueError) as error:
            raise BadToken("continue key is not valid") from error
        if version != _VERSION:
            raise BadToken(f"continue key is not valid: server does not recognize v{version}")
        # The seal says that a server of ours wrote this; the key is checked all the same.
        if not start.startswith(prefix) or ".." in start.split("/"):
            raise BadToken("continue key is not valid")
        return ContinueToken(Revision(revision), start)


def _text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode("ascii")


def _place(prefix: str, selectors: str) -> bytes:
    # No selector can be mistaken for a part of a prefix: NUL is in neither.
    return f"{prefix}\0{selectors}".encode()


async def load_continue_token_codec(kv: KV, *, root: str = "") -> ContinueTokenCodec:
    """The tokens of a store; makes the store's secret, below `root`, when it has none. Raises
    Unavailable, Corrupt."""
    key = root + SECRET
    found = (await kv.get(key)).item
    if found is None:
        secret = os.urandom(_KEY_BYTES)
        try:
            await kv.create(key, secret)
        except KeyExists:  # another server was faster: its secret is the store's
            found = (await kv.get(key)).item
    value = secret if found is None else found.value
    if len(value) != _KEY_BYTES:
        raise Corrupt(f"{key} holds {len(value)} bytes, not {_KEY_BYTES}")
    return ContinueTokenCodec(value)

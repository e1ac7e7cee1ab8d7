"""Stored values sealed and opened again: transformers, and which resource has which.

A sealed value begins with `k8s:enc:PROVIDER:v1:KEYNAME:`; what follows is the provider's. The
first provider of a list seals, all of them open; what another than the first has opened is stale,
so that the next update writes it anew. Knows no file, no store and no object; the libraries load
when a key is made. Mirrors apiserver/pkg/storage/value of k8s.io/apiserver, bytes and words.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

ENCRYPTED_PREFIX = b"k8s:enc:"
"""How every sealed value begins."""

_TOO_SHORT = "the stored data was shorter than the required size"
_BLOCK = 16


class DecryptionError(Exception):
    """A stored value that a transformer does not open; the message says why."""


class DecryptResult(NamedTuple):
    """A value in the clear; `stale`: it would be sealed differently today."""

    value: bytes
    stale: bool = False


class Transformer(Protocol):
    """Seals values and opens them; `key` is the value's key in the store."""

    def encrypt(self, value: bytes, key: str) -> bytes:
        """The bytes to store."""

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:
        """What was sealed. Raises CannotOpen."""


class Identity:
    """Stores values as they are, and refuses those that somebody sealed."""

    def encrypt(self, value: bytes, key: str) -> bytes:  # noqa: ARG002 - the protocol's
        return value

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:  # noqa: ARG002 - the protocol's
        if stored.startswith(ENCRYPTED_PREFIX):
            raise DecryptionError("identity transformer tried to read encrypted data")
        return DecryptResult(stored)


IDENTITY = Identity()


class AESGCM:
    """AES in Galois/Counter Mode: a random nonce, then what is sealed together with the key of
    the store, so that a value opens in its own place only."""

    _NONCE = 12

    def __init__(self, secret: bytes) -> None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers import aead

        self._cipher = aead.AESGCM(secret)
        self._wrong = InvalidTag

    def encrypt(self, value: bytes, key: str) -> bytes:
        nonce = os.urandom(self._NONCE)
        return nonce + self._cipher.encrypt(nonce, value, key.encode())

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:
        if len(stored) < self._NONCE:
            raise DecryptionError(_TOO_SHORT)
        nonce, content = stored[: self._NONCE], stored[self._NONCE :]
        try:
            return DecryptResult(self._cipher.decrypt(nonce, content, key.encode()))
        except (self._wrong, ValueError) as error:
            raise DecryptionError("cipher: message authentication failed") from error


class AESCBC:
    """AES in Cipher Block Chaining mode: a random initial vector, then whole blocks, padded as
    PKCS #7 says. Nothing tells whether a value was altered."""

    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        algorithm = algorithms.AES(secret)

        def cipher(vector: bytes) -> Cipher[modes.CBC]:
            return Cipher(algorithm, modes.CBC(vector))

        self._cipher = cipher

    def encrypt(self, value: bytes, key: str) -> bytes:  # noqa: ARG002 - the protocol's
        vector = os.urandom(_BLOCK)
        padding = _BLOCK - len(value) % _BLOCK
        encryptor = self._cipher(vector).encryptor()
        return vector + encryptor.update(value + bytes((padding,)) * padding)

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:  # noqa: ARG002 - the protocol's
        if len(stored) < _BLOCK:
            raise DecryptionError(_TOO_SHORT)
        if len(stored) % _BLOCK:
            raise DecryptionError("the stored data is not a multiple of the block size")
        padded = self._cipher(stored[:_BLOCK]).decryptor().update(stored[_BLOCK:])
        padding = padded[-1] if padded else 0
        if not 0 < padding <= len(padded):
            raise DecryptionError("invalid PKCS7 data (empty or not padded)")
        if padded[-padding:] != bytes((padding,)) * padding:
            raise DecryptionError("invalid padding on input")
        return DecryptResult(padded[:-padding])


class Secretbox:
    """XSalsa20 and Poly1305, as NaCl's secretbox: a random nonce, then the box."""

    _NONCE = 24
    _OVERHEAD = 16

    def __init__(self, secret: bytes) -> None:
        # The library of AES has no XSalsa20.
        from nacl.exceptions import CryptoError
        from nacl.secret import SecretBox

        self._box = SecretBox(secret)
        self._wrong = CryptoError

    def encrypt(self, value: bytes, key: str) -> bytes:  # noqa: ARG002 - the protocol's
        return bytes(self._box.encrypt(value, os.urandom(self._NONCE)))

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:  # noqa: ARG002 - the protocol's
        if len(stored) < self._NONCE + self._OVERHEAD:
            raise DecryptionError(_TOO_SHORT)
        try:
            return DecryptResult(self._box.decrypt(stored))
        except self._wrong as error:
            raise DecryptionError("output array was not large enough for encryption") from error


@dataclass(frozen=True, slots=True)
class PrefixTransformer:
    """A transformer whose values begin with a prefix."""

    prefix: bytes
    transformer: Transformer


class PrefixTransformers:
    """Transformers of which the first seals, and any opens what begins with its prefix."""

    def __init__(self, choices: Sequence[PrefixTransformer], *, none: str) -> None:
        """`none` says that a value has no prefix that is known."""
        self._choices = tuple(choices)
        self._none = none

    def encrypt(self, value: bytes, key: str) -> bytes:
        first = self._choices[0]
        return first.prefix + first.transformer.encrypt(value, key)

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:
        problems: list[str] = []
        for number, choice in enumerate(self._choices):
            if not stored.startswith(choice.prefix):
                continue
            try:
                found = choice.transformer.decrypt(stored[len(choice.prefix) :], key)
            except DecryptionError as error:
                # Another may open it: two providers, or two keys, can share a prefix.
                if choice.prefix:
                    problems.append(str(error))
                continue
            return DecryptResult(found.value, found.stale or number > 0)
        different = list(dict.fromkeys(problems))
        if not different:
            raise DecryptionError(self._none)
        raise DecryptionError(different[0] if len(different) == 1 else f"[{', '.join(different)}]")


class GroupResource(NamedTuple):
    """A resource of a group, as the file names it; `*` in either place: any."""

    group: str
    resource: str

    @classmethod
    def parse(cls, text: str) -> GroupResource:
        """`secrets`, `deployments.apps`, `*.apps`, `*.` (all of the core group), `*.*`."""
        resource, _, group = text.partition(".")
        return cls(group, resource)

    def __str__(self) -> str:
        if not self.group and self.resource != "*":
            return self.resource
        return f"{self.resource}.{self.group}"


ANY = GroupResource("*", "*")

TransformerOverrides = Mapping[GroupResource, Transformer]


class EncryptionRules:
    """The transformers of all resources; they can be replaced while the server runs."""

    def __init__(self, overrides: TransformerOverrides, *, replaceable: bool = False) -> None:
        self._overrides = overrides
        self._replaceable = replaceable

    def replace(self, overrides: TransformerOverrides) -> None:
        """Seal and open by other rules from now on."""
        self._overrides = overrides

    def transformer_for(self, group: str, resource: str) -> Transformer | None:
        """The transformer of a resource, for good; None: it needs none."""
        found = ResourceTransformer(self, group, resource)
        return found if self._replaceable or found.current is not IDENTITY else None

    def current_transformer(self, wanted: GroupResource) -> Transformer:
        """What seals a resource now: its own rule, that of its group, that of all, or nothing."""
        overrides = self._overrides
        return (
            overrides.get(wanted)
            or overrides.get(GroupResource(wanted.group, "*"))
            or overrides.get(ANY)
            or IDENTITY
        )


class ResourceTransformer:
    """What seals one resource, by the rules of the moment."""

    def __init__(self, encryption: EncryptionRules, group: str, resource: str) -> None:
        self._encryption = encryption
        self._resource = GroupResource(group, resource)

    @property
    def current(self) -> Transformer:
        """The transformer of the moment."""
        return self._encryption.current_transformer(self._resource)

    def encrypt(self, value: bytes, key: str) -> bytes:
        return self.current.encrypt(value, key)

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:
        return self.current.decrypt(stored, key)

"""Encryption of stored values: transformers, and which resources use which.

An encrypted value begins with `k8s:enc:PROVIDER:v1:KEYNAME:`, or `k8s:enc:kms:v2:PROVIDERNAME:` for
a KMS provider (`kms_provider.py`), followed by the provider's bytes. The
first provider of a list encrypts; every provider decrypts. A value that another provider than the
first decrypted is stale: the next update rewrites it. Knows no file, no store and no object.
Cryptography libraries are imported when a key is configured. Mirrors apiserver/pkg/storage/value of
k8s.io/apiserver, bytes and messages included.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from kapiserver.api.go_format import join_errors
from kapiserver.storage.encryption.metrics import NOT_GRPC, OK

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import aead

ENCRYPTED_PREFIX = b"k8s:enc:"
"""Every encrypted value begins with this."""

_TOO_SHORT = "the stored data was shorter than the required size"
_BLOCK = 16


class DecryptionError(Exception):
    """A transformer cannot decrypt a stored value; the message has the reason, and `status` is the
    gRPC code of a KMS plugin that does not decrypt the key."""

    def __init__(self, problem: str, status: str = NOT_GRPC) -> None:
        super().__init__(problem)
        self.status = status


class DecryptResult(NamedTuple):
    """A decrypted value; `stale` if it was not encrypted with the current key."""

    value: bytes
    stale: bool = False


class Transformer(Protocol):
    """Encrypts and decrypts values; `key` is the value's key in the store."""

    def encrypt(self, value: bytes, key: str) -> bytes:
        """Return the bytes to store."""

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:
        """Return the decrypted value. Raises DecryptionError."""

    def needs_keys(self, values: Sequence[bytes]) -> bool:
        """Return whether `load_keys` has to load keys of stored values."""

    async def load_keys(self, values: Sequence[bytes]) -> None:
        """Load the keys of stored values that a KMS plugin has to decrypt. `decrypt` reports those
        that cannot be loaded."""


class LocalTransformer:
    """The base class of transformers that have all their keys."""

    def needs_keys(self, values: Sequence[bytes]) -> bool:  # noqa: ARG002 - required by the protocol
        return False

    async def load_keys(self, values: Sequence[bytes]) -> None:
        pass


class Identity(LocalTransformer):
    """Stores values unencrypted, and rejects encrypted ones."""

    def encrypt(self, value: bytes, key: str) -> bytes:  # noqa: ARG002 - required by the protocol
        return value

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:  # noqa: ARG002 - required by the protocol
        if stored.startswith(ENCRYPTED_PREFIX):
            raise DecryptionError("identity transformer tried to read encrypted data")
        return DecryptResult(stored)


IDENTITY = Identity()


class AESGCM(LocalTransformer):
    """AES in Galois/Counter Mode: a random nonce and the ciphertext. The key in the store is
    authenticated, so that a value only decrypts under its own key."""

    _NONCE = 12

    def __init__(self, secret: bytes) -> None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers import aead

        self._make_cipher = aead.AESGCM
        self._cipher = aead.AESGCM(secret)
        self._error_class = InvalidTag

    def encrypt(self, value: bytes, key: str) -> bytes:
        return self._encrypt_with(self._cipher, value, key)

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:
        return DecryptResult(self._decrypt_with(self._cipher, stored, key))

    def _encrypt_with(self, cipher: aead.AESGCM, value: bytes, key: str) -> bytes:
        nonce = os.urandom(self._NONCE)
        return nonce + cipher.encrypt(nonce, value, key.encode())

    def _decrypt_with(self, cipher: aead.AESGCM, stored: bytes, key: str) -> bytes:
        if len(stored) < self._NONCE:
            raise DecryptionError(_TOO_SHORT)
        nonce, content = stored[: self._NONCE], stored[self._NONCE :]
        try:
            return cipher.decrypt(nonce, content, key.encode())
        except (self._error_class, ValueError) as error:
            raise DecryptionError("cipher: message authentication failed") from error


class ExtendedNonceAESGCM(AESGCM):
    """AES in Galois/Counter Mode with a key of its own for each value: 32 random bytes, from which
    HKDF derives the key (RFC 5869, the expand step with SHA-256), and what AESGCM makes with it.
    Values of a KMS provider are encrypted so. Mirrors aes_extended_nonce.go."""

    _INFO = _SEED = 32

    def __init__(self, seed: bytes) -> None:
        """Take a seed of at least 32 bytes. Raises ValueError for a shorter one."""
        if len(seed) < self._SEED:
            raise ValueError(f"invalid seed length {len(seed)} used for key generation")
        super().__init__(seed[: self._SEED])
        self._seed = seed

    def encrypt(self, value: bytes, key: str) -> bytes:
        info = os.urandom(self._INFO)
        return info + self._encrypt_with(self._derived(info), value, key)

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:
        if len(stored) < self._INFO:
            raise DecryptionError(_TOO_SHORT)
        cipher = self._derived(stored[: self._INFO])
        return DecryptResult(self._decrypt_with(cipher, stored[self._INFO :], key))

    def _derived(self, info: bytes) -> aead.AESGCM:
        # The first block of the expand step is as long as the key.
        return self._make_cipher(hmac.digest(self._seed, info + b"\x01", "sha256"))


class AESCBC(LocalTransformer):
    """AES in Cipher Block Chaining mode with PKCS #7 padding: a random initialization vector and
    the ciphertext. Values are not authenticated."""

    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        algorithm = algorithms.AES(secret)

        def cipher(vector: bytes) -> Cipher[modes.CBC]:
            return Cipher(algorithm, modes.CBC(vector))

        self._cipher = cipher

    def encrypt(self, value: bytes, key: str) -> bytes:  # noqa: ARG002 - required by the protocol
        vector = os.urandom(_BLOCK)
        padding = _BLOCK - len(value) % _BLOCK
        encryptor = self._cipher(vector).encryptor()
        return vector + encryptor.update(value + bytes((padding,)) * padding)

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:  # noqa: ARG002 - required by the protocol
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


class Secretbox(LocalTransformer):
    """XSalsa20 and Poly1305, as NaCl's secretbox: a random nonce and the ciphertext."""

    _NONCE = 24
    _OVERHEAD = 16

    def __init__(self, secret: bytes) -> None:
        # The cryptography package has no XSalsa20.
        from nacl.exceptions import CryptoError
        from nacl.secret import SecretBox

        self._box = SecretBox(secret)
        self._error_class = CryptoError

    def encrypt(self, value: bytes, key: str) -> bytes:  # noqa: ARG002 - required by the protocol
        return bytes(self._box.encrypt(value, os.urandom(self._NONCE)))

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:  # noqa: ARG002 - required by the protocol
        if len(stored) < self._NONCE + self._OVERHEAD:
            raise DecryptionError(_TOO_SHORT)
        try:
            return DecryptResult(self._box.decrypt(stored))
        except self._error_class as error:
            raise DecryptionError("output array was not large enough for encryption") from error


class PrefixTransformer(Struct, frozen=True):
    """A transformer and the prefix of its values."""

    prefix: bytes
    transformer: Transformer


Observe: TypeAlias = Callable[[str, str, str, float, str], None]
"""Counts one value: takes its key in the store, "to_storage" or "from_storage", the prefix, the
seconds that it took, and the status."""


def uncounted(_key: str, _type: str, _prefix: str, _seconds: float, _status: str) -> None:
    """Do not count a value."""


class PrefixTransformers:
    """Transformers by prefix: the first encrypts, and each decrypts values with its prefix."""

    def __init__(
        self,
        transformers: Sequence[PrefixTransformer],
        *,
        unknown_prefix: str,
        observe: Observe = uncounted,
    ) -> None:
        """Take the transformers, and the error message for values of an unknown prefix."""
        self._transformers = tuple(transformers)
        self._remote = [
            candidate
            for candidate in self._transformers
            if not isinstance(candidate.transformer, (LocalTransformer, PrefixTransformers))
        ]
        """Those whose keys may have to be loaded; keyed providers have theirs."""
        self._unknown_prefix = unknown_prefix
        self._observe = observe

    def encrypt(self, value: bytes, key: str) -> bytes:
        started, first, status = perf_counter(), self._transformers[0], NOT_GRPC
        try:
            stored = first.transformer.encrypt(value, key)
            status = OK
        finally:
            seconds = perf_counter() - started
            self._observe(key, "to_storage", first.prefix.decode(), seconds, status)
        return first.prefix + stored

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:
        started, errors = perf_counter(), list[DecryptionError]()
        for number, candidate in enumerate(self._transformers):
            if not stored.startswith(candidate.prefix):
                continue
            prefix = candidate.prefix.decode() or "identity"
            try:
                result = candidate.transformer.decrypt(stored[len(candidate.prefix) :], key)
            except DecryptionError as error:
                # Two providers or keys may have the same prefix: try the next.
                if candidate.prefix:
                    errors.append(error)
                    self._observe_read(key, prefix, started, error.status)
                continue
            self._observe_read(key, prefix, started, OK)
            return DecryptResult(result.value, result.stale or number > 0)
        if errors:
            raise DecryptionError(join_errors(map(str, errors)), errors[0].status)
        self._observe_read(key, "unknown", started, NOT_GRPC)
        raise DecryptionError(self._unknown_prefix)

    def _observe_read(self, key: str, prefix: str, started: float, status: str) -> None:
        self._observe(key, "from_storage", prefix, perf_counter() - started, status)

    def needs_keys(self, values: Sequence[bytes]) -> bool:
        return any(
            candidate.transformer.needs_keys(_contents(values, candidate.prefix))
            for candidate in self._remote
        )

    async def load_keys(self, values: Sequence[bytes]) -> None:
        for candidate in self._remote:
            await candidate.transformer.load_keys(_contents(values, candidate.prefix))


def _contents(values: Sequence[bytes], prefix: bytes) -> Sequence[bytes]:
    """Return what follows the prefix in the values that have it."""
    return [value[len(prefix) :] for value in values if value.startswith(prefix)]


class GroupResource(NamedTuple):
    """A group and resource of the configuration file; either may be the wildcard `*`."""

    group: str
    resource: str

    @classmethod
    def parse(cls, text: str) -> GroupResource:
        """Parse `secrets`, `deployments.apps`, `*.apps`, `*.` (the core group) or `*.*`."""
        resource, _, group = text.partition(".")
        return cls(group, resource)

    def __str__(self) -> str:
        if not self.group and self.resource != "*":
            return self.resource
        return f"{self.resource}.{self.group}"


ANY = GroupResource("*", "*")

TransformerOverrides = Mapping[GroupResource, Transformer]


class EncryptionRules:
    """The transformers of all resources. `replace` exchanges them while the server runs."""

    def __init__(self, overrides: TransformerOverrides, *, replaceable: bool = False) -> None:
        self._overrides = overrides
        self._replaceable = replaceable

    def replace(self, overrides: TransformerOverrides) -> None:
        """Use other transformers from now on."""
        self._overrides = overrides

    @property
    def covered_resources(self) -> Collection[GroupResource]:
        """The resources that have rules; a name may be `*`."""
        return self._overrides.keys()

    def transformer_for(self, group: str, resource: str) -> Transformer | None:
        """Return the transformer of a resource, or None if it needs none, even after `replace`."""
        transformer = ResourceTransformer(self, group, resource)
        return transformer if self._replaceable or transformer.current is not IDENTITY else None

    def current_transformer(self, resource: GroupResource) -> Transformer:
        """Return the transformer of the resource, its group or all resources, else identity."""
        overrides = self._overrides
        return (
            overrides.get(resource)
            or overrides.get(GroupResource(resource.group, "*"))
            or overrides.get(ANY)
            or IDENTITY
        )


class ResourceTransformer:
    """Transforms the values of one resource by the current rules."""

    def __init__(self, encryption: EncryptionRules, group: str, resource: str) -> None:
        self._encryption = encryption
        self._resource = GroupResource(group, resource)

    @property
    def current(self) -> Transformer:
        """The current transformer."""
        return self._encryption.current_transformer(self._resource)

    def encrypt(self, value: bytes, key: str) -> bytes:
        return self.current.encrypt(value, key)

    def decrypt(self, stored: bytes, key: str) -> DecryptResult:
        return self.current.decrypt(stored, key)

    def needs_keys(self, values: Sequence[bytes]) -> bool:
        return self.current.needs_keys(values)

    async def load_keys(self, values: Sequence[bytes]) -> None:
        await self.current.load_keys(values)

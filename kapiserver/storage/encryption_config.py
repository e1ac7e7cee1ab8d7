"""The file that says what is sealed with which keys: kube-apiserver's EncryptionConfiguration.

Read strictly, checked as a whole, made into transformers; read again while the server runs, if
that is asked for. Secrets are in no message. Knows no store. Mirrors
apiserver/pkg/server/options/encryptionconfig and apis/apiserver/validation of k8s.io/apiserver.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

from kapiserver.api.errors import FieldError, NotRegistered, Path, invalid, required
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Kind, Tree, Type, field, int32
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.yaml import YAMLSerializer
from kapiserver.storage.clock import Clock, Timer
from kapiserver.storage.encryption import (
    AESCBC,
    AESGCM,
    ANY,
    IDENTITY,
    EncryptionRules,
    GroupResource,
    PrefixTransformer,
    PrefixTransformers,
    Secretbox,
    Transformer,
    TransformerOverrides,
)

RELOAD_SECONDS = 60.0
"""How often the file is looked at, as with kube-apiserver."""
LARGEST = 1 << 20
"""Bytes of a file that is read."""

_log = logging.getLogger(__name__)


class InvalidEncryptionConfig(ValueError):
    """A file that says nothing usable."""


class EncryptionKey(Type):
    """A key by name."""

    name: str = field(1, always=True)
    secret: str = field(2, always=True)


class KeyedProvider(Type):
    """A provider with keys, of which the first seals."""

    keys: list[EncryptionKey] = field(1, always=True)


class IdentityProvider(Type):
    """Nothing is sealed."""


class KMSProvider(Type):
    """A key service outside."""

    apiVersion: str = field(1)
    name: str = field(2, always=True)
    cachesize: int32 | None = field(3)
    endpoint: str = field(4, always=True)
    timeout: str = field(5)


class Provider(Type):
    """Exactly one of these."""

    aesgcm: KeyedProvider | None = field(1)
    aescbc: KeyedProvider | None = field(2)
    secretbox: KeyedProvider | None = field(3)
    identity: IdentityProvider | None = field(4)
    kms: KMSProvider | None = field(5)


class ResourceConfiguration(Type):
    """Resources, and the providers that seal or open them."""

    resources: list[str] = field(1, always=True)
    providers: list[Provider] = field(2, always=True)


class EncryptionConfiguration(Kind):
    """The whole file."""

    resources: list[ResourceConfiguration] = field(1, always=True)


_KIND = GroupVersion("apiserver.config.k8s.io", "v1").with_kind("EncryptionConfiguration")


class _ConfigScheme(Scheme):
    """Knows the one kind of the file."""

    def type_of(self, kind: GroupVersionKind) -> type[Kind]:
        if kind != _KIND:
            raise NotRegistered.of_kind(kind)
        return EncryptionConfiguration


@dataclass(frozen=True, slots=True)
class _Cipher:
    """A provider with keys: what values begin with, and the lengths that its keys may have."""

    prefix: bytes
    make: Callable[[bytes], Transformer]
    sizes: tuple[int, ...]
    unknown_key: str


_AES = (16, 24, 32)
_NO_KEY = "no matching key was found for the provided {} transformer"
_CIPHERS = {
    "aesgcm": _Cipher(b"k8s:enc:aesgcm:v1:", AESGCM, _AES, _NO_KEY.format("AES")),
    "aescbc": _Cipher(b"k8s:enc:aescbc:v1:", AESCBC, _AES, _NO_KEY.format("AES")),
    "secretbox": _Cipher(b"k8s:enc:secretbox:v1:", Secretbox, (32,), _NO_KEY.format("Secretbox")),
}

_NO_KMS = "KMS providers are not supported here, use aesgcm, aescbc, secretbox or identity"
_NO_PROVIDER = (
    "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, "
    "Identity"
)
_SEVERAL = (
    "more than one provider specified in a single element, should split into different list "
    "elements"
)
_OVERLAP = (
    "using overlapping resources such as 'secrets' and '*.' in the same resource list is not "
    "allowed as they will be masked"
)
_TWICE = "the same resource cannot be specified multiple times"
_NO_API = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")


# Reading.


def _content(file: FilePath) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise InvalidEncryptionConfig(
            f'error reading encryption provider configuration file "{file}": {error}'
        ) from error
    if not data:
        raise InvalidEncryptionConfig(f'encryption provider configuration file "{file}" is empty')
    if len(data) > LARGEST:
        raise InvalidEncryptionConfig(
            f'encryption provider configuration file "{file}" is too large'
        )
    return data


def parse_encryption_config(data: bytes, name: str) -> TransformerOverrides:
    """The transformers of a file of that name and content. Raises BadEncryptionConfig."""
    try:
        decoded = YAMLSerializer(_ConfigScheme()).decode(data)
    except CodecError as error:
        raise _undecodable(name, str(error)) from error
    if decoded.strict_errors:
        listed = ", ".join(decoded.strict_errors)
        raise _undecodable(name, f"strict decoding error: {listed}")
    problems = list(dict.fromkeys(str(error) for error in check(decoded.object)))
    if problems:
        raise InvalidEncryptionConfig(
            problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        )
    return _overrides(decoded.object)


def _undecodable(name: str, problem: str) -> InvalidEncryptionConfig:
    return InvalidEncryptionConfig(
        f'error decoding encryption provider configuration file "{name}": {problem}'
    )


def _overrides(config: Tree) -> TransformerOverrides:
    choices: dict[GroupResource, list[PrefixTransformer]] = {}
    for rule in config["resources"]:
        providers = [_prefixed(provider) for provider in rule["providers"]]
        for text in rule["resources"]:
            named = GroupResource.parse(text)
            for wider in (GroupResource(named.group, "*"), ANY):
                if wider in choices:
                    raise InvalidEncryptionConfig(
                        f'resource "{named}" is masked by earlier rule "{wider}"'
                    )
            choices[named] = choices.get(named, []) + providers
    return {
        named: PrefixTransformers(prefixed, none="no matching prefix found")
        for named, prefixed in choices.items()
    }


def _prefixed(provider: Tree) -> PrefixTransformer:
    for name, cipher in _CIPHERS.items():
        if provider.get(name) is not None:
            keys = [
                PrefixTransformer(
                    f"{key['name']}:".encode(), cipher.make(base64.b64decode(key["secret"]))
                )
                for key in provider[name]["keys"]
            ]
            return PrefixTransformer(
                cipher.prefix, PrefixTransformers(keys, none=cipher.unknown_key)
            )
    return PrefixTransformer(b"", IDENTITY)


# Checking.


def check(config: Tree) -> Iterable[FieldError]:
    """What is wrong with a configuration as a whole."""
    root = Path("resources")
    rules = config["resources"] or ()
    if not rules:
        yield required(root, f"at least one {root} is required")
    for number, rule in enumerate(rules):
        resources, providers = root[number] / "resources", root[number] / "providers"
        names = rule["resources"] or ()
        if not names:
            yield required(resources, f"at least one {resources} is required")
        yield from _check_overlap(names, resources)
        for index, name in enumerate(names):
            problem = _problem_of(name)
            if problem:
                yield invalid(resources[index], name, problem)
        if not rule["providers"]:
            yield required(providers, f"at least one {providers} is required")
        for index, provider in enumerate(rule["providers"] or ()):
            yield from _check_provider(provider, providers[index])


def _check_overlap(names: Sequence[str], path: Path) -> Iterable[FieldError]:
    parsed = [GroupResource.parse(name) for name in names]
    if len(set(parsed)) < len(parsed):
        yield invalid(path, list(names), _TWICE)
    different = set(parsed)
    widest = ANY in different and len(different) > 1
    if widest or any(
        one.group == other.group and "*" in (one.resource, other.resource)
        for one in different
        for other in different - {one}
    ):
        yield invalid(path, list(names), _OVERLAP)


def _problem_of(name: str) -> str:
    """What is wrong with the name of a resource; "": nothing."""
    parsed = GroupResource.parse(name)
    if name.lower() != name:
        return "resource name should not contain capital letters"
    if name == "*":
        return (
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all "
            "resources"
        )
    if name in _NO_API:
        return "resources which do not have REST API/s cannot be encrypted"
    if parsed.group == "events.k8s.io":
        return (
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use "
            "'events' instead in the config file"
        )
    if parsed.group == "extensions":
        return "'extensions' group has been removed and cannot be used for encryption"
    if parsed.group == "*" and parsed.resource != "*":
        return "encrypting the same resource across groups is not supported"
    return ""


def _check_provider(provider: Tree, path: Path) -> Iterable[FieldError]:
    given = [name for name in provider if provider[name] is not None]
    if len(given) != 1:
        yield invalid(path, given, _SEVERAL if given else _NO_PROVIDER)
        return
    (name,) = given
    if name == "kms":
        yield invalid(path / name, provider[name].get("name", ""), _NO_KMS)
    elif name in _CIPHERS:
        yield from _check_keys(provider[name]["keys"] or (), path / name / "keys", name)


def _check_keys(keys: Sequence[Tree], path: Path, provider: str) -> Iterable[FieldError]:
    if not keys:
        yield required(path, "at least one keys is required")
    for index, key in enumerate(keys):
        for part in ("name", "secret"):
            if not key[part]:
                yield required(path[index] / part, f"{part} is a mandatory field for a key")
        if key["secret"]:
            problem = _problem_of_secret(key["secret"], _CIPHERS[provider].sizes)
            if problem:
                yield invalid(path[index] / "secret", "REDACTED", problem)


def _problem_of_secret(text: str, sizes: tuple[int, ...]) -> str:
    try:
        # Go's decoder skips line ends.
        size = len(base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True))
    except (binascii.Error, ValueError):
        return "secrets must be base64 encoded"
    if size in sizes:
        return ""
    shown = " ".join(map(str, sizes))
    return f"secret is not of the expected length, got {size}, expected one of [{shown}]"


# The file, as long as a server runs.


class EncryptionFile:
    """What one file seals: read when this is made and, with `reload`, looked at every minute from
    `start` to `stop`; a file that is no good by then changes nothing."""

    def __init__(self, path: FilePath, clock: Clock, *, reload: bool = False) -> None:
        """Raises BadEncryptionConfig."""
        self._path = path
        self._clock = clock
        self._reload = reload
        self._timer: Timer | None = None
        data = _content(path)
        self.encryption = EncryptionRules(
            parse_encryption_config(data, str(path)), replaceable=reload
        )
        self._seen = _digest(data)

    def start(self) -> None:
        """Begin to look; call on the event loop."""
        if self._reload:
            self._timer = self._clock.call_later(RELOAD_SECONDS, self._look)

    def stop(self) -> None:
        """End. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        try:
            data = _content(self._path)
            if _digest(data) != self._seen:
                self.encryption.replace(parse_encryption_config(data, str(self._path)))
                self._seen = _digest(data)
                _log.info("%s was read again: what it says now holds", self._path)
        except InvalidEncryptionConfig as error:
            _log.error("error processing encryption config file %s: %s", self._path, error)
        self.start()


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()

"""The encryption configuration file: kube-apiserver's EncryptionConfiguration.

The file is decoded strictly, validated as a whole and converted to transformers; with automatic
reload it is read again while the server runs. No error message contains a secret. Knows no store.
Mirrors apiserver/pkg/server/options/encryptionconfig and apis/apiserver/validation of
k8s.io/apiserver.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path as FilePath

from msgspec import Struct

from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.go_format import join_errors
from kapiserver.api.group import GroupVersion
from kapiserver.api.scheme import ConfigurationScheme
from kapiserver.api.types import Kind, Tree, Type, field, int32
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.yaml import YAMLSerializer
from kapiserver.metrics import Reloads, content_hash
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.encryption.transformers import (
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

MAX_FILE_BYTES = 1 << 20
"""Size limit of the file in bytes."""

_log = logging.getLogger(__name__)


class InvalidEncryptionConfig(ValueError):
    """The file cannot be read, or its configuration is invalid."""


class EncryptionKey(Type):
    """A named key."""

    name: str = field(1, always=True)
    secret: str = field(2, always=True)


class KeyedProvider(Type):
    """A provider with keys; the first one encrypts."""

    keys: list[EncryptionKey] = field(1, always=True)


class IdentityProvider(Type):
    """Stores values unencrypted."""


class KMSProvider(Type):
    """An external key management service, which is not supported."""

    apiVersion: str = field(1)
    name: str = field(2, always=True)
    cachesize: int32 | None = field(3)
    endpoint: str = field(4, always=True)
    timeout: str = field(5)


class Provider(Type):
    """A provider: exactly one field is set."""

    aesgcm: KeyedProvider | None = field(1)
    aescbc: KeyedProvider | None = field(2)
    secretbox: KeyedProvider | None = field(3)
    identity: IdentityProvider | None = field(4)
    kms: KMSProvider | None = field(5)


class ResourceConfiguration(Type):
    """Resources, and the providers that encrypt and decrypt them."""

    resources: list[str] = field(1, always=True)
    providers: list[Provider] = field(2, always=True)


class EncryptionConfiguration(Kind):
    """The configuration in the file."""

    resources: list[ResourceConfiguration] = field(1, always=True)


_KINDS = {
    GroupVersion("apiserver.config.k8s.io", "v1").with_kind(
        "EncryptionConfiguration"
    ): EncryptionConfiguration
}


class _Cipher(Struct, frozen=True):
    """A keyed provider: the prefix of its values, and the allowed lengths of its keys."""

    prefix: bytes
    make: Callable[[bytes], Transformer]
    sizes: tuple[int, ...]
    unknown_key: str


_AES = (16, 24, 32)
_NO_MATCHING_KEY = "no matching key was found for the provided {} transformer"
_CIPHERS = {
    "aesgcm": _Cipher(b"k8s:enc:aesgcm:v1:", AESGCM, _AES, _NO_MATCHING_KEY.format("AES")),
    "aescbc": _Cipher(b"k8s:enc:aescbc:v1:", AESCBC, _AES, _NO_MATCHING_KEY.format("AES")),
    "secretbox": _Cipher(
        b"k8s:enc:secretbox:v1:", Secretbox, (32,), _NO_MATCHING_KEY.format("Secretbox")
    ),
}

_KMS_UNSUPPORTED = "KMS providers are not supported here, use aesgcm, aescbc, secretbox or identity"
_NO_PROVIDER = (
    "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, "
    "Identity"
)
_SEVERAL_PROVIDERS = (
    "more than one provider specified in a single element, should split into different list "
    "elements"
)
_OVERLAP = (
    "using overlapping resources such as 'secrets' and '*.' in the same resource list is not "
    "allowed as they will be masked"
)
_DUPLICATE_RESOURCE = "the same resource cannot be specified multiple times"
_RESOURCES_WITHOUT_API = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")


# Reading.


def _read_file(file: FilePath) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidEncryptionConfig(
            f'error reading encryption provider configuration file "{file}": {error}'
        ) from error
    if not data:
        raise InvalidEncryptionConfig(f'encryption provider configuration file "{file}" is empty')
    if len(data) > MAX_FILE_BYTES:
        raise InvalidEncryptionConfig(
            f'encryption provider configuration file "{file}" is too large'
        )
    return data


def parse_encryption_config(data: bytes, name: str) -> TransformerOverrides:
    """Return the transformers of a file's content. Raises InvalidEncryptionConfig."""
    try:
        decoded = YAMLSerializer(ConfigurationScheme(_KINDS)).decode(data)
    except CodecError as error:
        raise _undecodable(name, str(error)) from error
    if decoded.strict_errors:
        listed = ", ".join(decoded.strict_errors)
        raise _undecodable(name, f"strict decoding error: {listed}")
    errors = list(dict.fromkeys(str(error) for error in check(decoded.object)))
    if errors:
        raise InvalidEncryptionConfig(join_errors(errors))
    return _overrides(decoded.object)


def _undecodable(name: str, problem: str) -> InvalidEncryptionConfig:
    return InvalidEncryptionConfig(
        f'error decoding encryption provider configuration file "{name}": {problem}'
    )


def _overrides(config: Tree) -> TransformerOverrides:
    choices: dict[GroupResource, list[PrefixTransformer]] = {}
    for rule in config["resources"]:
        providers = [_prefix_transformer(provider) for provider in rule["providers"]]
        for text in rule["resources"]:
            group_resource = GroupResource.parse(text)
            for wildcard in (GroupResource(group_resource.group, "*"), ANY):
                if wildcard in choices:
                    raise InvalidEncryptionConfig(
                        f'resource "{group_resource}" is masked by earlier rule "{wildcard}"'
                    )
            choices[group_resource] = choices.get(group_resource, []) + providers
    return {
        group_resource: PrefixTransformers(transformers, unknown_prefix="no matching prefix found")
        for group_resource, transformers in choices.items()
    }


def _prefix_transformer(provider: Tree) -> PrefixTransformer:
    for name, cipher in _CIPHERS.items():
        if provider.get(name) is not None:
            keys = [
                PrefixTransformer(
                    f"{key['name']}:".encode(), cipher.make(base64.b64decode(key["secret"]))
                )
                for key in provider[name]["keys"]
            ]
            return PrefixTransformer(
                cipher.prefix, PrefixTransformers(keys, unknown_prefix=cipher.unknown_key)
            )
    return PrefixTransformer(b"", IDENTITY)


# Checking.


def check(config: Tree) -> Iterable[FieldError]:
    """Yield the validation errors of a configuration."""
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
            problem = _resource_name_error(name)
            if problem:
                yield invalid(resources[index], name, problem)
        if not rule["providers"]:
            yield required(providers, f"at least one {providers} is required")
        for index, provider in enumerate(rule["providers"] or ()):
            yield from _check_provider(provider, providers[index])


def _check_overlap(names: Sequence[str], path: Path) -> Iterable[FieldError]:
    parsed = [GroupResource.parse(name) for name in names]
    if len(set(parsed)) < len(parsed):
        yield invalid(path, list(names), _DUPLICATE_RESOURCE)
    distinct = set(parsed)
    has_wildcard = ANY in distinct and len(distinct) > 1
    if has_wildcard or any(
        pattern.group == other_pattern.group and "*" in (pattern.resource, other_pattern.resource)
        for pattern in distinct
        for other_pattern in distinct - {pattern}
    ):
        yield invalid(path, list(names), _OVERLAP)


def _resource_name_error(name: str) -> str:
    """Return the error of a resource name, "" if it is valid."""
    parsed = GroupResource.parse(name)
    if name.lower() != name:
        return "resource name should not contain capital letters"
    if name == "*":
        return (
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all "
            "resources"
        )
    if name in _RESOURCES_WITHOUT_API:
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
    names = [name for name in provider if provider[name] is not None]
    if len(names) != 1:
        yield invalid(path, names, _SEVERAL_PROVIDERS if names else _NO_PROVIDER)
        return
    (name,) = names
    if name == "kms":
        yield invalid(path / name, provider[name].get("name", ""), _KMS_UNSUPPORTED)
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
            problem = _secret_error(key["secret"], _CIPHERS[provider].sizes)
            if problem:
                yield invalid(path[index] / "secret", "REDACTED", problem)


def _secret_error(text: str, sizes: tuple[int, ...]) -> str:
    try:
        # Go's decoder ignores line breaks.
        size = len(base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True))
    except (binascii.Error, ValueError):
        return "secrets must be base64 encoded"
    if size in sizes:
        return ""
    allowed = " ".join(map(str, sizes))
    return f"secret is not of the expected length, got {size}, expected one of [{allowed}]"


# The file of a running server.


class EncryptionFile:
    """A configuration file: read by the constructor and, with `is_reloaded`, by `reload`.

    files       the files that `reload` reads
    encryption  the rules in force
    """

    def __init__(
        self,
        path: FilePath,
        clock: Clock,
        *,
        is_reloaded: bool = False,
        reloads: Reloads | None = None,
    ) -> None:
        """Read the file. Raises InvalidEncryptionConfig."""
        self._path = path
        self.files = [path] if is_reloaded else []
        self._clock = clock
        self._reloads = reloads or Reloads()
        self._data_read = _read_file(path)
        self.encryption = EncryptionRules(
            parse_encryption_config(self._data_read, str(path)), replaceable=is_reloaded
        )
        if is_reloaded:
            self._reloads.hash = content_hash(self._data_read)

    def reload(self) -> None:
        """Read the file and apply changes. An invalid one is logged and changes nothing."""
        if not self.files:
            return
        try:
            data = _read_file(self._path)
            if data == self._data_read:
                return
            self.encryption.replace(parse_encryption_config(data, str(self._path)))
        except InvalidEncryptionConfig as error:
            _log.error("error processing encryption config file %s: %s", self._path, error)
            self._reloads.fail(self._clock.now())
            return
        self._data_read = data
        _log.info("reloaded %s", self._path)
        self._reloads.succeed(self._clock.now(), content_hash(data))

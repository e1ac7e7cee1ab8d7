"""The encryption configuration: kube-apiserver's EncryptionConfiguration.

It is decoded strictly, validated as a whole and converted to transformers. No error message
contains a secret. Knows no store and no file; `file.py` reads it. Mirrors
apiserver/pkg/server/options/encryptionconfig of k8s.io/apiserver.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from kapiserver.api.go_format import join_errors
from kapiserver.api.group import GroupVersion
from kapiserver.api.scalar_types import Duration
from kapiserver.api.scheme import ConfigurationScheme
from kapiserver.api.types import Kind, Tree, Type, field, int32
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.yaml import YAMLSerializer
from kapiserver.storage.encryption.transformers import (
    AESCBC,
    AESGCM,
    ANY,
    IDENTITY,
    GroupResource,
    Observe,
    PrefixTransformer,
    PrefixTransformers,
    Secretbox,
    Transformer,
    TransformerOverrides,
    uncounted,
)
from kapiserver.storage.encryption.validation import check

_KMS_V1 = (
    "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead."
)

OpenKMS: TypeAlias = Callable[[Tree], Transformer]
"""Returns the transformer of a KMSProvider. Raises InvalidEncryptionConfig."""


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
    """A plugin of KMS v2, which has the keys. `endpoint` is the URL of its Unix socket, `timeout`
    ends a call, after 3s by default. `cachesize` belongs to KMS v1, which is not served."""

    apiVersion: str = field(1)
    name: str = field(2, always=True)
    cachesize: int32 | None = field(3)
    endpoint: str = field(4, always=True)
    timeout: Duration | None = field(5)


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
    """A keyed provider: the prefix of its values, and its transformers."""

    prefix: bytes
    make: Callable[[bytes], Transformer]
    unknown_key: str


_NO_MATCHING_KEY = "no matching key was found for the provided {} transformer"
_CIPHERS = {
    "aesgcm": _Cipher(b"k8s:enc:aesgcm:v1:", AESGCM, _NO_MATCHING_KEY.format("AES")),
    "aescbc": _Cipher(b"k8s:enc:aescbc:v1:", AESCBC, _NO_MATCHING_KEY.format("AES")),
    "secretbox": _Cipher(b"k8s:enc:secretbox:v1:", Secretbox, _NO_MATCHING_KEY.format("Secretbox")),
}


def parse_encryption_config(
    data: bytes, name: str, open_kms: OpenKMS, observe: Observe = uncounted
) -> TransformerOverrides:
    """Return the transformers of a file's content. Raises InvalidEncryptionConfig."""
    try:
        decoded = YAMLSerializer(ConfigurationScheme(_KINDS)).decode(data)
    except CodecError as error:
        raise _undecodable(name, str(error)) from error
    if decoded.strict_errors:
        listed = ", ".join(decoded.strict_errors)
        raise _undecodable(name, f"strict decoding error: {listed}")
    _set_defaults(decoded.object)
    errors = list(dict.fromkeys(str(error) for error in check(decoded.object)))
    if errors:
        raise InvalidEncryptionConfig(join_errors(errors))
    return _overrides(decoded.object, open_kms, observe)


def _set_defaults(config: Tree) -> None:
    """Set the defaults of KMS providers, as SetDefaults_KMSConfiguration does."""
    for rule in config["resources"] or ():
        for provider in rule["providers"] or ():
            kms = provider.get("kms")
            if kms is not None:
                kms["apiVersion"] = kms.get("apiVersion") or "v1"
                kms.setdefault("timeout", "3s")


def _undecodable(name: str, problem: str) -> InvalidEncryptionConfig:
    return InvalidEncryptionConfig(
        f'error decoding encryption provider configuration file "{name}": {problem}'
    )


def _overrides(config: Tree, open_kms: OpenKMS, observe: Observe) -> TransformerOverrides:
    choices: dict[GroupResource, list[PrefixTransformer]] = {}
    for rule in config["resources"]:
        providers = [
            _prefix_transformer(provider, open_kms, observe) for provider in rule["providers"]
        ]
        for text in rule["resources"]:
            group_resource = GroupResource.parse(text)
            for wildcard in (GroupResource(group_resource.group, "*"), ANY):
                if wildcard in choices:
                    raise InvalidEncryptionConfig(
                        f'resource "{group_resource}" is masked by earlier rule "{wildcard}"'
                    )
            choices[group_resource] = choices.get(group_resource, []) + providers
    return {
        group_resource: PrefixTransformers(
            transformers, unknown_prefix="no matching prefix found", observe=observe
        )
        for group_resource, transformers in choices.items()
    }


def _prefix_transformer(provider: Tree, open_kms: OpenKMS, observe: Observe) -> PrefixTransformer:
    for name, cipher in _CIPHERS.items():
        if provider.get(name) is not None:
            keys = [
                PrefixTransformer(
                    f"{key['name']}:".encode(), cipher.make(base64.b64decode(key["secret"]))
                )
                for key in provider[name]["keys"]
            ]
            return PrefixTransformer(
                cipher.prefix,
                PrefixTransformers(keys, unknown_prefix=cipher.unknown_key, observe=observe),
            )
    kms = provider.get("kms")
    if kms is None:
        return PrefixTransformer(b"", IDENTITY)
    if kms["apiVersion"] == "v1":
        raise InvalidEncryptionConfig(_KMS_V1)
    return PrefixTransformer(f"k8s:enc:kms:v2:{kms['name']}:".encode(), open_kms(kms))

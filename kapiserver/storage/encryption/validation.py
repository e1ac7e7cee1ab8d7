"""The rules of an EncryptionConfiguration, with kube-apiserver's messages.

Mirrors apis/apiserver/validation of k8s.io/apiserver.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.scalar_types import Duration
from kapiserver.api.types import Tree
from kapiserver.storage.encryption.transformers import ANY, GroupResource

_AES_SIZES = (16, 24, 32)
KEY_SIZES = {"aesgcm": _AES_SIZES, "aescbc": _AES_SIZES, "secretbox": (32,)}
"""The allowed lengths of the keys of each keyed provider, in bytes."""

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


def check(config: Tree) -> Iterable[FieldError]:
    """Yield the validation errors of a configuration."""
    root = Path("resources")
    rules = config["resources"] or ()
    if not rules:
        yield required(root, f"at least one {root} is required")
    kms_names: set[str] = set()
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
            yield from _check_provider(provider, providers[index], kms_names)


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


def _check_provider(provider: Tree, path: Path, kms_names: set[str]) -> Iterable[FieldError]:
    names = [name for name in provider if provider[name] is not None]
    if len(names) != 1:
        yield invalid(path, names, _SEVERAL_PROVIDERS if names else _NO_PROVIDER)
        return
    (name,) = names
    if name == "kms":
        yield from _check_kms(provider[name], path / name, kms_names)
        kms_names.add(provider[name]["name"])
    elif name in KEY_SIZES:
        yield from _check_keys(provider[name]["keys"] or (), path / name / "keys", name)


def _check_kms(kms: Tree, path: Path, names: set[str]) -> Iterable[FieldError]:
    """Yield the errors of a KMS provider; `names` are those of the providers before it."""
    name, version = kms["name"], kms["apiVersion"]
    if not name:
        yield required(path / "name", "name is a mandatory field for a provider")
    if version != "v1":
        if ":" in name:
            problem = f"invalid KMS provider name {name}, must not contain ':'"
            yield invalid(path / "name", name, problem)
        if name in names:
            problem = f"duplicate KMS provider name {name}, names must be unique"
            yield invalid(path / "name", name, problem)
    if Duration.to_message(kms["timeout"])["duration"] <= 0:
        yield invalid(path / "timeout", kms["timeout"], "timeout should be a positive value")
    yield from _check_endpoint(kms["endpoint"], path / "endpoint")
    size = kms.get("cachesize")
    if version != "v1" and size is not None:
        yield invalid(path / "cachesize", size, "cachesize is not supported in v2")
    if version == "v1" and size == 0:
        problem = "cachesize should be a positive value, or negative to disable"
        yield invalid(path / "cachesize", size, problem)
    if version not in ("v1", "v2"):
        problem = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported"
        yield invalid(path / "apiVersion", version, problem)


def _check_endpoint(endpoint: str, path: Path) -> Iterable[FieldError]:
    if not endpoint:
        yield invalid(path, "", "endpoint is a mandatory field for a kms")
        return
    try:
        scheme = urlsplit(endpoint).scheme
    except ValueError as error:
        yield invalid(path, endpoint, f"invalid endpoint for kms provider, error: {error}")
        return
    if scheme != "unix":
        problem = f'unsupported scheme "{scheme}" for KMS provider, only unix is supported'
        yield invalid(path, endpoint, problem)


def _check_keys(keys: Sequence[Tree], path: Path, provider: str) -> Iterable[FieldError]:
    if not keys:
        yield required(path, "at least one keys is required")
    for index, key in enumerate(keys):
        for part in ("name", "secret"):
            if not key[part]:
                yield required(path[index] / part, f"{part} is a mandatory field for a key")
        if key["secret"]:
            problem = _secret_error(key["secret"], KEY_SIZES[provider])
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

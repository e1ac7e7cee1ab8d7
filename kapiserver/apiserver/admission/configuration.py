"""Reads the AdmissionConfiguration of `--admission-control-config-file`.

It lists plugins; the configuration of each is inline or in a file of its own. Only that of
PodSecurity is read; those of other plugins are ignored. Mirrors
apiserver/pkg/admission/config.go and pod-security-admission/admission/api.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import field as field_
from pathlib import Path as FilePath
from typing import Any

from kapiserver.api import names
from kapiserver.api.core.pod_security_policy import (
    MODES,
    Policy,
    Standard,
    parse_level,
    parse_minor,
)
from kapiserver.api.errors import FieldError, Path, duplicate, invalid
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import ConfigurationScheme
from kapiserver.api.types import Kind, Tree, Type, field
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.yaml import YAMLSerializer

MAX_BYTES = 1 << 20
"""The largest file that is read."""
_GROUP = "pod-security.admission.config.k8s.io"


class BadAdmissionConfiguration(ValueError):
    """The file cannot be read or is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSecurity:
    """The policy for namespaces without labels, and the exemptions."""

    defaults: Policy = field_(default_factory=Policy)
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """The settings of all plugins."""

    pod_security: PodSecurity = field_(default_factory=PodSecurity)


class AdmissionPluginConfiguration(Type):
    """The configuration of one plugin, inline or as the path of a file."""

    name: str = field(1, always=True)
    path: str = field(2)
    configuration: Any = field(3)


class AdmissionConfiguration(Kind):
    """The file of `--admission-control-config-file`."""

    plugins: list[AdmissionPluginConfiguration] = field(1)


class PodSecurityDefaults(Type):
    """Levels and versions, as in the labels of a namespace."""

    enforce: str = field(1)
    enforce_version: str = field(2, json="enforce-version")
    audit: str = field(3)
    audit_version: str = field(4, json="audit-version")
    warn: str = field(5)
    warn_version: str = field(6, json="warn-version")


class PodSecurityExemptions(Type):
    """Users, namespaces and runtime classes whose pods are not checked."""

    usernames: list[str] = field(1)
    namespaces: list[str] = field(2)
    runtimeClasses: list[str] = field(3)


class PodSecurityConfiguration(Kind):
    """The configuration of PodSecurity."""

    defaults: PodSecurityDefaults = field(1)
    exemptions: PodSecurityExemptions = field(2)


_KINDS: dict[GroupVersionKind, type[Kind]] = {
    GroupVersionKind("apiserver.config.k8s.io", "v1", "AdmissionConfiguration"): (
        AdmissionConfiguration
    ),
    GroupVersionKind("apiserver.k8s.io", "v1alpha1", "AdmissionConfiguration"): (
        AdmissionConfiguration
    ),
    **{
        GroupVersionKind(_GROUP, version, "PodSecurityConfiguration"): PodSecurityConfiguration
        for version in ("v1", "v1beta1", "v1alpha1")
    },
}


def read_admission_settings(file: FilePath) -> AdmissionSettings:
    """Return the settings of a file. Raises BadAdmissionConfiguration."""
    configuration = _decode(_read_file(file), AdmissionConfiguration, file.name)
    for plugin in configuration.get("plugins") or ():
        if plugin.get("name") == "PodSecurity":
            return AdmissionSettings(pod_security=_pod_security(plugin, file))
    return AdmissionSettings()


def _read_file(file: FilePath) -> bytes:
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadAdmissionConfiguration(
            f'unable to read admission control configuration from "{file}" [{error}]'
        ) from error
    if len(data) > MAX_BYTES:
        raise BadAdmissionConfiguration(f'admission control configuration "{file}" is too large')
    return data


def _decode(data: bytes, type_: type[Kind], name: str) -> Tree:
    try:
        decoded = YAMLSerializer(ConfigurationScheme(_KINDS)).decode(data)
    except CodecError as error:
        raise BadAdmissionConfiguration(f"{name}: {error}") from error
    if decoded.strict_errors:
        strict_errors = ", ".join(decoded.strict_errors)
        raise BadAdmissionConfiguration(f"{name}: strict decoding error: {strict_errors}")
    if _KINDS[decoded.kind] is not type_:
        raise BadAdmissionConfiguration(f"{name}: expected {type_.__name__}, got {decoded.kind}")
    return decoded.object


def _pod_security(plugin: Tree, file: FilePath) -> PodSecurity:
    data = b""
    if plugin.get("path"):
        data = _read_file(file.parent / plugin["path"])
    elif plugin.get("configuration") is not None:
        data = json.dumps(plugin["configuration"]).encode()
    if not data.strip():
        return PodSecurity()
    name = "PodSecurity"
    tree = _decode(data, PodSecurityConfiguration, name)
    problems = [str(error) for error in _validate(tree)]
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise BadAdmissionConfiguration(f'couldn\'t init admission plugin "{name}": {text}')
    defaults, exemptions = tree.get("defaults") or {}, tree.get("exemptions") or {}
    return PodSecurity(
        defaults=Policy(**{mode: _parse_standard(defaults, mode) for mode in MODES}),
        usernames=frozenset(exemptions.get("usernames") or ()),
        namespaces=frozenset(exemptions.get("namespaces") or ()),
        runtime_classes=frozenset(exemptions.get("runtimeClasses") or ()),
    )


def _parse_standard(defaults: Tree, mode: str) -> Standard:
    level, version = defaults.get(mode), defaults.get(f"{mode}-version")
    return Standard(parse_level(level or "privileged"), parse_minor(version or "latest"))


def _validate(tree: Tree) -> Iterator[FieldError]:
    defaults, exemptions = tree.get("defaults") or {}, tree.get("exemptions") or {}
    for mode in ("enforce", "warn", "audit"):
        for name, parse in ((mode, parse_level), (f"{mode}-version", parse_minor)):
            try:
                parse(
                    defaults.get(name) or {parse_level: "privileged", parse_minor: "latest"}[parse]
                )
            except ValueError as error:
                yield invalid(Path("defaults") / name, defaults[name], str(error))
    for name, check in _EXEMPTION_CHECKS:
        yield from _exemption_errors(exemptions.get(name) or (), check, Path("exemptions") / name)


def _username(name: str) -> list[str]:
    return [] if name else ["username must not be empty"]


_EXEMPTION_CHECKS: tuple[tuple[str, Callable[[str], list[str]]], ...] = (
    ("namespaces", names.dns1123_label),
    ("runtimeClasses", names.dns1123_subdomain),
    ("usernames", _username),
)


def _exemption_errors(
    exempt_names: Sequence[str], check: Callable[[str], list[str]], path: Path
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, name in enumerate(exempt_names):
        messages = check(name)
        if messages:
            yield invalid(path[index], name, ", ".join(messages))
        elif name in seen:
            yield duplicate(path[index], name)
        seen.add(name)

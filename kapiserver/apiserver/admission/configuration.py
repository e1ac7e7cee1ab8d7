"""The file that configures admission plugins: kube-apiserver's AdmissionConfiguration.

A list of plugins, each with its configuration in place or in a file of its own. PodSecurity has
one here; those of other plugins are passed over. Read once, at the start. Mirrors
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
from kapiserver.api.errors import FieldError, NotRegistered, Path, duplicate, invalid
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Kind, Tree, Type, field
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.yaml import YAMLSerializer

LARGEST = 1 << 20
"""Bytes of a file that is read."""
_GROUP = "pod-security.admission.config.k8s.io"


class BadAdmissionConfiguration(ValueError):
    """A file that says nothing usable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSecurity:
    """What is asked of pods where labels are silent, and who and what is exempt."""

    defaults: Policy = field_(default_factory=Policy)
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """What plugins are told beside the requests."""

    pod_security: PodSecurity = field_(default_factory=PodSecurity)


class AdmissionPluginConfiguration(Type):
    """One plugin's."""

    name: str = field(1, always=True)
    path: str = field(2)
    configuration: Any = field(3)


class AdmissionConfiguration(Kind):
    """The whole file."""

    plugins: list[AdmissionPluginConfiguration] = field(1)


class PodSecurityDefaults(Type):
    """Levels and versions as labels have them."""

    enforce: str = field(1)
    enforce_version: str = field(2, json="enforce-version")
    audit: str = field(3)
    audit_version: str = field(4, json="audit-version")
    warn: str = field(5)
    warn_version: str = field(6, json="warn-version")


class PodSecurityExemptions(Type):
    """Names of what is not looked at."""

    usernames: list[str] = field(1)
    namespaces: list[str] = field(2)
    runtimeClasses: list[str] = field(3)


class PodSecurityConfiguration(Kind):
    """PodSecurity's own."""

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


class _ConfigScheme(Scheme):
    """Knows the kinds of such files."""

    def type_of(self, kind: GroupVersionKind) -> type[Kind]:
        if kind not in _KINDS:
            raise NotRegistered.of_kind(kind)
        return _KINDS[kind]


def read_admission_settings(file: FilePath) -> AdmissionSettings:
    """What a file says. Raises BadAdmissionConfiguration."""
    configuration = _decoded(_content(file), AdmissionConfiguration, file.name)
    for plugin in configuration.get("plugins") or ():
        if plugin.get("name") == "PodSecurity":
            return AdmissionSettings(pod_security=_pod_security(plugin, file))
    return AdmissionSettings()


def _content(file: FilePath) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise BadAdmissionConfiguration(
            f'unable to read admission control configuration from "{file}" [{error}]'
        ) from error
    if len(data) > LARGEST:
        raise BadAdmissionConfiguration(f'admission control configuration "{file}" is too large')
    return data


def _decoded(data: bytes, wanted: type[Kind], name: str) -> Tree:
    try:
        decoded = YAMLSerializer(_ConfigScheme()).decode(data)
    except CodecError as error:
        raise BadAdmissionConfiguration(f"{name}: {error}") from error
    if decoded.strict_errors:
        listed = ", ".join(decoded.strict_errors)
        raise BadAdmissionConfiguration(f"{name}: strict decoding error: {listed}")
    if _KINDS[decoded.kind] is not wanted:
        raise BadAdmissionConfiguration(f"{name}: expected {wanted.__name__}, got {decoded.kind}")
    return decoded.object


def _pod_security(plugin: Tree, file: FilePath) -> PodSecurity:
    data = b""
    if plugin.get("path"):
        data = _content(file.parent / plugin["path"])
    elif plugin.get("configuration") is not None:
        data = json.dumps(plugin["configuration"]).encode()
    if not data.strip():
        return PodSecurity()
    name = "PodSecurity"
    tree = _decoded(data, PodSecurityConfiguration, name)
    problems = [str(error) for error in _problems(tree)]
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise BadAdmissionConfiguration(f'couldn\'t init admission plugin "{name}": {text}')
    defaults, exempt = tree.get("defaults") or {}, tree.get("exemptions") or {}
    return PodSecurity(
        defaults=Policy(**{mode: _standard(defaults, mode) for mode in MODES}),
        usernames=frozenset(exempt.get("usernames") or ()),
        namespaces=frozenset(exempt.get("namespaces") or ()),
        runtime_classes=frozenset(exempt.get("runtimeClasses") or ()),
    )


def _standard(defaults: Tree, mode: str) -> Standard:
    level, version = defaults.get(mode), defaults.get(f"{mode}-version")
    return Standard(parse_level(level or "privileged"), parse_minor(version or "latest"))


def _problems(tree: Tree) -> Iterator[FieldError]:
    defaults, exempt = tree.get("defaults") or {}, tree.get("exemptions") or {}
    for mode in ("enforce", "warn", "audit"):
        for name, parse in ((mode, parse_level), (f"{mode}-version", parse_minor)):
            try:
                parse(
                    defaults.get(name) or {parse_level: "privileged", parse_minor: "latest"}[parse]
                )
            except ValueError as error:
                yield invalid(Path("defaults") / name, defaults[name], str(error))
    for name, check in _EXEMPT:
        yield from _exemptions(exempt.get(name) or (), check, Path("exemptions") / name)


def _username(name: str) -> list[str]:
    return [] if name else ["username must not be empty"]


_EXEMPT: tuple[tuple[str, Callable[[str], list[str]]], ...] = (
    ("namespaces", names.dns1123_label),
    ("runtimeClasses", names.dns1123_subdomain),
    ("usernames", _username),
)


def _exemptions(
    listed: Sequence[str], check: Callable[[str], list[str]], path: Path
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, name in enumerate(listed):
        messages = check(name)
        if messages:
            yield invalid(path[index], name, ", ".join(messages))
        elif name in seen:
            yield duplicate(path[index], name)
        seen.add(name)

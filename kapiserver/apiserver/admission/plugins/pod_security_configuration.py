"""The PodSecurityConfiguration: the policy of namespaces without labels, and the exemptions.

Mirrors k8s.io/pod-security-admission/admission/api.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from kapiserver.api import names, types
from kapiserver.api.core.pods.security_policy import (
    MODES,
    Policy,
    Standard,
    parse_level,
    parse_minor,
)
from kapiserver.api.errors import FieldError, Path, duplicate, invalid
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Kind, Tree, Type
from kapiserver.apiserver.admission.configuration import PluginConfiguration


class Settings(Struct, frozen=True, kw_only=True):
    """The policy for namespaces without labels, and the exemptions."""

    defaults: Policy = field(default_factory=Policy)
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


class PodSecurityDefaults(Type):
    """Levels and versions, as in the labels of a namespace."""

    enforce: str = types.field(1)
    enforce_version: str = types.field(2, json="enforce-version")
    audit: str = types.field(3)
    audit_version: str = types.field(4, json="audit-version")
    warn: str = types.field(5)
    warn_version: str = types.field(6, json="warn-version")


class PodSecurityExemptions(Type):
    """Users, namespaces and runtime classes whose pods are not checked."""

    usernames: list[str] = types.field(1)
    namespaces: list[str] = types.field(2)
    runtimeClasses: list[str] = types.field(3)


class PodSecurityConfiguration(Kind):
    """The configuration of PodSecurity."""

    defaults: PodSecurityDefaults = types.field(1)
    exemptions: PodSecurityExemptions = types.field(2)


_KINDS: dict[GroupVersionKind, type[Kind]] = {
    GroupVersionKind(
        "pod-security.admission.config.k8s.io", version, "PodSecurityConfiguration"
    ): PodSecurityConfiguration
    for version in ("v1", "v1beta1", "v1alpha1")
}


def read_settings(configuration: PluginConfiguration) -> Settings:
    """Return the settings of a configuration. Raises BadAdmissionConfiguration."""
    if not configuration.data.strip():
        return Settings()
    tree = configuration.decode(_KINDS, _validate, strict=True)
    defaults, exemptions = tree.get("defaults") or {}, tree.get("exemptions") or {}
    return Settings(
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

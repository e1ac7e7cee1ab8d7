"""The Pod Security policy of a namespace: a Pod Security Standard for each of three modes.

A standard is a level as defined in some Kubernetes version. `defaults` apply where the namespace
has no labels. All functions are pure. Mirrors k8s.io/pod-security-admission/api and its messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from kapiserver.api.core.pods.security import LATEST, LEVELS, Level, Violation, violations
from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.types import Tree

PREFIX = "pod-security.kubernetes.io/"
MODES = ("enforce", "audit", "warn")
_LABELS = Path("metadata") / "labels"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,3})")


class Standard(Struct, frozen=True):
    """A level as defined in version 1.`minor`."""

    level: Level = "privileged"
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def violations_of(self, pod: Tree) -> list[Violation]:
        """Return why a pod or a pod template violates the standard."""
        return violations(pod, self.level, self.minor)

    def is_stricter(self, other: Standard) -> bool:
        """Return whether the level is stricter than that of `other`, regardless of the versions."""
        return LEVELS.index(self.level) > LEVELS.index(other.level)


class Policy(Struct, frozen=True, kw_only=True):
    """The standards that are enforced, audited and warned about."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()

    @property
    def is_privileged(self) -> bool:
        """Whether all modes have the privileged level."""
        return all(getattr(self, mode).level == "privileged" for mode in MODES)


class ParsedPolicy(Struct, frozen=True, kw_only=True):
    """The policy of a namespace's labels, and the errors in the labels."""

    policy: Policy
    errors: tuple[FieldError, ...] = ()


def parse_level(text: str) -> Level:
    """Return the level of this name. Raises ValueError if it is unknown."""
    for level in LEVELS:
        if level == text:
            return level
    raise ValueError(f"must be one of {', '.join(LEVELS)}")


def parse_minor(text: str) -> int:
    """Return the minor version of `latest` or `v1.x`. Raises ValueError if the text is neither."""
    if text == "latest":
        return LATEST
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError('must be "latest" or "v1.x"')
    return int(match[1])


def policy_of(labels: Mapping[str, str], defaults: Policy) -> ParsedPolicy:
    """Return the policy of a namespace with these labels.

    An invalid level counts as restricted for enforce, and as privileged for audit and warn. If no
    label sets warn, the enforced standard is warned about, too.
    """
    if not any(key.startswith(PREFIX) for key in labels):
        return ParsedPolicy(policy=defaults)
    errors: list[FieldError] = []
    standards: dict[str, Standard] = {}
    for mode in MODES:
        standard: Standard = getattr(defaults, mode)
        level, minor = standard.level, standard.minor
        level_label = labels.get(PREFIX + mode)
        version_label = labels.get(f"{PREFIX}{mode}-version")
        if level_label is not None:
            try:
                level = parse_level(level_label)
            except ValueError as error:
                level = "restricted" if mode == "enforce" else "privileged"
                errors.append(invalid(_LABELS[PREFIX + mode], level_label, str(error)))
        if version_label is not None:
            try:
                minor = parse_minor(version_label)
            except ValueError as error:
                minor = LATEST
                errors.append(
                    invalid(_LABELS[f"{PREFIX}{mode}-version"], version_label, str(error))
                )
        standards[mode] = Standard(level, minor)
    enforce, warn = standards["enforce"], standards["warn"]
    is_level_valid = labels.get(f"{PREFIX}enforce") == enforce.level
    if is_level_valid and f"{PREFIX}warn" not in labels and enforce.is_stricter(warn):
        has_warn_version = f"{PREFIX}warn-version" in labels
        standards["warn"] = Standard(
            enforce.level, warn.minor if has_warn_version else enforce.minor
        )
    return ParsedPolicy(policy=Policy(**standards), errors=tuple(errors))


def describe_policy(policy: Policy, labels: Mapping[str, str]) -> str:
    """Return the part of a policy that labels set: `enforce=baseline:latest, ...`."""
    return ", ".join(
        f"{mode}={getattr(policy, mode)}"
        for mode in MODES
        if getattr(policy, mode).level != "privileged"
        and (PREFIX + mode in labels or f"{PREFIX}{mode}-version" in labels)
    )

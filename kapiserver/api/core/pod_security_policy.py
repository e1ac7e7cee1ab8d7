"""What a namespace asks of its pods: a Pod Security Standard in each of three modes. Pure.

A standard is a level as it was in some version. What the labels of the namespace do not say is the
server's to decide. Mirrors k8s.io/pod-security-admission/api, with its words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kapiserver.api.core.pod_security import LATEST, LEVELS, Level, Violation, violations
from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.types import Tree

PREFIX = "pod-security.kubernetes.io/"
MODES = ("enforce", "audit", "warn")
_LABELS = Path("metadata") / "labels"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,3})")


@dataclass(frozen=True, slots=True)
class Standard:
    """A level, as it was in version 1.`minor`."""

    level: Level = "privileged"
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def broken_by(self, pod: Tree) -> list[Violation]:
        """Why a pod, or a template of one, does not meet it."""
        return violations(pod, self.level, self.minor)

    def is_stricter(self, other: Standard) -> bool:
        """Whether its level is, whatever the versions."""
        return LEVELS.index(self.level) > LEVELS.index(other.level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The standards of the modes: what refuses pods, what is noted, what warns."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()

    @property
    def is_privileged(self) -> bool:
        """Whether it asks for nothing."""
        return all(getattr(self, mode).level == "privileged" for mode in MODES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The policy that labels make, and what is wrong with them."""

    policy: Policy
    errors: tuple[FieldError, ...] = ()


def level_of(text: str) -> Level:
    """The level of that name. Raises ValueError."""
    for level in LEVELS:
        if level == text:
            return level
    raise ValueError(f"must be one of {', '.join(LEVELS)}")


def minor_of(text: str) -> int:
    """The minor version of `latest` or `v1.x`. Raises ValueError."""
    if text == "latest":
        return LATEST
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError('must be "latest" or "v1.x"')
    return int(found[1])


def asked_by(labels: Mapping[str, str], defaults: Policy) -> Asked:
    """The policy of a namespace with these labels.

    A level to enforce that makes no sense is read as the strictest, one to warn of or to note as
    none. What is enforced is warned of too, unless the labels say otherwise.
    """
    if not any(key.startswith(PREFIX) for key in labels):
        return Asked(policy=defaults)
    errors: list[FieldError] = []
    found: dict[str, Standard] = {}
    for mode in MODES:
        standard: Standard = getattr(defaults, mode)
        level, minor = standard.level, standard.minor
        said, version = labels.get(PREFIX + mode), labels.get(f"{PREFIX}{mode}-version")
        if said is not None:
            try:
                level = level_of(said)
            except ValueError as error:
                level = "restricted" if mode == "enforce" else "privileged"
                errors.append(invalid(_LABELS[PREFIX + mode], said, str(error)))
        if version is not None:
            try:
                minor = minor_of(version)
            except ValueError as error:
                minor = LATEST
                errors.append(invalid(_LABELS[f"{PREFIX}{mode}-version"], version, str(error)))
        found[mode] = Standard(level, minor)
    enforce, warn = found["enforce"], found["warn"]
    is_said = labels.get(f"{PREFIX}enforce") == enforce.level
    if is_said and f"{PREFIX}warn" not in labels and enforce.is_stricter(warn):
        told = f"{PREFIX}warn-version" in labels
        found["warn"] = Standard(enforce.level, warn.minor if told else enforce.minor)
    return Asked(policy=Policy(**found), errors=tuple(errors))


def told(policy: Policy, labels: Mapping[str, str]) -> str:
    """The part of a policy that labels ask for, shortly: `enforce=baseline:latest, ...`."""
    return ", ".join(
        f"{mode}={getattr(policy, mode)}"
        for mode in MODES
        if getattr(policy, mode).level != "privileged"
        and (PREFIX + mode in labels or f"{PREFIX}{mode}-version" in labels)
    )

"""The Kubernetes version that this server implements or emulates, and the body of /version.

Mirrors component-base/compatibility of Kubernetes (KEP-4330) for `--emulated-version` and
`--min-compatibility-version`.
"""

from __future__ import annotations

import platform
import re
import sys
import time
from typing import NamedTuple

from kapiserver.api.releases import NEWEST_MINOR, OLDEST_MINOR
from kapiserver.api.types import Tree

MAJOR = "1"
STARTED = time.time()
"""About when the process started: every server imports this module first."""
_EMULATION_FIELDS_MINOR = 33
"""The minor of the first release whose /version has the fields of emulation."""

_COMPONENT = "kube"
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?")
_NO_COMMIT = "0" * 40
"""A commit that no build has. The build records none, and clients expect a hexadecimal number."""


class Versions(NamedTuple):
    """The minors of the release 1.x to emulate, and of the oldest one that must read what is
    stored."""

    emulated: int
    compatible: int


def versions_of(emulated: str = "", compatible: str = "") -> Versions:
    """Return the releases for values of `--emulated-version` and `--min-compatibility-version`,
    such as `1.34` or `kube=1.34`. "" means the newest, and the one before the emulated. Raises
    ValueError with kube-apiserver's message."""
    emulated_minor = _minor(emulated, "emulation", NEWEST_MINOR)
    if emulated_minor is None:
        emulated_minor = NEWEST_MINOR
    compatible_minor = _minor(compatible, "minCompatibilityVersion", emulated_minor)
    if compatible_minor is None:
        compatible_minor = max(emulated_minor - 1, OLDEST_MINOR)
    return Versions(emulated_minor, compatible_minor)


def emulated_minor(text: str) -> int:
    """Return the minor of the release to emulate; see `versions_of`."""
    return versions_of(text).emulated


def _minor(flag: str, subject: str, newest: int) -> int | None:
    """Return the minor of a flag's value, which may be up to `newest`; None for ""."""
    releases: list[str] = []
    for part in filter(None, (part.strip() for part in flag.split(","))):
        component, _, version = part.rpartition("=")
        if component.strip() not in ("", _COMPONENT):
            raise ValueError(f"component not registered: {component.strip()}")
        releases.append(_release(version.strip()))
    if len(releases) > 1:
        first, second = (f"{_COMPONENT}={release}" for release in releases[:2])
        raise ValueError(f"duplicate version flag, {first} and {second}")
    if not releases:
        return None
    major, _, minor = releases[0].partition(".")
    if major != MAJOR or not OLDEST_MINOR <= int(minor) <= newest:
        raise ValueError(
            f"{subject} version {releases[0]} is not between "
            f"[{MAJOR}.{OLDEST_MINOR}, {MAJOR}.{newest}]"
        )
    return int(minor)


def _release(text: str) -> str:
    """Return a version without its patch."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f'could not parse "{text}" as version')
    major, minor, patch = match.groups()
    if int(patch or 0):
        raise ValueError(f"patch version not allowed, got: {_COMPONENT}={text}")
    return f"{major}.{minor}"


def git_version(minor: int = NEWEST_MINOR) -> str:
    """Return the version of a release 1.x, as `kubectl version` shows it."""
    return f"v{MAJOR}.{minor}.0+kapiserver"


DEFAULT_VERSIONS = versions_of()


def version_info(versions: Versions = DEFAULT_VERSIONS) -> Tree:
    """Return the body of /version, in version.Info's key order.

    kube-apiserver shows the release to emulate as `emulationMinor` alone; clients that refuse newer
    servers read the other fields.
    """
    minor = versions.emulated
    system = {"win32": "windows"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    emulation = {
        "emulationMajor": MAJOR,
        "emulationMinor": str(minor),
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": str(versions.compatible),
    }
    return {
        "major": MAJOR,
        "minor": str(minor),
        **(emulation if minor >= _EMULATION_FIELDS_MINOR else {}),
        "gitVersion": git_version(minor),
        "gitCommit": _NO_COMMIT,
        "gitTreeState": "dirty",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{system}/{machine}",
    }

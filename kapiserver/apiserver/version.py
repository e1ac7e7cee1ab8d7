"""The Kubernetes version that this server implements or emulates, and the body of /version.

Mirrors component-base/compatibility of Kubernetes (KEP-4330) for `--emulated-version`.
"""

from __future__ import annotations

import platform
import re
import sys
import time

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


def emulated_minor(text: str) -> int:
    """Return the minor of the release 1.x to emulate, for a value of `--emulated-version` such as
    `1.34` or `kube=1.34`; "" is the newest. Raises ValueError with kube-apiserver's message."""
    minors: list[int] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        component, _, version = part.rpartition("=")
        if component.strip() not in ("", _COMPONENT):
            raise ValueError(f"component not registered: {component.strip()}")
        minors.append(_minor(version.strip()))
    if len(minors) > 1:
        first, second = (f"{_COMPONENT}={MAJOR}.{minor}" for minor in minors[:2])
        raise ValueError(f"duplicate version flag, {first} and {second}")
    return minors[0] if minors else NEWEST_MINOR


def _minor(text: str) -> int:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f'could not parse "{text}" as version')
    major, minor, patch = match.groups()
    if int(patch or 0):
        raise ValueError(f"patch version not allowed, got: {_COMPONENT}={text}")
    if major != MAJOR or not OLDEST_MINOR <= int(minor) <= NEWEST_MINOR:
        raise ValueError(
            f"emulation version {major}.{minor} is not between "
            f"[{MAJOR}.{OLDEST_MINOR}, {MAJOR}.{NEWEST_MINOR}]"
        )
    return int(minor)


def git_version(minor: int = NEWEST_MINOR) -> str:
    """Return the version of a release 1.x, as `kubectl version` shows it."""
    return f"v{MAJOR}.{minor}.0+kapiserver"


def version_info(minor: int = NEWEST_MINOR) -> Tree:
    """Return the body of /version, in version.Info's key order.

    `minor` is that of the release to emulate. kube-apiserver shows it as `emulationMinor` alone;
    clients that refuse newer servers read the other fields.
    """
    system = {"win32": "windows"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    emulation = {
        "emulationMajor": MAJOR,
        "emulationMinor": str(minor),
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": str(minor - 1),
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

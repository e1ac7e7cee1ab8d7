"""The Kubernetes version that this server implements, and the body of /version."""

from __future__ import annotations

import platform
import sys

from kapiserver import __version__
from kapiserver.api.types import Tree

MAJOR = "1"
MINOR = "37"
GIT_VERSION = f"v{MAJOR}.{MINOR}.0+kapiserver"


def version_info() -> Tree:
    """Return the body of /version, in version.Info's key order."""
    system = {"win32": "windows"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    return {
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": str(int(MINOR) - 1),
        "gitVersion": GIT_VERSION,
        "gitCommit": f"kapiserver-{__version__}",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{system}/{machine}",
    }

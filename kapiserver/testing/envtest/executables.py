"""Writes the executables kube-apiserver, etcd and kubectl, which envtest runs.

They are shell scripts: a POSIX shell starts in a millisecond, and answers `kube-apiserver --help`,
which each start of a test environment asks for, without Python. Mirrors the directory that
setup-envtest of controller-runtime downloads.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kapiserver import __version__
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.private_files import PUBLIC, write_private
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.apiserver.version import git_version
from kapiserver.testing.envtest import etcd

EXECUTABLE = 0o755
HELP_FILE = "kube-apiserver.help"
CERTIFICATES = "certificates"
"""Folder of a CA and an administrator's certificate, which all servers of the directory share so
that no start creates a key."""

_APISERVER = """\
#!/bin/sh
# Written by `kapiserver envtest`, version {version}.
for argument; do
    case $argument in
    -h|--help) exec cat {help_file};;
    --version) test "$KAPISERVER_VERSION" || {{ echo 'Kubernetes {git_version}'; exit; }};;
    esac
done
exec {python} -P -m kapiserver.kube_apiserver --own-cert-dir={certificates} "$@"
"""
_ETCD = """\
#!/bin/sh
# Written by `kapiserver envtest`, version {version}.
case $1 in --version) echo 'etcd of kapiserver envtest, version {version}'; exit;; esac
exec {python} -I -S {program} "$@"
"""
_KUBECTL = """\
#!/bin/sh
# Written by `kapiserver envtest`, version {version}.
exec {kubectl} "$@"
"""
_NO_KUBECTL = """\
#!/bin/sh
# Written by `kapiserver envtest`, version {version}.
echo 'kapiserver envtest found no kubectl on PATH; install one and run it again' >&2
exit 1
"""


def cache_directory() -> Path:
    """Return the user's directory for this version of kapiserver and this Python."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / (
        "Library/Caches" if sys.platform == "darwin" else ".cache"
    )
    installation = f"{sys.executable} {etcd.__file__}"
    digest = hashlib.sha256(installation.encode()).hexdigest()[:8]
    return Path(caches) / "kapiserver" / f"envtest-{__version__}-{digest}"


def write_executables(directory: Path, help_text: str) -> Path | None:
    """Write the executables and return the kubectl that one of them runs; None if there is none on
    PATH. Files that are up to date stay. Raises OSError, and ValueError on Windows.

    directory   an absolute path
    help_text   what `kube-apiserver --help` prints
    """
    if os.name == "nt":
        raise ValueError("envtest needs a POSIX shell and SIGTERM; use WSL on Windows")
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    _create_certificates(directory / CERTIFICATES)
    kubectl = _find_kubectl()
    texts = {
        "kube-apiserver": _APISERVER,
        "etcd": _ETCD,
        "kubectl": _KUBECTL if kubectl is not None else _NO_KUBECTL,
    }
    values = {
        "version": __version__,
        "git_version": git_version(),
        "python": shlex.quote(sys.executable),
        "program": shlex.quote(etcd.__file__),
        "help_file": shlex.quote(str(directory / HELP_FILE)),
        "certificates": shlex.quote(str(directory / CERTIFICATES)),
        "kubectl": shlex.quote(str(kubectl)),
    }
    write_private(directory / HELP_FILE, help_text.encode(), mode=PUBLIC)
    for name, text in texts.items():
        write_private(directory / name, text.format_map(values).encode(), mode=EXECUTABLE)
    return kubectl


def _create_certificates(folder: Path) -> None:
    """Create the folder at once, so that commands that run at the same time use one CA."""
    if folder.is_dir():
        return
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    ensure_certificates(Config(), temporary)
    with suppress(OSError):  # another command has created it
        temporary.rename(folder)
    shutil.rmtree(temporary, ignore_errors=True)


def _find_kubectl() -> Path | None:
    for folder in _path_folders():
        if (folder / HELP_FILE).exists():  # an earlier version of what is written now
            continue
        kubectl = shutil.which("kubectl", path=str(folder))
        if kubectl is not None:
            return Path(kubectl)
    return None


def _path_folders() -> Iterator[Path]:
    for name in os.get_exec_path():
        yield Path(name or ".").absolute()

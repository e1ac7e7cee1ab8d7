"""Checks of this machine: the rights of files, limits, the disk and the clock."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from kapiserver.apiserver.memory_limit import max_memory
from kapiserver.doctor.finding import ERROR, WARNING, Problem
from kapiserver.doctor.installation import Installation

OPEN_FILES = 4096
"""The limit of open files below which a server gets a warning: each connection is one."""
FREE_BYTES = 1 << 30
"""The free space of the disk below which the store gets a warning."""
FULL_BYTES = 100 << 20
"""The free space below which the next writes may fail."""
MEMORY = 256 << 20
"""The limit of memory below which a server gets a warning."""
_SECRET_FLAGS = (
    "-key-file", "-keyfile", "-private-key-file", "-client-key", "-password-file",
    "-token-auth-file", "-encryption-provider-config", "-config-file",
)  # fmt: skip
_NO_SECRETS = ("--audit-policy-file", "--tracing-config-file", "--admission-control-config-file")
_TIMEX_BYTES = 512
_TIME_ERROR = 5
"""The state TIME_ERROR of adjtimex(2): nothing sets the clock."""


def open_rights(installation: Installation) -> Iterator[Problem]:
    """Look at the rights of files with secrets, and of the folders that have them."""
    folders = (installation.data_dir, installation.cert_dir, installation.sqlite_folder)
    for path in dict.fromkeys(folder for folder in folders if folder is not None):
        yield from _writable_by_others(path)
    for file in dict.fromkeys(_secret_files(installation)):
        yield from _readable_by_others(file)


def _secret_files(installation: Installation) -> Iterator[Path]:
    yield from sorted(installation.cert_dir.glob("*.key"))
    kubeconfig = installation.config.serving.kubeconfig_out
    if kubeconfig is not None:
        yield kubeconfig
    if installation.sqlite_file is not None:
        yield installation.sqlite_file
        yield Path(f"{installation.sqlite_file}-wal")
    for pair in installation.pairs():
        yield pair.key
    for flag, file in installation.files.items():
        if flag.endswith(_SECRET_FLAGS) and flag not in _NO_SECRETS:
            yield file


def _readable_by_others(file: Path) -> Iterator[Problem]:
    try:
        status = file.stat()
    except OSError:
        return  # it is not there yet, or the check of settings has reported it
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        users = "every user" if mode & 0o007 else "its group"
        yield Problem(
            severity=WARNING if not mode & 0o007 else ERROR,
            about=str(file),
            message=f"has a secret, and {users} may use it (mode {mode:04o})",
            remedy=f"chmod 600 {file}",
        )
    if not os.access(file, os.R_OK):
        yield Problem(
            severity=ERROR, about=str(file), message="this user may not read it",
            remedy="run the doctor and the server as the owner of the file, or change the owner",
        )  # fmt: skip


def _writable_by_others(folder: Path) -> Iterator[Problem]:
    try:
        status = folder.stat()
    except OSError:
        return
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022 and not mode & stat.S_ISVTX:  # in a sticky folder only owners replace files
        yield Problem(
            severity=ERROR,
            about=str(folder),
            message=f"other users may replace the files in it (mode {mode:04o})",
            remedy=f"chmod 700 {folder}",
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Problem(
            severity=ERROR, about=str(folder), message="this user may not write to it",
            remedy="run the doctor and the server as the owner of the folder, or change the owner",
        )  # fmt: skip


def few_open_files(installation: Installation) -> Iterator[Problem]:
    """Look at the limit of open files, which a server that is started here has, too."""
    if sys.platform == "win32":
        return
    import resource

    limit, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < OPEN_FILES:
        yield Problem(
            severity=WARNING,
            about="open files",
            message=f"a process may have {limit}, and each connection and watch of HTTP/1.1 is one",
            remedy=f"ulimit -n {OPEN_FILES * 16}, or LimitNOFILE= in the systemd unit (the most "
            f"that this user may set: {highest})",
        )


def little_memory(installation: Installation) -> Iterator[Problem]:
    """Look at the limit of memory, which is that of the control group unless --max-memory says
    otherwise."""
    limit = max_memory(installation.config)
    if 0 < limit < MEMORY:
        yield Problem(
            severity=WARNING,
            about="--max-memory",
            message=f"a server with more than {limit >> 20} MiB refuses requests with 429",
            remedy="give the server more memory",
        )


def little_disk_space(installation: Installation) -> Iterator[Problem]:
    """Look at the free space of the disks with the store and with the data directory."""
    folders = [installation.data_dir]
    if installation.sqlite_file is not None:
        folders.insert(0, installation.sqlite_file.parent)
    devices: set[int] = set()
    for folder in folders:
        if not folder.is_dir() or folder.stat().st_dev in devices:
            continue
        devices.add(folder.stat().st_dev)
        free = shutil.disk_usage(folder).free
        if free < FREE_BYTES:
            yield Problem(
                severity=ERROR if free < FULL_BYTES else WARNING,
                about=str(folder),
                message=f"its disk has {free >> 20} MiB left; writes fail when it is full",
                remedy="free some space, or move the folder to a larger disk",
            )


def unset_clock(installation: Installation) -> Iterator[Problem]:
    """Ask Linux whether a time service sets the clock."""
    state = _clock_state()
    if state == _TIME_ERROR:
        yield Problem(
            severity=WARNING,
            about="clock",
            message="no time service sets it: tokens, certificates and leases are judged by it",
            remedy="run chrony or systemd-timesyncd",
        )


def _clock_state() -> int:
    """Return the result of adjtimex(2), which changes nothing; 0 if the system has no such call."""
    if not sys.platform.startswith("linux"):
        return 0
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
    # A struct timex of zeros: `modes` is 0, so that the call reads only.
    return int(adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))) if adjtimex else 0

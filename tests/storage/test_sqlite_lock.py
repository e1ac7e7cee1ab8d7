"""The locks of a SQLite file, which belong to the file and not to its name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kapiserver.storage.errors import StoreLocked
from kapiserver.storage.sqlite.embedded_store import open_embedded


def _symlink(path: Path) -> Path:
    link = path.with_name("link.db")
    link.symlink_to(path.name)
    return link


def _hard_link(path: Path) -> Path:
    link = path.with_name("second.db")
    link.hardlink_to(path)
    return link


def _linked_folder(path: Path) -> Path:
    link = path.parent.with_name("linked")
    link.symlink_to(path.parent.name)
    return link / path.name


def _relative(path: Path) -> Path:
    return Path(os.path.relpath(path))


def _with_dots(path: Path) -> Path:
    return path.parent / ".." / path.parent.name / "." / path.name


NAMES = [_symlink, _hard_link, _linked_folder, _relative, _with_dots]


@pytest.mark.parametrize("other_name", NAMES)
async def test_other_names(other_name: Callable[[Path], Path], tmp_path: Path) -> None:
    """A store that is open is refused under every other name, in this process and in another one,
    also to the maintenance commands. It works under that name when it is closed."""
    path = tmp_path / "data" / "store.db"
    store = await open_embedded(path)
    revision = await store.create("/a", b"x")
    name = other_name(path)
    with pytest.raises(StoreLocked, match="is in use by another kapiserver"):
        await open_embedded(name)
    commands = _run_commands(name, tmp_path / "copy.db")
    assert "is in use by another kapiserver" in commands.stderr
    # SQLite looks for its log beside the name.
    backup = 1 if other_name is _hard_link else 0
    assert commands.stdout.splitlines()[-1] == f"compact 1 backup {backup}", commands.stderr
    with pytest.raises(StoreLocked):  # the refusals did not end the lock
        await open_embedded(path)
    await store.close()
    again = await open_embedded(name)
    item = (await again.get("/a")).item
    assert item is not None
    assert item.revision == revision
    await again.close()


_COMMANDS = """
import sys
from kapiserver.cli import main
name, copy = sys.argv[1:]
compact, backup = main(["storage", "compact", name]), main(["storage", "backup", name, copy])
print("compact", compact, "backup", backup)
"""


def _run_commands(name: Path, copy: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands in a process, which prints their exit codes."""
    command = [sys.executable, "-c", _COMMANDS, name, copy]
    return subprocess.run(command, capture_output=True, text=True)

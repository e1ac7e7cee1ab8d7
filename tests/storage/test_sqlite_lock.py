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
    assert "is in use by another kapiserver" in _run_storage("compact", name).stderr
    backup = _run_storage("backup", name, tmp_path / "copy.db")
    # SQLite looks for its log beside the name.
    assert backup.returncode == (1 if other_name is _hard_link else 0), backup.stderr
    with pytest.raises(StoreLocked):  # the refusals did not end the lock
        await open_embedded(path)
    await store.close()
    again = await open_embedded(name)
    item = (await again.get("/a")).item
    assert item is not None
    assert item.revision == revision
    await again.close()


def _run_storage(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kapiserver", "storage", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)

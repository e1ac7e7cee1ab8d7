"""Programs that are built from Go modules."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.toolchains import BUILDS, SUITE_SECONDS

GO = {"GOFLAGS": "-p=2", "GOTOOLCHAIN": "local"}


def build(module: str, version: str, *, mended: tuple[str, str, str] | None = None) -> Path:
    """Return the main program of a module, built once; skip the test without Go or the module.

    mended  a source file in which a text is replaced by another before the build
    """
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    name = module.rpartition("/")[2]
    folder = BUILDS / f"{name}-{version}"
    built = folder / name
    if not built.exists():
        command = ["go", "mod", "download", "-json", f"{module}@{version}"]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        if fetched.returncode != 0:
            pytest.skip(f"go cannot fetch {module}: {fetched.stdout}")
        shutil.copytree(
            json.loads(fetched.stdout)["Dir"], folder, dirs_exist_ok=True,
            copy_function=shutil.copyfile,
        )  # fmt: skip
        if mended is not None:
            source, old, new = folder / mended[0], mended[1], mended[2]
            assert old in source.read_text()
            source.write_text(source.read_text().replace(old, new))
        folder.chmod(0o755)
        subprocess.run(
            ["nice", "-n", "10", "env", *(f"{name}={value}" for name, value in GO.items()),
             "go", "build", "-o", built.name, "."],
            cwd=folder, check=True, timeout=SUITE_SECONDS,
        )  # fmt: skip
    return built

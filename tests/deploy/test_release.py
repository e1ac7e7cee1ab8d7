"""The distributions, checked as PyPI and its users would: metadata, equal bytes of two builds, and
installations without the checkout and without a compiler."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.programs import ROOT
from tests.storage.etcd_server import free_port

VERSIONS = ("3.11", "3.12", "3.13")
"""The releases of CPython that a wheel is installed on."""
EPOCH = "1700000000"
pytestmark = pytest.mark.slow


def _build(source: Path, folder: Path) -> dict[str, str]:
    """Build both distributions of a source tree; return their hashes by name."""
    pytest.importorskip("build")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source],
        env=os.environ | {"SOURCE_DATE_EPOCH": EPOCH},
        check=True,
        capture_output=True,
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def _copy(folder: Path) -> Path:
    """A copy of the files that distributions are made of, with other times."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for name in (
        *project["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"],
        "pyproject.toml",
        ".gitignore",
    ):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, copy_function=shutil.copy)
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
    return folder


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("distributions")
    _build(ROOT, folder)
    return folder


def test_equal_bytes(distributions: Path, tmp_path: Path) -> None:
    """A build of the same files elsewhere and at another time gives the same bytes."""
    again = _build(_copy(tmp_path / "copy"), tmp_path / "again")
    for name, digest in again.items():
        assert hashlib.sha256((distributions / name).read_bytes()).hexdigest() == digest, name
    assert len(again) == 2


def test_metadata(distributions: Path) -> None:
    """twine has no warning, and PyPI would show the README."""
    pytest.importorskip("twine")
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *distributions.iterdir()],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout


def _python(version: str) -> str:
    """The path of an interpreter of a release; skip the test if there is none."""
    name = f"python{version}"
    candidates = [
        shutil.which(name),
        *Path("/root/.pyenv/versions").glob(f"{version}.*/bin/python"),
    ]
    for candidate in filter(None, candidates):
        command = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        shown = subprocess.run(command, capture_output=True, text=True, check=False)
        if shown.stdout.strip() == version:
            return str(candidate)
    pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize("version", VERSIONS)
def test_installed(version: str, distributions: Path, tmp_path: Path) -> None:
    """The wheel and wheels of its dependencies are enough for a server, and a bill of materials
    names them."""
    subprocess.run([_python(version), "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    (wheel,) = distributions.glob("*.whl")
    without_compiler = {"PATH": str(python.parent), "HOME": str(tmp_path)}
    command = [python, "-m", "pip", "install", "-q", "--only-binary=:all:", wheel]
    settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    installed = subprocess.run(
        command, env=settings | without_compiler, capture_output=True, text=True, check=False
    )
    if "Temporary failure in name resolution" in installed.stderr:
        pytest.skip("pip finds no packages")
    assert installed.returncode == 0, installed.stderr
    _check_server(python.parent / "kapiserver", tmp_path, without_compiler)
    _check_bill(python, tmp_path / "bill.json")


def _check_server(program: Path, folder: Path, environment: dict[str, str]) -> None:
    """The installed program serves, in a folder without a checkout."""
    port = free_port()
    command = [program, "serve", f"--insecure-port={port}", "--secure-port=0", "--data-dir=data"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"kapiserver ")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/namespaces") as response:
            names = {item["metadata"]["name"] for item in json.load(response)["items"]}
        assert "default" in names
        server.terminate()
    assert server.returncode == 0


def _check_bill(python: Path, file: Path) -> None:
    """The bill of materials of an environment names kapiserver's dependencies."""
    program = Path(sys.prefix) / "bin" / "cyclonedx-py"
    if not program.exists():
        pytest.skip("cyclonedx-bom is not installed")
    command = [program, "environment", "--output-reproducible", "-o", file, python]
    subprocess.run(command, check=True, capture_output=True)
    listed = json.loads(file.read_text())["components"]
    components = {each["name"].lower().replace("_", "-") for each in listed}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {each.partition(">=")[0].lower() for each in project["dependencies"]}
    assert named | {"kapiserver"} <= components

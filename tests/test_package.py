"""The source distribution and the wheel contain the whole package."""

import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kapiserver"


def _product() -> set[str]:
    """The files of the package, as paths below the root."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a source distribution."""
    folder = tmp_path_factory.mktemp("source")
    (built,) = SdistBuilder(str(ROOT)).build(directory=str(folder))
    return built


def test_source_distribution(source: str) -> None:
    """The source distribution contains every file of the package, and the tests."""
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert _product() <= names
    assert {"tests/test_package.py", "pyproject.toml", "LICENSE"} <= names


def test_extra_of_the_harness() -> None:
    """The extra `testing` has the client library of the first example in README."""
    example = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    (library,) = re.findall(r"kube_client\.(\w+)\(", example)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert any(each.startswith(library) for each in project["optional-dependencies"]["testing"])


def test_wheel(source: str, tmp_path: Path) -> None:
    """A wheel built from the unpacked source distribution contains the package, and no tests."""
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / Path(source).name.removesuffix(".tar.gz")
    (built,) = WheelBuilder(str(unpacked)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    data = {name for name in names if ".data/data/" in name}
    assert [name.partition(".data/data/")[2] for name in data] == ["share/man/man1/kapiserver.1"]
    assert names - data == _product()

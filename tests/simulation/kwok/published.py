"""kwok's published sets of Stages, with the inputs and outputs of its own tests."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from pathlib import Path

from kapiserver.codecs import yaml

MODULE = "sigs.k8s.io/kwok@v0.8.0"
"""The Go module that holds them; `go` downloads it once."""


@functools.cache
def folder() -> Path | None:
    """Return the folder of the sets; None if they cannot be had."""
    if shutil.which("go") is None:
        return None
    command = ["go", "mod", "download", "-json", MODULE]
    completed = subprocess.run(command, cwd="/", capture_output=True, check=False)
    if completed.returncode:
        return None
    return Path(json.loads(completed.stdout)["Dir"]) / "kustomize" / "stage"


def objects(name: str) -> list[dict]:
    """Return the objects of a set, such as `pod/fast`."""
    found = folder()
    assert found is not None
    files = [file for file in sorted((found / name).glob("*.yaml")) if file.stem != "kustomization"]
    return [each for file in files for each in yaml.decode_values(file.read_bytes())]


def stages(name: str) -> list[dict]:
    """Return the Stages of a set."""
    return [each for each in objects(name) if each["kind"] == "Stage"]


def cases() -> list[Path]:
    """Return the files of the inputs of all sets."""
    found = folder()
    return [] if found is None else sorted(found.glob("*/*/testdata/*.input.yaml"))

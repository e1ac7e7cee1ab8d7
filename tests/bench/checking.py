"""Checks of manifests: `python -m tests.bench.checking [OBJECTS]`.

Checks so many objects (1,000 by default) in as many files: Deployments, Services, ConfigMaps and
Ingresses, without findings. Prints the CPU time of the command `kapiserver check`, and that for
four objects, most of which is the start: median, lowest and highest of some processes, which run in
turns. Prints the greatest memory, too.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

DEFAULT_OBJECTS = 1000
FEW = 4
"""Objects for which a check costs little more than its start."""
PROCESSES = 5
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def objects(number: int) -> Sequence[dict[str, object]]:
    """Return an application: four objects that belong together."""
    name = f"web-{number}"
    labels = {"app": name}
    metadata = {"name": name, "labels": labels}
    container = {
        "name": "web",
        "image": "nginx:1.27",
        "ports": [{"name": "http", "containerPort": 80}],
        "envFrom": [{"configMapRef": {"name": name}}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    backend = {"service": {"name": name, "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    rule = {"host": f"{name}.example.com", "http": {"paths": [path]}}
    specs = {
        "Deployment": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        "Service": {"selector": labels, "ports": [{"port": 80, "targetPort": "http"}]},
        "Ingress": {"rules": [rule]},
    }
    versions = {"Deployment": "apps/v1", "Service": "v1", "Ingress": "networking.k8s.io/v1"}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"level": "info"}},
        *(
            {"apiVersion": versions[kind], "kind": kind, "metadata": metadata, "spec": spec}
            for kind, spec in specs.items()
        ),
    ]


def write_files(folder: Path, count: int) -> None:
    """Write so many objects, each into a file of its own."""
    trees = [tree for number in range(-(-count // 4)) for tree in objects(number)]
    for number, tree in enumerate(trees[:count]):
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(tree))


def children() -> tuple[float, float]:
    """Return the CPU time of all processes that have ended, in seconds, and the greatest memory of
    one, in MiB."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def check(folder: Path, count: int) -> float:
    """Check a folder; return the CPU time in seconds."""
    command = [sys.executable, "-m", "kapiserver", "check", str(folder)]
    before, _ = children()
    completed = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert (completed.returncode, completed.stdout) == (0, ""), completed
    assert completed.stderr == f"{count} objects: 0 errors, 0 warnings\n", completed.stderr
    return children()[0] - before


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_OBJECTS
    with tempfile.TemporaryDirectory() as many, tempfile.TemporaryDirectory() as few:
        folders = {count: Path(many), FEW: Path(few)}
        for number, folder in folders.items():
            write_files(folder, number)
        runs: dict[int, list[float]] = {number: [] for number in folders}
        for _ in range(PROCESSES):
            for number, folder in folders.items():
                runs[number].append(check(folder, number))
    for number, seconds in runs.items():
        median = statistics.median(seconds)
        print(f"{number} objects: {median:.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")
    print(f"memory: {children()[1]:.0f} MiB")


if __name__ == "__main__":
    main()

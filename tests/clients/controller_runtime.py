"""Runs the test suites of controller-runtime, unmodified, against `kapiserver envtest`.

`python -m tests.clients.controller_runtime` prints the table of docs/go-suites.md. The source comes
from the Go module proxy. The first run compiles client-go, which takes minutes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.clients.toolchains import BUILDS

MODULE = "sigs.k8s.io/controller-runtime"
VERSION = "v0.25.2"
SUITES = (
    "builder", "cache", "client", "client/apiutil", "cluster", "controller",
    "controller/controllerutil", "envtest", "handler", "internal/controller", "internal/recorder",
    "internal/testing/controlplane", "manager", "manager/internal/integration", "metrics/filters",
    "reconcile", "source", "webhook",
)  # fmt: skip
"""Packages below pkg/ that start a test environment or simulate it."""
REASONS = {
    "client/apiutil": "2 tests download kube-apiserver 1.28, which has no aggregated discovery",
}
"""Why tests of a suite fail; no reason is kapiserver's."""
SECONDS = 1200

_COUNTS = re.compile(r"-- (\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped")
_TEST = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
_GINKGO = re.compile(r"^=== RUN +(\S+)\nRunning Suite:", re.MULTILINE)
_FAILED = re.compile(r"^\s*\[FAIL\] (.*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The numbers of specs and Go tests of a suite, and the names of those that failed."""

    passed: int
    failed: int
    skipped: int
    failures: tuple[str, ...]
    output: str

    @property
    def specs(self) -> int:
        """All specs and tests."""
        return self.passed + self.failed + self.skipped


def fetch_source(version: str = VERSION) -> Path:
    """Copy the source of a version to a folder, which tests may write to, and return it. Raises
    CalledProcessError without the Go module proxy."""
    command = ["go", "mod", "download", "-json", f"{MODULE}@{version}"]
    download = subprocess.run(command, cwd="/", stdout=subprocess.PIPE, check=True)
    folder = BUILDS / f"controller-runtime-{version}"
    if not folder.exists():
        shutil.copytree(json.loads(download.stdout)["Dir"], folder)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() or path.suffix == ".sh" else 0o644)
    return folder


def write_assets(folder: Path) -> Path:
    """Write the executables of envtest to a folder and return it."""
    command = [sys.executable, "-m", "kapiserver", "envtest", str(folder)]
    subprocess.run(command, check=True)
    return folder


def run(source: Path, assets: Path, suite: str) -> Result:
    """Run one suite and return its result."""
    settings = {"KUBEBUILDER_ASSETS": str(assets), "GOFLAGS": "-p=1", "GINKGO_NO_COLOR": "TRUE"}
    process = subprocess.run(
        ["nice", "-n", "10", "go", "test", "-count=1", "-v", f"./pkg/{suite}"],
        cwd=source,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    return parse(process.stdout.decode(errors="replace"))


def parse(output: str) -> Result:
    """Return the result in the output of `go test -v`: the specs of Ginkgo, and the Go tests that
    are no suite of Ginkgo and have no subtests."""
    passed = failed = skipped = 0
    for match in _COUNTS.finditer(output):
        counts = [int(text) for text in match.groups()]
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + sum(counts[2:])
    outcomes = {name: outcome for outcome, name in _TEST.findall(output)}
    suites = set(_GINKGO.findall(output))
    leaves = {
        name: outcome
        for name, outcome in outcomes.items()
        if name not in suites and not any(other.startswith(f"{name}/") for other in outcomes)
    }
    values = list(leaves.values())
    failures = [name for name, outcome in leaves.items() if outcome == "FAIL"]
    return Result(
        passed=passed + values.count("PASS"),
        failed=failed + values.count("FAIL"),
        skipped=skipped + values.count("SKIP"),
        failures=(*dict.fromkeys(_FAILED.findall(output)), *failures),
        output=output,
    )


def table() -> Iterator[str]:
    """Yield the lines of the table, as the suites end."""
    source, assets = fetch_source(), write_assets(BUILDS / "envtest")
    yield f"| package of controller-runtime {VERSION} | specs | passed | failed | pending | why |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for suite in SUITES:
        result = run(source, assets, suite)
        counts = (result.specs, result.passed, result.failed, result.skipped)
        reason = REASONS.get(suite, "; ".join(result.failures)) if result.failed else ""
        yield f"| `pkg/{suite}` | {' | '.join(map(str, counts))} | {reason} |"


def main() -> None:
    """Print the table."""
    for line in table():
        print(line, flush=True)


if __name__ == "__main__":
    main()

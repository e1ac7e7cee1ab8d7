"""Runs test suites of Go projects, unmodified, against `kapiserver envtest`.

`make test-go-suites` runs all of them and prints the tables of docs/go-suites.md; names of projects
in ARGS choose some. The exit code is 1 if a count differs from that in `go_projects.py`. The source
comes from the Go module proxy. The first run compiles each project, which takes minutes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients.toolchains import BUILDS

SECONDS = 1800
"""How long the suite of one package may take, its compilation included."""

_COUNTS = re.compile(r"-- (\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped")
_TEST = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
_GINKGO = re.compile(r"^=== RUN +(\S+)\nRunning Suite:", re.MULTILINE)
_FAILED = re.compile(r"^\s*\[FAIL\] (.*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Package:
    """A package with a suite: how many of its specs pass, and why the others do not.

    name      its folder in the module
    passed    the specs of Ginkgo and the Go tests that pass
    failed    those that fail
    skipped   those that the source turns off
    why       the cause of the failures
    unstable  how many of those that pass fail at times on a busy machine, for the cause in `why`
    """

    name: str
    passed: int
    failed: int = 0
    skipped: int = 0
    why: str = ""
    unstable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files of another module that a project's Makefile downloads, or that the project has in a
    nested module: its zip file lacks both.

    module  the module and its version
    source  a file or folder in it
    target  the path in the project
    """

    module: str
    source: str = "."
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A Go module with suites.

    added        files that the module's zip file lacks
    environment  variables of the tests
    """

    name: str
    module: str
    version: str
    packages: tuple[Package, ...]
    added: tuple[Files, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The numbers of specs and Go tests of a suite, and the names of those that failed."""

    passed: int
    failed: int
    skipped: int
    failures: tuple[str, ...]
    output: str

    def equals(self, package: Package) -> bool:
        """Report whether the numbers are those that are expected."""
        expected = (package.passed + package.failed, package.skipped)
        more_failures = self.failed - package.failed
        return (
            self.passed + self.failed,
            self.skipped,
        ) == expected and 0 <= more_failures <= package.unstable


def fetch_source(project: Project) -> Path:
    """Copy the source of a project to a folder, which tests may write to, and return it. Raises
    CalledProcessError without the Go module proxy."""
    folder = BUILDS / f"{project.name}-{project.version}"
    source = _download(f"{project.module}@{project.version}")
    if folder.exists():
        return folder
    temporary = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(source, temporary)
    _make_writable(temporary)
    for files in project.added:
        origin, target = _download(files.module) / files.source, temporary / files.target
        if origin.is_dir():
            shutil.copytree(origin, target, dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(origin, target)
        _make_writable(temporary)
    temporary.rename(folder)
    return folder


def _download(module: str) -> Path:
    command = ["go", "mod", "download", "-json", module]
    download = subprocess.run(command, cwd="/", stdout=subprocess.PIPE, check=True)
    return Path(json.loads(download.stdout)["Dir"])


def _make_writable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.suffix == ".sh" else 0o644)


def write_assets(folder: Path) -> Path:
    """Write the executables of envtest to a folder and return it."""
    command = [sys.executable, "-m", "kapiserver", "envtest", str(folder)]
    subprocess.run(command, check=True)
    return folder


def run(project: Project, source: Path, assets: Path, package: Package) -> Result:
    """Run the suite of one package and return its result."""
    settings = {
        "KUBEBUILDER_ASSETS": str(assets),
        "GOFLAGS": "-p=1 -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GINKGO_NO_COLOR": "TRUE",
    }
    command = ["go", "test", "-vet=off", "-count=1", "-v", f"-timeout={SECONDS - 60}s"]
    process = subprocess.run(
        ["nice", "-n", "10", *command, f"./{package.name}"],
        cwd=source,
        env=os.environ | settings | project.environment,
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
    parents = {
        name[: match.start()] for name in outcomes for match in re.finditer("/", name)
    }  # a subtest's own name may have slashes, too
    leaves = {
        name: outcome
        for name, outcome in outcomes.items()
        if name not in suites and name not in parents
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


def header(project: Project) -> Iterator[str]:
    """Yield the first lines of a project's table."""
    title = f"package of {project.name} {project.version}"
    yield f"| {title} | specs | passed | failed | skipped | why |"
    yield "| --- | --- | --- | --- | --- | --- |"


def row(package: Package) -> str:
    """Return the line of a package in its project's table."""
    counts = (package.passed, package.failed, package.skipped)
    numbers = " | ".join(map(str, (sum(counts), *counts)))
    return f"| `{package.name}` | {numbers} | {package.why} |"


def run_project(project: Project, assets: Path) -> bool:
    """Print the table of a project, a line as each suite ends; report whether all numbers are those
    that are expected. Raises CalledProcessError without the Go module proxy."""
    source = fetch_source(project)
    print("\n".join(header(project)), flush=True)
    is_expected = True
    for package in project.packages:
        result = run(project, source, assets, package)
        why = package.why if result.equals(package) else "; ".join(result.failures)
        measured = Package(package.name, result.passed, result.failed, result.skipped, why)
        print(row(measured), flush=True)
        if not result.equals(package):
            is_expected = False
            print(f"not as expected: {row(package)}", flush=True)
            log = BUILDS / f"{project.name}-{package.name.replace('/', '-')}.log"
            log.write_text(result.output)
            print(f"the output is in {log}", flush=True)
    return is_expected


def main(names: list[str]) -> int:
    """Run the projects of these names, or all, and return the exit code."""
    from tests.clients.go_projects import PROJECTS

    unknown = set(names) - {project.name for project in PROJECTS}
    if unknown:
        print(f"no such project: {', '.join(sorted(unknown))}")
        return 2
    if shutil.which("go") is None:
        print("skipped: go is not installed")
        return 0
    BUILDS.mkdir(parents=True, exist_ok=True)
    assets = write_assets(BUILDS / "envtest")
    results = []
    for project in PROJECTS:
        if names and project.name not in names:
            continue
        try:
            results.append(run_project(project, assets))
        except subprocess.CalledProcessError:
            print(f"skipped {project.name}: the Go module proxy does not have it, or is not there")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

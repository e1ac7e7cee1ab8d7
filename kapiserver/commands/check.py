"""`kapiserver check`: its flags, output and exit status.

`checking/` does the work and is loaded when the command runs.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from kapiserver.api.releases import NEWEST_MINOR, OLDEST_MINOR

if TYPE_CHECKING:
    from kapiserver.checking.finding import Finding
    from kapiserver.checking.options import CheckOptions

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

OUTPUTS = ("text", "json", "junit", "sarif", "github")
CLEAN, FOUND, FAILED = 0, 1, 2
"""The exit statuses: no finding that counts, findings, the command could not run."""

_PROGRESS_STEP = 100
"""Objects after which the progress is written again."""


def add_check_command(commands: _Commands) -> None:
    """Add the command and its flags."""
    check = commands.add_parser(
        "check",
        help="say what an API server would say to manifests",
        description="Apply manifests to an API server in memory and print what it says: unknown "
        "fields, broken rules, policies, quotas, removed and deprecated versions; and references "
        "and selectors that lead nowhere. Exit status: 0 without errors, 1 with errors, 2 if the "
        "command could not run.",
    )
    check.set_defaults(command=_check, verbose=0)
    check.add_argument(
        "paths", nargs="+", metavar="PATH",
        help="Files and folders of YAML or JSON; - is standard input. A folder with a "
        "kustomization is built. Required.",
    )  # fmt: skip
    check.add_argument(
        "--release", default=f"1.{NEWEST_MINOR}", type=_release, metavar="1.N",
        help=f"The Kubernetes release, from 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}. "
        "Default: %(default)s.",
    )  # fmt: skip
    _add_context_flags(check)
    check.add_argument(
        "--strict", action="store_true",
        help="Exit with status 1 for warnings, too. Off by default.",
    )  # fmt: skip
    check.add_argument(
        "--output", choices=OUTPUTS, default="text",
        help="The form of the findings on standard output. Default: %(default)s.",
    )  # fmt: skip


def _release(text: str) -> str:
    """Return the release 1.N of a version such as `v1.34.2`. Raises ArgumentTypeError."""
    match = re.fullmatch(r"v?1\.(\d{1,3})(?:\.\d{1,3})?", text)
    if match is None or not OLDEST_MINOR <= int(match[1]) <= NEWEST_MINOR:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a release from 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"
        )
    return f"1.{match[1]}"


def _add_context_flags(check: argparse.ArgumentParser) -> None:
    """Add the flags for what an administrator has applied before."""
    check.add_argument(
        "--crds", action="append", default=[], metavar="DIR",
        help="CustomResourceDefinitions that are there; may be repeated. Default: those among the "
        "checked files.",
    )  # fmt: skip
    check.add_argument(
        "--policies", action="append", default=[], metavar="DIR",
        help="Admission policies with their bindings and parameters that are there; may be "
        "repeated. Default: those among the checked files.",
    )  # fmt: skip
    check.add_argument(
        "--cluster", metavar="SNAPSHOT",
        help="The objects of a cluster: a file or folder of YAML, such as the output of kubectl "
        "get -o yaml --show-managed-fields, or a recording of a test server. Default: an empty "
        "cluster.",
    )  # fmt: skip
    check.add_argument(
        "--against", metavar="PATH",
        help="The files that were applied before: says what the server would refuse to change. "
        "Default: nothing was applied before.",
    )  # fmt: skip
    check.add_argument(
        "--as", dest="user", default="", metavar="USER",
        help="The user who applies the objects, such as system:serviceaccount:ci:deployer; needs "
        "roles of --rbac or --cluster. Default: an administrator.",
    )  # fmt: skip
    check.add_argument(
        "--rbac", action="append", default=[], metavar="DIR",
        help="Roles and bindings that are there; may be repeated. Default: those of every cluster.",
    )  # fmt: skip


def _check(options: argparse.Namespace) -> int:
    """Run the command and return its exit status; an error is one line on standard error."""
    try:
        return _run(options)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"kapiserver: {error}\n")
        return FAILED


def _run(options: argparse.Namespace) -> int:
    from kapiserver.apiserver.serving.process.memory import collecting_rarely

    with collecting_rarely():
        import asyncio

        from kapiserver.checking.check import check_reads
        from kapiserver.checking.outputs import OUTPUTS as WRITERS
        from kapiserver.checking.outputs import Report, count_text
        from kapiserver.checking.reading.inputs import read_inputs

        inputs = read_inputs(options.paths)
        findings = asyncio.run(check_reads(inputs.reads, _check_options(options)))
    sys.stdout.write(WRITERS[options.output](Report(findings=findings, files=inputs.files)))
    sys.stderr.write(f"{count_text(findings, inputs.objects)}\n")
    return _exit_status(findings, strict=options.strict)


def _check_options(options: argparse.Namespace) -> CheckOptions:
    """Read what the flags name. Raises OSError, ValueError."""
    from kapiserver.checking.options import CheckOptions
    from kapiserver.checking.reading.inputs import read_cluster, read_inputs
    from kapiserver.checking.silencing import read_file_rules

    cluster, recording = read_cluster(options.cluster) if options.cluster else ((), None)
    return CheckOptions(
        release=options.release,
        context=read_inputs([*options.crds, *options.policies, *options.rbac]).reads,
        cluster=cluster,
        recording=recording,
        against=read_inputs([options.against] if options.against else []).reads,
        user=options.user,
        file_rules=read_file_rules(options.paths),
        progress=_write_progress,
    )


def _exit_status(findings: list[Finding], *, strict: bool) -> int:
    counts = strict or any(finding.severity == "error" for finding in findings)
    return FOUND if findings and counts else CLEAN


def _write_progress(checked: int, objects: int) -> None:
    if sys.stderr.isatty() and (checked % _PROGRESS_STEP == 0 or checked == objects):
        end = "\n" if checked == objects else ""
        sys.stderr.write(f"\rchecked {checked} of {objects} objects{end}")
        sys.stderr.flush()

"""The operators of the corpus: each has one fault, and a twin without it.

A case names the operator's program, the workload that it runs, what has to be done to it so that
the fault shows, and a text that the report of the fault has. `python -m tests.explore.corpus`
explores the operators in Python, or their twins, and prints a line for each.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tests.explore.operators.kube import Operator

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
SECONDS = 20
"""Time in which a fault has to be found, after the plain runs."""

PYTHON, KOPF, NODE, GO = "python", "kopf", "client-node", "controller-runtime"


class Case(NamedTuple):
    """An operator and its fault.

    name            the path of a module in `operators`, or the name of a Node or Go program
    workload        a file in `workloads`
    kinds           the kinds of plans that show the fault, as regular expressions of sentences
    evidence        a regular expression for the report of the fault
    options         more options of `kapiserver explore`
    twin_options    those of the twin, if they differ
    """

    name: str
    workload: str
    kinds: str
    evidence: str
    language: str = PYTHON
    options: tuple[str, ...] = ()
    twin_options: tuple[str, ...] | None = None


def _roles(account: str) -> tuple[str, ...]:
    user = f"system:serviceaccount:default:{account}"
    return ("--crds", str(FOLDER / "roles"), "--as", user)


def _first_release() -> tuple[str, ...]:
    module = "tests.explore.operators.states.renamed_label"
    return ("--before", f"{sys.executable} -m {module} --release=1")


CASES = (
    Case(
        "crashes/second_secret", "create", "killed", r"secrets default/db-internal-tls: is missing"
    ),
    Case("crashes/resize", "grow", "killed", r"persistentvolumeclaims default/data-db-0"),
    Case(
        "crashes/finalizer_first",
        "delete",
        "killed|refused",
        r"persistentvolumeclaims default/data-db",
    ),
    Case("crashes/decommission", "scale_down", "killed", r"persistentvolumeclaims default/db-1"),
    Case("crashes/port_allocation", "two", "killed|response", r"3000[12]"),
    Case("crashes/already_exists", "create", "killed|response", r"Failed"),
    Case("crashes/generated_job", "create", "killed|response", r"jobs\.batch", KOPF),
    Case("crashes/memo", "grow", "killed", r"'settings'", KOPF),
    Case(
        "status-first",
        "create",
        "killed|refused",
        r"configmaps default/db-[01]: is missing",
        GO,
    ),
    Case(
        "stale/deletion",
        "recreate",
        "saw the state",
        r"deleted and recreated persistentvolumeclaims",
    ),
    Case("stale/shrink", "grow", "saw the state", r"deleted.*data-db"),
    Case(
        "stale/orphans",
        "two",
        "saw the state",
        r"deleted.*persistentvolumeclaims default/data-second",
    ),
    Case(
        "stale/scale_down",
        "scale_down_up",
        "saw the state",
        r"persistentvolumeclaims default/data-db-1",
    ),
    Case(
        "missed/recreated",
        "recreate",
        "missed|killed before step",
        r"configmaps default/db-settings",
    ),
    Case(
        "missed/deleted_child",
        "child_deleted",
        "missed|killed before step",
        r"configmaps default/db-member",
    ),
    Case("missed/no_finalizer", "delete", "missed|killed", r"data-db", KOPF),
    Case("missed/secret_order", "with_secret", "late", r"Failed"),
    Case("creation-by-cache", "scale_up", "saw the state|late", r"configmaps default/db-", GO),
    Case("conflicts/replaced_annotations", "grow", "writer", r"writer|annotations"),
    Case("conflicts/give_up", "grow", "writer|409", r"example.com/allocated"),
    Case("put-without-version", "grow", "writer", r"configmaps default/db-settings", NODE),
    Case("refusals/quota", "create", "refus|403|quota", r"Failed"),
    Case(
        "refusals/permission",
        "create",
        "killed",
        r"may not get configmaps",
        options=_roles("operator"),
        twin_options=_roles("repaired"),
    ),
    Case("refusals/immediate_retry", "grow", "writer|409", r"without an effect|settle|rate"),
    Case("ignored-error", "delete", "refused", r"persistentvolumeclaims default/data-db", NODE),
    Case("instances/overlap", "create", "ran twice|saw the state", r"secrets default/db-token"),
    Case("instances/lost_lease", "create", "paused", r"jobs\.batch"),
    Case("time/token", "agent", "clock", r"configmaps default/db-settings"),
    Case(
        "time/kubeconfig",
        "grow",
        "expired",
        r"configmaps default/db-settings",
        # The plan comes last, and a run waits for a minute until the file is read again.
        options=("--plan", "expire@step::::2=token"),
    ),
    Case("states/renamed_label", "create", "", r"secrets default/db-", options=_first_release()),
    Case("states/label_removed", "vary", "", r"labels", options=("--vary",)),
    Case("states/wedged", "vary", "", r"phase|size", options=("--vary",)),
    Case("states/scale_down_claims", "vary", "", r"persistentvolumeclaims", options=("--vary",)),
    Case("states/absent_field", "vary", "", r"exited|KeyError", options=("--vary",)),
    Case("loops/more_watches", "create", "left alone", r"more and more requests"),
    Case(
        "loops/two_writers",
        "vary",
        "",
        r"set back|settle",
        options=("--vary", "--plans", "8"),  # each run without an end takes half a minute
    ),
)


class Report(NamedTuple):
    """What `kapiserver explore` said: its exit status, its output and how long it took."""

    status: int
    text: str
    seconds: float

    def shows(self, case: Case) -> bool:
        """Whether a paragraph reports the fault of the case, or refers to one that does."""
        paragraphs = self.text.split("\n\n")
        evidence = f"As above|{case.evidence}"
        return (
            self.status == 1
            and any(
                re.search(case.kinds, text.partition("\n")[0]) and re.search(evidence, text)
                for text in paragraphs
            )
            and any(re.search(case.evidence, text) for text in paragraphs)
        )


def run_case(
    case: Case,
    command: Sequence[str],
    *,
    repaired: bool,
    seconds: int = SECONDS,
    more: Sequence[str] = (),
) -> Report:
    """Explore an operator, or its twin, with its command."""
    options = case.options if not repaired or case.twin_options is None else case.twin_options
    arguments = [
        *(sys.executable, "-m", "kapiserver", "explore"),
        *("--workload", str(FOLDER / "workloads" / f"{case.workload}.yaml")),
        *("--crds", str(FOLDER / "crds"), "--seconds", str(seconds), *options, *more),
        *("--", *command, *(["--repaired"] if repaired else [])),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    start = time.monotonic()
    process = subprocess.run(
        arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    text = process.stdout + process.stderr
    return Report(process.returncode, text, time.monotonic() - start)


def python_command(case: Case) -> list[str]:
    """Return the command of an operator in Python."""
    module = case.name.replace("/", ".")
    return [sys.executable, "-m", f"tests.explore.operators.{module}"]


def in_process_words(case: Case) -> list[str]:
    """Return what runs an operator in plain Python in the process of the server."""
    name = f"tests.explore.operators.{case.name.replace('/', '.')}"
    classes = [
        value
        for value in vars(import_module(name)).values()
        if isinstance(value, type) and issubclass(value, Operator) and value.__module__ == name
    ]
    return ["tests.explore.operators.in_process:run", f"{name}:{classes[-1].__name__}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="the cases; default: all in Python")
    parser.add_argument("--twins", action="store_true", help="explore the twins")
    parser.add_argument("--in-process", action="store_true", help="without processes, if possible")
    parser.add_argument("--reports", action="store_true", help="print the whole reports")
    options = parser.parse_args()
    for case in CASES:
        if case.language in (NODE, GO) or (options.names and case.name not in options.names):
            continue
        # The earlier version of an operator is a command.
        runs_here = (
            options.in_process and case.language == PYTHON and "--before" not in case.options
        )
        command = in_process_words(case) if runs_here else python_command(case)
        more = ("--in-process",) if runs_here else ()
        report = run_case(case, command, repaired=options.twins, more=more)
        is_found = report.shows(case)
        result = ("found" if is_found else "not found") if report.status else "no report"
        plans = report.text.splitlines()[-1]
        print(f"{case.name}: {result} in {report.seconds:.0f} s; {plans}", flush=True)
        if options.reports:
            print(report.text)


if __name__ == "__main__":
    main()

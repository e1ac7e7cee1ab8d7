"""`kapiserver doctor`: its flags and exit status.

`doctor/` does the work and is loaded when the command runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kapiserver.flags import add_serve_flags
from kapiserver.server_config import config_of

if TYPE_CHECKING:
    from kapiserver.doctor.finding import Report

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

HEALTHY, ILL, FAILED = 0, 1, 2
"""The exit statuses: no finding that counts, findings, the command could not run."""


def add_doctor_command(commands: _Commands) -> None:
    """Add the command and its flags: those of `serve`, and its own."""
    doctor = commands.add_parser(
        "doctor",
        help="say what is wrong with a server and what to do",
        description="Look at the configuration, certificates, files, limits, clock and store of a "
        "server, and at the server itself if it runs: health, webhooks, APIServices, deprecated "
        "versions, sizes. Takes the flags of `kapiserver serve`, besides its own. With "
        "--kubeconfig, look at the API server of any cluster from outside. Nothing is changed. "
        "Exit status: 0 without errors, 1 with errors, 2 if the command could not run.",
    )
    doctor.set_defaults(command=_doctor)
    own = doctor.add_argument_group("doctor")
    own.add_argument(
        "--kubeconfig", metavar="FILE",
        help="Look at the API server of this file's current context, and at nothing on this "
        "machine. Default: the server of the flags below.",
    )  # fmt: skip
    own.add_argument(
        "--output", choices=("text", "json"), default="text",
        help="The form of the report on standard output. Default: %(default)s.",
    )  # fmt: skip
    own.add_argument(
        "--strict", action="store_true",
        help="Exit with status 1 for warnings, too. Off by default.",
    )  # fmt: skip
    own.add_argument(
        "--previous", type=Path, metavar="FILE",
        help="An earlier report of --output json, to say which tables have grown since. "
        "Default: growth is not examined.",
    )  # fmt: skip
    add_serve_flags(doctor)


def _doctor(options: argparse.Namespace) -> int:
    """Run the command and return its exit status; an error is one line on standard error."""
    try:
        report = _examine(options)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"kapiserver: {error}\n")
        return FAILED
    from kapiserver.doctor.outputs import OUTPUTS, summary

    sys.stdout.write(OUTPUTS[options.output](report))
    sys.stderr.write(f"{summary(report)}\n")
    has_warnings = options.strict and report.count("warning") > 0
    return ILL if report.count("error") or has_warnings else HEALTHY


def _examine(options: argparse.Namespace) -> Report:
    """Return the report. Raises OSError, ValueError."""
    from kapiserver.doctor.examination import Examination
    from kapiserver.doctor.outputs import read_figures
    from kapiserver.storage.concurrency.clock import SystemClock

    previous = read_figures(options.previous) if options.previous is not None else {}
    examination = Examination(SystemClock(), previous)
    if options.kubeconfig is not None:
        examination.examine_server(options.kubeconfig)
    else:
        examination.examine_installation(config_of(options), options.data_dir)
    return examination.report()

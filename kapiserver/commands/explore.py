"""`kapiserver explore`: its flags, output and exit status.

`exploring/` does the work and is loaded when the command runs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kapiserver.flags.values import positive

if TYPE_CHECKING:
    from kapiserver.exploring.findings import Options, Progress
    from kapiserver.exploring.planning.plans import Plan
    from kapiserver.exploring.running.assignment import Setup
    from kapiserver.exploring.running.operators.programs import Launcher

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

CLEAN, FOUND, FAILED = 0, 1, 2
"""The exit statuses: no fault, faults, the workload does not work without faults or the command
could not run."""
DEFAULT_SECONDS = 60.0
OUTPUTS = ("text", "json", "junit")


def add_explore_command(commands: _Commands) -> None:
    """Add the command and its flags."""
    explore = commands.add_parser(
        "explore",
        help="find the faults of an operator by crashing it and lying to it",
        description="Run a workload against an operator again and again: three times as it is, "
        "then each time with something done to the operator. Print what the operator then did "
        "wrong. Exit status: 0 without faults, 1 with faults, 2 if the workload does not reach its "
        "end or does not settle as it is, or the command could not run.",
    )
    explore.set_defaults(command=_explore, verbose=0)
    explore.add_argument(
        "--workload", type=Path, required=True, metavar="FILE",
        help="YAML file with the steps of the workload. Required.",
    )  # fmt: skip
    explore.add_argument(
        "--as", dest="user", default="", metavar="USER",
        help="The user that the operator is, such as system:serviceaccount:default:operator; needs "
        "roles in --crds. Default: an administrator.",
    )  # fmt: skip
    explore.add_argument(
        "--before", default="", metavar="COMMAND",
        help="The command of an earlier version of the operator, which runs the first steps before "
        "an upgrade. Default: no upgrades.",
    )  # fmt: skip
    explore.add_argument(
        "--stale-reads", action="store_true",
        help="In a stale view, show old objects to reads of the newest revision, too. Off by "
        "default: only lists with resourceVersion=0 and watches are old.",
    )  # fmt: skip
    _add_server_flags(explore)
    _add_limits(explore)
    explore.add_argument(
        "--vary", action="store_true",
        help="Change the properties of the custom resources, one after the other, too, with values "
        "from their schemas. Off by default.",
    )  # fmt: skip
    explore.add_argument(
        "--in-process", action="store_true",
        help="The words after -- are MODULE:FUNCTION ARG...: a coroutine function of Python that "
        "runs the operator until it is cancelled. It runs in a thread, and its waits take no time. "
        "Off by default.",
    )  # fmt: skip
    explore.add_argument(
        "--invariants", default="", metavar="MODULE",
        help="Python module, or its file, whose public functions take the objects and say what "
        "must be true at each revision. Default: none.",
    )  # fmt: skip
    explore.add_argument(
        "--output", choices=OUTPUTS, default="text",
        help="The form of the report on standard output. Default: %(default)s.",
    )  # fmt: skip
    explore.add_argument(
        "--save", type=Path, metavar="DIR",
        help="Directory for the recordings of failing plans, for kapiserver replay. Default: none "
        "are saved.",
    )  # fmt: skip
    explore.add_argument(
        "operator", nargs=argparse.REMAINDER, metavar="-- COMMAND ARG...",
        help="The operator's command. It gets the variable KUBECONFIG. Required.",
    )  # fmt: skip


def _add_server_flags(explore: argparse.ArgumentParser) -> None:
    """Add the flags for what the servers are like."""
    explore.add_argument(
        "--crds", action="append", default=[], metavar="DIR",
        help="CustomResourceDefinitions and other objects that are there before the operator, such "
        "as its roles; may be repeated. Default: those that the workload applies.",
    )  # fmt: skip
    explore.add_argument(
        "--simulate", action="store_true",
        help="Give the workload nodes and pods. Off by default.",
    )  # fmt: skip
    explore.add_argument(
        "--setting", action="append", default=[], metavar="NAME=VALUE",
        help="A setting of the server, such as emulated_version=1.34, or controllers=-job,* for an "
        "operator that replaces a controller; may be repeated. Default: those of TestServer.",
    )  # fmt: skip


def _add_limits(explore: argparse.ArgumentParser) -> None:
    explore.add_argument(
        "--seconds", type=positive, default=DEFAULT_SECONDS, metavar="N",
        help="Seconds after the first runs, after which no plan is started. Default: 60.",
    )  # fmt: skip
    explore.add_argument(
        "--plans", type=positive, metavar="N", help="Plans to run at most. Default: all.",
    )  # fmt: skip
    explore.add_argument(
        "--plan", action="append", default=[], metavar="PLAN",
        help="A plan to run in place of all others, as a report names it; may be repeated. "
        "Default: the plans that the plain runs suggest.",
    )  # fmt: skip
    explore.add_argument(
        "--seed", type=int, default=0, metavar="N",
        help="Orders plans that are equally promising. Default: 0.",
    )  # fmt: skip
    explore.add_argument(
        "--processes", type=positive, metavar="N",
        help="How many operators run at the same time, each with a server in a process of its own. "
        "Default: one for each CPU.",
    )  # fmt: skip


def _explore(options: argparse.Namespace) -> int:
    """Run the command and return its exit status; an error is one line on standard error."""
    try:
        return _run(options)
    except (OSError, ValueError, ImportError) as error:
        sys.stderr.write(f"kapiserver: {error}\n")
        return FAILED


def _run(options: argparse.Namespace) -> int:
    import asyncio

    from kapiserver.exploring.explore import explore
    from kapiserver.exploring.outputs import OUTPUTS as WRITERS
    from kapiserver.exploring.outputs import Report, count_text
    from kapiserver.exploring.running.worker import process_settings

    command = options.operator[options.operator[:1] == ["--"] :]  # later ones are the operator's
    if not command:
        raise ValueError("write the operator's command after --")
    with process_settings():
        exploration = asyncio.run(
            explore(_setup(options, command), _limits(options), _write_progress)
        )
    if exploration.problem:
        problem = f"the workload does not work as it is: {exploration.problem}"
        sys.stderr.write(f"kapiserver: {problem}\n")
        return FAILED
    report = Report(
        exploration=exploration, command=lambda plan: _repeat_command(options, command, plan)
    )
    sys.stdout.write(WRITERS[options.output](report))
    sys.stderr.write(f"{count_text(exploration)}\n")
    return FOUND if exploration.findings else CLEAN


def _setup(options: argparse.Namespace, command: list[str]) -> Setup:
    """Return what all runs have in common. Raises OSError, ValueError."""
    from kapiserver.exploring.running.assignment import Setup
    from kapiserver.exploring.steps import read_workload

    before = shlex.split(options.before)
    return Setup(
        launcher=_launcher(options, command),
        steps=read_workload(options.workload),
        sources=options.crds,
        user=options.user,
        settings=_settings(options),
        stale_reads=options.stale_reads,
        earlier_version=_launcher(options, before) if before else None,
    )


def _settings(options: argparse.Namespace) -> Mapping[str, Any]:
    """Return the settings of the servers. Raises ValueError for those that there are not."""
    from kapiserver.testing.settings import parse_setting, server_config

    settings = {"simulate": options.simulate, **dict(map(parse_setting, options.setting))}
    try:
        server_config(Path(), settings)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return settings


def _launcher(options: argparse.Namespace, command: Sequence[str]) -> Launcher:
    """Return what starts a command, or a function in this process. Raises ValueError."""
    from functools import partial

    from kapiserver.exploring.running.operators.in_process import ThreadLauncher, running_function
    from kapiserver.exploring.running.operators.programs import CommandLauncher

    if not options.in_process:
        return CommandLauncher(command)
    reference, *arguments = command
    if ":" not in reference:
        raise ValueError(f"{reference!r} is not a function; write module:function")
    return ThreadLauncher(partial(running_function, reference, arguments))


def _limits(options: argparse.Namespace) -> Options:
    """Return the limits of the exploration. Raises OSError, ValueError, ImportError."""
    from kapiserver.exploring.findings import Options
    from kapiserver.exploring.judging.invariants import load_invariants
    from kapiserver.exploring.planning.plans import parse_plan

    return Options(
        seconds=options.seconds,
        plans=options.plans,
        seed=options.seed,
        processes=options.processes or os.cpu_count() or 1,
        vary=options.vary,
        only=[parse_plan(text) for text in options.plan],
        invariants=load_invariants(options.invariants) if options.invariants else (),
        recordings=options.save,
    )


def _repeat_command(options: argparse.Namespace, command: list[str], plan: Plan) -> str:
    """Return the command that repeats a plan, with all options on which its run depends."""
    words = ["kapiserver", "explore", "--workload", str(options.workload)]
    for path in options.crds:
        words += ["--crds", path]
    for setting in options.setting:
        words += ["--setting", setting]
    for flag, value in (
        ("--as", options.user),
        ("--before", options.before),
        ("--invariants", options.invariants),
        ("--processes", options.processes),
        ("--save", options.save),
    ):
        words += [flag, str(value)] if value else []
    words += ["--stale-reads"] if options.stale_reads else []
    words += ["--simulate"] if options.simulate else []
    words += ["--in-process"] if options.in_process else []
    words += ["--plan", plan.to_text()] if plan.injections else []
    return shlex.join([*words, "--", *command])


def _write_progress(progress: Progress) -> None:
    if sys.stderr.isatty():
        end = "" if progress.left else "\n"
        text = f"{progress.done} plans done, {progress.left} left, {progress.failed} failed"
        sys.stderr.write(f"\r{text}{end}")
        sys.stderr.flush()

"""`kapiserver envtest|testing-server|replay|ui`: flags, output and exit codes of these commands.

`testing/` does the work and is loaded when a command runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kapiserver.api.releases import NEWEST_MINOR, OLDEST_MINOR
from kapiserver.flags.values import port, positive

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_testing_commands(commands: _Commands) -> None:
    """Add the commands and their flags."""
    _add_envtest(commands)
    _add_testing_server(commands)
    _add_replay(commands)
    _add_ui(commands)


def _add_envtest(commands: _Commands) -> None:
    envtest = commands.add_parser(
        "envtest",
        help="write kube-apiserver, etcd and kubectl for the envtest of controller-runtime",
        description="Write the executables kube-apiserver, etcd and kubectl to a directory, for "
        "Go tests with sigs.k8s.io/controller-runtime/pkg/envtest: export "
        "KUBEBUILDER_ASSETS=$(kapiserver envtest --print). kube-apiserver starts kapiserver; "
        "kubectl runs the one on PATH, or prints that there is none. Environment variables of the "
        "tests: KAPISERVER_CONTROLLERS names the controllers to run, as --controllers of "
        "kapiserver serve does, by default none; KAPISERVER_VERSION is the Kubernetes release to "
        f"emulate, from 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}.",
    )
    envtest.set_defaults(command=_envtest, verbose=0)
    envtest.add_argument(
        "directory", type=Path, nargs="?", metavar="DIR",
        help="Directory to write to; created if missing. Default: with --print, a directory of "
        "this version of kapiserver in the user's cache directory.",
    )  # fmt: skip
    envtest.add_argument(
        "--print", action="store_true", dest="print_directory",
        help="Print the path of the directory on standard output. Off by default.",
    )  # fmt: skip


def _envtest(options: argparse.Namespace) -> int:
    from kapiserver.flags import add_kube_apiserver_flags
    from kapiserver.testing.envtest.executables import cache_directory, write_executables

    if options.directory is None and not options.print_directory:
        raise ValueError("DIR or --print must be set")
    directory = (options.directory or cache_directory()).absolute()
    kube_apiserver = argparse.ArgumentParser(
        prog="kube-apiserver",
        usage="kube-apiserver [flags]",
        description="kapiserver with the flags of kube-apiserver, for envtest. Flags that are not "
        "listed here are ignored with a warning.",
    )
    add_kube_apiserver_flags(kube_apiserver)
    kubectl = write_executables(directory, kube_apiserver.format_help())
    if kubectl is None:
        sys.stderr.write("kapiserver: no kubectl on PATH; envtest's KubeCtl does not work\n")
    if options.print_directory:
        sys.stdout.write(f"{directory}\n")
    return 0


def _add_testing_server(commands: _Commands) -> None:
    command = commands.add_parser(
        "testing-server",
        help="run a test server for tests in any language",
        description="Run a test server in memory. When it is ready, it prints one line of JSON: "
        "url, insecureUrl, ca, token, kubeconfig, pid, controlUrl, controlToken, and "
        "with --setting enable_ui=true pageUrl. At controlUrl it "
        "takes commands for time and other controls; GET /openapi.json there documents them. It "
        "ends at SIGTERM and SIGINT, and when its standard input is a pipe that is closed, as "
        "when the parent process ends.",
    )
    command.set_defaults(command=_testing_server)
    command.add_argument(
        "--bind-address", default="127.0.0.1", metavar="IP",
        help="IP address on which to serve the Kubernetes API and the control API; 0.0.0.0 for a "
        "container. Default: %(default)s.",
    )  # fmt: skip
    command.add_argument(
        "--secure-port", type=port, default=0, metavar="PORT",
        help="Port of the Kubernetes API. Default: 0, a free port.",
    )  # fmt: skip
    command.add_argument(
        "--control-port", type=port, default=0, metavar="PORT",
        help="Port of the control API, plain HTTP. Default: 0, a free port.",
    )  # fmt: skip
    command.add_argument(
        "--kubeconfig-out", type=Path, metavar="FILE",
        help="File to write the administrator's kubeconfig to. Default: a temporary file.",
    )  # fmt: skip
    command.add_argument(
        "--ready-file", type=Path, metavar="FILE",
        help="File to write the line of JSON to as well, when the server is ready. Default: none.",
    )  # fmt: skip
    command.add_argument(
        "--parent-pid", type=positive, metavar="PID",
        help="End when this process has ended. Default: only standard input ends the server.",
    )  # fmt: skip
    command.add_argument(
        "--setting", action="append", default=[], metavar="NAME=VALUE",
        help="A setting of TestServer, such as rbac=false, emulated_version=1.34 or "
        "controllers=garbage-collector-controller; may be repeated. Default: those of TestServer.",
    )  # fmt: skip
    command.add_argument(
        "-v", "--verbose", action="count", default=0,
        help="Log each request to standard error; -vv logs debug messages too. By default (0) "
        "only warnings and errors are logged.",
    )  # fmt: skip


def _testing_server(options: argparse.Namespace) -> int:
    from kapiserver.testing.control_api.testing_server import run_testing_server
    from kapiserver.testing.settings import parse_setting

    settings = {
        "bind_address": options.bind_address,
        "secure_port": options.secure_port,
        "kubeconfig_out": options.kubeconfig_out,
        **dict(map(parse_setting, options.setting)),
    }
    run_testing_server(
        settings,
        control_port=options.control_port,
        ready_file=options.ready_file,
        parent_pid=options.parent_pid,
        verbosity=options.verbose,
    )
    return 0


def _add_replay(commands: _Commands) -> None:
    replay = commands.add_parser(
        "replay",
        help="serve the recording of a failed test again, read-only",
        description="Serve the objects that a test server had when a test failed, read-only, to "
        "kubectl and other clients. pytest writes a recording for each failed test, and kapiserver "
        "explore --save for each plan that fails; the report names the file. Lists with "
        "resourceVersion and resourceVersionMatch=Exact show every revision of the recording.",
    )
    replay.set_defaults(command=_replay, verbose=0)
    replay.add_argument(
        "file", type=Path, metavar="FILE",
        help="The recording that a report names. Required.",
    )  # fmt: skip
    replay.add_argument(
        "--at", type=positive, metavar="REVISION",
        help="Serve the objects as they were at this resource version. Default: the last one.",
    )  # fmt: skip
    replay.add_argument(
        "--print", action="store_true", dest="print_timeline",
        help="Print the requests and writes in the order of their times, and serve nothing. Off "
        "by default.",
    )  # fmt: skip
    replay.add_argument(
        "--secure-port", type=port, default=0, metavar="PORT",
        help="Port to serve on. Default: 0, a free port.",
    )  # fmt: skip
    replay.add_argument(
        "--kubeconfig-out", type=Path, metavar="FILE",
        help="File to write the kubeconfig to. Default: a temporary file.",
    )  # fmt: skip


def _replay(options: argparse.Namespace) -> int:
    from kapiserver.testing.history.recorder import read
    from kapiserver.testing.history.replay import run_replay, timeline

    if options.print_timeline:
        sys.stdout.write(timeline(read(options.file)))
        return 0
    run_replay(
        options.file,
        at=options.at,
        secure_port=options.secure_port,
        kubeconfig=options.kubeconfig_out,
    )
    return 0


def _add_ui(commands: _Commands) -> None:
    ui = commands.add_parser(
        "ui",
        help="show the recording of a failed test as a page",
        description="Serve the recording of a failed test, read-only, with a page that has a "
        "slider over its time: the objects at each write, their history, and a timeline of what "
        "controllers and the test did. Open the link that is printed; it can be used once.",
    )
    ui.set_defaults(command=_ui, verbose=0)
    ui.add_argument(
        "file", type=Path, metavar="RECORDING",
        help="The recording that the report of a failed test names. This is required.",
    )  # fmt: skip
    ui.add_argument(
        "--secure-port", type=port, default=0, metavar="PORT",
        help="Port on which to serve the page and the API. Default: 0, a free port.",
    )  # fmt: skip


def _ui(options: argparse.Namespace) -> int:
    from kapiserver.testing.history.replay import run_replay

    run_replay(options.file, secure_port=options.secure_port, enable_ui=True)
    return 0

"""The program kube-apiserver of `kapiserver envtest`: `kapiserver serve` with envtest's flags.

Takes every flag of kube-apiserver; a flag that `kapiserver serve` does not have is ignored with a
warning. Objects are stored in the data directory of the program etcd, which `--etcd-servers` names.
Mirrors what the package controlplane of controller-runtime passes to kube-apiserver.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kapiserver.apiserver.admission.plugins import ADMISSION_PLUGIN_NAMES
from kapiserver.apiserver.feature_gates import GATES
from kapiserver.apiserver.version import emulated_minor, git_version
from kapiserver.cli import run_server
from kapiserver.flags import add_kube_apiserver_flags
from kapiserver.flags.logs import klog_level
from kapiserver.flags.storage import unsupported_storage_flags
from kapiserver.flags.values import names, simulated_nodes
from kapiserver.server_config import check_controllers
from kapiserver.testing.envtest.etcd import PARENT_SECONDS, ask_data_dir

CONTROLLERS_VARIABLE = "KAPISERVER_CONTROLLERS"
"""The environment variable with the value of `--controllers`. Without both, none of
kube-controller-manager's controllers runs, because envtest does not have that program."""
SIMULATE_VARIABLE = "KAPISERVER_SIMULATE"
"""The environment variable with the number of nodes to simulate; all controllers run then, unless
KAPISERVER_CONTROLLERS or `--controllers` says otherwise. Without it nothing is simulated."""
VERSION_VARIABLE = "KAPISERVER_VERSION"
"""The environment variable with the release to emulate, such as 1.33 or 1.33.2."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM, or until the parent process ends, and return the exit code. An error is
    a line on standard error."""
    threading.Thread(target=_wait_for_parent, args=(os.getppid(),), daemon=True).start()
    try:
        options = serve_options(sys.argv[1:] if arguments is None else arguments)
        if options.version:
            minor = emulated_minor(",".join(options.emulated_version))
            sys.stdout.write(f"Kubernetes {git_version(minor)}\n")
            return 0
        return run_server(options)
    except Exception as error:
        _print(str(error))
        return 1


def _wait_for_parent(parent: int) -> None:
    """End this process as SIGTERM does when its parent has ended: a test binary that was killed."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def serve_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of `kapiserver serve` for flags of kube-apiserver."""
    parser = argparse.ArgumentParser(prog="kube-apiserver", allow_abbrev=False)
    add_kube_apiserver_flags(parser)
    parser.add_argument("--own-cert-dir", type=Path)
    parser.add_argument("--version", action="store_true")
    nodes = _nodes_of_environment()
    parser.set_defaults(controllers=_controllers_of_environment(simulate=bool(nodes)))
    if nodes:
        parser.set_defaults(simulate=True, simulate_nodes=nodes)
    verbose, other_arguments = _log_level(arguments)
    options, unknown = parser.parse_known_args(other_arguments)
    options.verbose = verbose
    for text in unknown:
        if text:
            _print(f"warning: ignored {text}, which kapiserver does not have")
    for name, error in list(unsupported_storage_flags(options)):
        _print(f"warning: ignored {error}")
        setattr(options, name, parser.get_default(name))
    options.emulated_version = options.emulated_version or list(_release_of_environment())
    options.feature_gates = list(_known_gates(options.feature_gates))
    for name in ("enable_admission_plugins", "disable_admission_plugins"):
        setattr(options, name, tuple(_known_plugins(getattr(options, name))))
    _set_certificates(options)
    _set_storage(options)
    return options


def _log_level(arguments: Sequence[str]) -> tuple[int, list[str]]:
    """Return the verbosity of -v, which klog reads as a level, and the other arguments."""
    parser = argparse.ArgumentParser(prog="kube-apiserver", add_help=False, allow_abbrev=False)
    parser.add_argument("-v", "--v", type=klog_level, default=0)
    options, other_arguments = parser.parse_known_args(arguments)
    return options.v, other_arguments


def _nodes_of_environment() -> int:
    """Return the number of nodes to simulate that the environment variable says. Raises
    ValueError."""
    text = os.environ.get(SIMULATE_VARIABLE, "").strip() or "0"
    try:
        return simulated_nodes(text)
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"{SIMULATE_VARIABLE}: {error}") from None


def _controllers_of_environment(*, simulate: bool) -> tuple[str, ...]:
    """Return the controllers that the environment variable names; without it, all of a cluster that
    is simulated, and otherwise none. Raises ValueError."""
    controllers = names(os.environ.get(CONTROLLERS_VARIABLE, "*" if simulate else ""))
    try:
        check_controllers(controllers, simulate=simulate)
    except ValueError as error:
        raise ValueError(f"{CONTROLLERS_VARIABLE}: {error}") from None
    return controllers


def _release_of_environment() -> Iterator[str]:
    """Yield the release that the environment variable names, if it is set, without the patch
    version of a suite's ENVTEST_K8S_VERSION. Raises ValueError."""
    version = os.environ.get(VERSION_VARIABLE, "").strip()
    if not version:
        return
    release = ".".join(version.split(".")[:2])
    try:
        emulated_minor(release)
    except ValueError as error:
        raise ValueError(f"{VERSION_VARIABLE}: {error}") from None
    yield release


def _known_gates(values: Sequence[str]) -> Iterator[str]:
    for setting in filter(None, ",".join(values).split(",")):
        if setting.partition("=")[0].strip().removeprefix("kube:") in GATES:
            yield setting
        else:
            _print(f"warning: ignored the feature gate {setting}, which kapiserver does not have")


def _known_plugins(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name in ADMISSION_PLUGIN_NAMES:
            yield name
        else:
            _print(f"warning: ignored the admission plugin {name}, which kapiserver does not have")


def _set_certificates(options: argparse.Namespace) -> None:
    """Serve with the certificate that envtest has written to --cert-dir, as kube-apiserver does."""
    folder: Path = options.cert_dir or Path("/var/run/kubernetes")
    certificate, key = folder / "apiserver.crt", folder / "apiserver.key"
    if options.tls_cert_file is None and certificate.exists() and key.exists():
        options.tls_cert_file, options.tls_private_key_file = certificate, key
    if options.tls_cert_file is not None and options.own_cert_dir is not None:
        options.cert_dir = options.own_cert_dir
    options.data_dir = folder


def _set_storage(options: argparse.Namespace) -> None:
    """Store objects in the data directory of the program etcd; a real etcd stores them itself."""
    if not options.etcd_servers:
        return
    data_dir = ask_data_dir(options.etcd_servers[0])
    if data_dir:
        options.etcd_servers = None
        options.storage = f"sqlite:{Path(data_dir) / 'kapiserver.db'}"
        options.unsafe_no_fsync = True


def _print(text: str) -> None:
    sys.stderr.write(f"kube-apiserver: {text}\n")


if __name__ == "__main__":
    sys.exit(main())

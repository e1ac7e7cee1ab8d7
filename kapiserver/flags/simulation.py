"""The flags of simulated nodes and pods."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.flags.values import DEFAULTS, simulated_nodes


def add_simulation_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags."""
    group.add_argument(
        "--simulate", action="store_true",
        help="Let the cluster move without containers: run the workload controllers, a scheduler "
        "and simulated nodes, whose pods run, become ready and end. --controllers=-NAME,* leaves a "
        "controller out, -kube-scheduler,* the scheduler. Off by default.",
    )  # fmt: skip
    group.add_argument(
        "--simulate-nodes", type=simulated_nodes, default=DEFAULTS.simulate_nodes, metavar="N",
        help="Number of nodes that --simulate makes, from 0 to 10000. Default: 1, or 0 with "
        "--simulate-nodes-from.",
    )  # fmt: skip
    group.add_argument(
        "--simulate-nodes-from", type=Path, metavar="FILE",
        help="YAML or JSON file with Node objects that --simulate makes, such as the output of "
        "kubectl get nodes -o yaml. The annotation simulation.kapiserver.dev/count makes several "
        "nodes of one. Default: no file.",
    )  # fmt: skip
    group.add_argument(
        "--simulate-host-access", action="store_true",
        help="Obey kwok's objects Logs, Exec, Attach and PortForward, by which everybody who may "
        "create them reads files, runs programs and opens connections as the server's user. Off by "
        "default.",
    )  # fmt: skip

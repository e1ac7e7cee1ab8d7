"""The flags of admission plugins."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.flags.values import names


def add_admission_plugin_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags that choose and configure admission plugins."""
    group.add_argument(
        "--enable-admission-plugins", type=names, default=(), metavar="NAME,...",
        help="Admission plugins to run beside the default ones, by kube-apiserver's names; order "
        "does not matter. Wins over --disable-admission-plugins. Default: none.",
    )  # fmt: skip
    group.add_argument(
        "--disable-admission-plugins", type=names, default=(), metavar="NAME,...",
        help="Admission plugins to turn off that are on by default. Default: none.",
    )  # fmt: skip
    group.add_argument(
        "--admission-control-config-file", type=Path, metavar="FILE",
        help="YAML or JSON file with an AdmissionConfiguration: settings of admission plugins, "
        "such as the default levels and exemptions of PodSecurity. Default: no file.",
    )  # fmt: skip

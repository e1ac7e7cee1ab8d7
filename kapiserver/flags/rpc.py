"""The flags of RPC groups."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.flags.values import boolean


def add_rpc_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of RPC groups."""
    group.add_argument(
        "--rpc", type=Path, metavar="DIR",
        help="Directory of groups that kapiserver rpc generate has generated. The server serves "
        "each call as a resource, too, to which users POST. Default: no groups.",
    )  # fmt: skip
    group.add_argument(
        "--rpc-storage", type=boolean, nargs="?", const=True, default=False, metavar="BOOL",
        help="Serve the group storage: backup, compaction, check, statistics and defragmentation "
        "of the store of this server. Default: false.",
    )  # fmt: skip
    group.add_argument(
        "--rpc-socket-dir", type=Path, metavar="RUN",
        help="Directory of a Unix socket for each version of the RPC groups; created with mode "
        "0700 if missing. The user of the server and root may make every call there. "
        "Default: no gRPC.",
    )  # fmt: skip

"""The flags of the store, which every API server of this project has."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.flags.values import DEFAULTS, boolean, names, seconds


def add_storage_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags that say where objects are stored."""
    group.add_argument(
        "--data-dir", type=Path, default=Path(".data"), metavar="DIR",
        help="Directory of every file whose own flag is not set: store, certificates and "
        "kubeconfig. Created if missing. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--storage", metavar="SPEC",
        help="Where objects are stored: sqlite:PATH, sqlite::memory: (lost at exit), "
        "etcd:URL,... or postgresql://USER@HOST/DATABASE. Excludes --etcd-servers. "
        "Default: sqlite:DIR/kapiserver.db, with DIR from --data-dir.",
    )  # fmt: skip
    group.add_argument(
        "--etcd-servers", type=names, metavar="URL,...",
        help="URLs of the members of an etcd cluster to store objects in, such as "
        "https://10.0.0.1:2379. Excludes --storage. Default: --storage decides.",
    )  # fmt: skip
    group.add_argument(
        "--etcd-prefix", default=DEFAULTS.etcd_prefix, metavar="PATH",
        help="Path that begins every key, in every kind of store. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--etcd-compaction-interval", type=seconds, metavar="DURATION",
        default=DEFAULTS.etcd_compaction_interval,
        help="How long old revisions stay readable at least, such as 5m, in every kind of store; "
        "watches and list pages need them. 0 keeps them all. Default: 5m.",
    )  # fmt: skip


def add_encryption_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of encryption at rest."""
    group.add_argument(
        "--encryption-provider-config", type=Path, metavar="FILE",
        help="File with an EncryptionConfiguration: the resources to encrypt in storage, and "
        "the providers and keys to encrypt them with. Default: nothing is encrypted.",
    )  # fmt: skip
    group.add_argument(
        "--encryption-provider-config-automatic-reload", type=boolean, nargs="?", const=True,
        default=False, metavar="BOOL",
        help="Read --encryption-provider-config, which it needs, again when it changes and use "
        "what changed. Default: false.",
    )  # fmt: skip


def storage_of(options: argparse.Namespace) -> str:
    """Return the specification of the store. Raises ValueError."""
    if options.etcd_servers is None:
        storage: str = options.storage or f"sqlite:{options.data_dir / 'kapiserver.db'}"
        return storage
    if not options.etcd_servers:  # e.g. an unset shell variable; do not fall back to SQLite
        raise ValueError("--etcd-servers must be specified")
    if options.storage:
        raise ValueError("--storage and --etcd-servers cannot both be set")
    return f"etcd:{','.join(options.etcd_servers)}"

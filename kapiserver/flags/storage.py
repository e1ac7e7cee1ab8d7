"""The flags of the store, which every API server of this project has."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from kapiserver.codecs.media_types import PROTOBUF
from kapiserver.flags.values import DEFAULTS, boolean, names, seconds


def add_storage_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags that say where objects are stored, and those of the watch cache."""
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
    group.add_argument(
        "--watch-cache", type=boolean, nargs="?", const=True, default=True, metavar="BOOL",
        help="Whether reads are served from a watch cache, without which there are none: only "
        "true is allowed. Default: true.",
    )  # fmt: skip
    group.add_argument(
        "--watch-cache-sizes", type=names, default=(), metavar="RESOURCE#SIZE,...",
        help="Has no effect, as kube-apiserver's with sizes above 0, which are the allowed ones: "
        "watch caches have no fixed size. Default: none.",
    )  # fmt: skip


def add_media_type_flag(group: argparse._ArgumentGroup) -> None:
    """Add the flag of the encoding of stored objects."""
    group.add_argument(
        "--storage-media-type", default=PROTOBUF.name, metavar="TYPE",
        help="The media type in which objects of built-in kinds are stored; there is no other "
        "one. Default: %(default)s.",
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


def unsupported_storage_flags(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the options with values that only kube-apiserver has, and what is wrong with them. An
    extension API server has no flag for the media type."""
    media_type = getattr(options, "storage_media_type", "")
    if media_type not in ("", PROTOBUF.name):
        error = f'--storage-media-type "{media_type}" invalid, allowed values: {PROTOBUF.name}'
        yield "storage_media_type", error
    if not options.watch_cache:
        yield "watch_cache", "--watch-cache=false: the watch cache cannot be turned off"
    for text in options.watch_cache_sizes:
        if error := _size_error(text):
            yield "watch_cache_sizes", f"--watch-cache-sizes: {error}: {text}"


def _size_error(text: str) -> str:
    """Return what is wrong with RESOURCE#SIZE, mostly in kube-apiserver's words, or ""."""
    if text.count("#") != 1:
        return "invalid value of watch cache size"
    size = text.partition("#")[2]
    if not (size.isascii() and size.removeprefix("-").isdecimal()):
        return "invalid size of watch cache size"
    if size[0] == "-":
        return "watch cache size cannot be negative"
    return "" if size.strip("0") else "the watch cache cannot be turned off"


def check_storage_flags(options: argparse.Namespace) -> None:
    """Raise ValueError for values that only kube-apiserver has."""
    for _, error in unsupported_storage_flags(options):
        raise ValueError(error)


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

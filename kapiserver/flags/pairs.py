"""Flags that must be set together."""

from __future__ import annotations

import argparse

from kapiserver.flags.backends import backend_pairs
from kapiserver.flags.certificates import CLUSTER_SIGNERS

_PAIRS = (
    ("tls_cert_file", "tls_private_key_file"),
    ("cluster_signing_cert_file", "cluster_signing_key_file"),
    *(
        (f"cluster_signing_{name}_cert_file", f"cluster_signing_{name}_key_file")
        for name in (signer.replace("-", "_") for signer in CLUSTER_SIGNERS)
    ),
    *backend_pairs(),
)
"""Pairs of options that must be set together. Not every program has all of them."""


def flag(option: str) -> str:
    """Return the flag of an option."""
    return f"--{option.replace('_', '-')}"


def check_pairs(options: argparse.Namespace) -> None:
    """Raise ValueError if a flag is set without another that it needs."""
    values = vars(options)
    for first, second in _PAIRS:
        if bool(values.get(first)) != bool(values.get(second)):
            raise ValueError(f"{flag(first)} and {flag(second)} must be set together")
    if options.encryption_provider_config_automatic_reload and (
        options.encryption_provider_config is None
    ):
        raise ValueError(
            "--encryption-provider-config-automatic-reload must be set with "
            "--encryption-provider-config"
        )

"""How the flags of `serve` become a Config, and what is checked before: flags that need each other,
and names.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from kapiserver.apiserver.config import SECTIONS, Config
from kapiserver.apiserver.feature_gates import FeatureGates, parse_feature_gates
from kapiserver.apiserver.serving.tls.settings import parse_named_pair, parse_settings
from kapiserver.apiserver.version import emulated_minor, versions_of
from kapiserver.controllers.registry import REGISTRY, enabled_controllers
from kapiserver.flags.audit import check_audit_batches
from kapiserver.flags.debugging import flag_texts
from kapiserver.flags.pairs import check_pairs, flag
from kapiserver.flags.storage import check_storage_flags, storage_of
from kapiserver.flags.values import DEFAULTS
from kapiserver.storage.backends import backend_of


def _check_authentication(options: argparse.Namespace) -> None:
    settings = {name: value for name, value in vars(options).items() if name[:5] == "oidc_"}
    changed = [
        name for name, value in settings.items() if value and value != getattr(DEFAULTS, name)
    ]
    if changed and not (options.oidc_issuer_url and options.oidc_client_id):
        raise ValueError(
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags "
            "are set"
        )
    if changed and options.authentication_config is not None:
        raise ValueError("authentication-config file and oidc-* flags are mutually exclusive")
    from kapiserver.apiserver.authentication.jwt.token import ALGORITHMS

    for name in options.oidc_signing_algs:
        if name not in ALGORITHMS:
            raise ValueError(f'oidc: unsupported signing alg: "{name}"')
    maximum = options.service_account_max_token_expiration
    if maximum and not 3600 <= maximum <= 1 << 32:
        raise ValueError(
            "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
        )


def config_of(options: argparse.Namespace) -> Config:
    """Return the settings of parsed flags. Raises ValueError for flags that contradict each
    other or lack a flag they need."""
    check_pairs(options)
    _check_authentication(options)
    check_audit_batches(options)
    check_storage_flags(options)
    _check_names(options)
    storage = storage_of(options)
    _check_workers_and_rpc(options, storage)
    data_dir: Path = options.data_dir
    emulated_version = ",".join(options.emulated_version)
    feature_gates = parse_feature_gates(
        ",".join(options.feature_gates), minor=emulated_minor(emulated_version)
    )
    _check_peers(options, feature_gates)
    settings = {name: value for name, value in vars(options).items() if name in SECTIONS}
    return Config.of(**settings).replace(
        storage=storage,
        cert_dir=options.cert_dir or data_dir / "certificates",
        kubeconfig_out=options.kubeconfig_out or data_dir / "kubeconfig",
        event_ttl=int(options.event_ttl),
        tls_sni_cert_key=tuple(options.tls_sni_cert_key),
        service_account_issuer=tuple(
            options.service_account_issuer or DEFAULTS.service_account_issuer
        ),
        oidc_required_claim=tuple(options.oidc_required_claim or ()),
        service_account_key_file=tuple(options.service_account_key_file or ()),
        feature_gates=feature_gates,
        runtime_config=",".join(options.runtime_config),
        emulated_version=emulated_version,
        min_compatibility_version=",".join(options.min_compatibility_version),
        verbosity=options.verbose,
        flags=tuple(flag_texts(options)),
    )


def _check_peers(options: argparse.Namespace, feature_gates: FeatureGates) -> None:
    """Check that flags of peers have the gate that they need. Raises ValueError."""
    gate = "UnknownVersionInteroperabilityProxy"
    for name in ("peer_ca_file", "peer_advertise_ip", "peer_advertise_port"):
        if getattr(options, name) and gate not in feature_gates:
            raise ValueError(f"{flag(name)} requires {gate} feature to be turned on")


def _check_names(options: argparse.Namespace) -> None:
    """Check the names of plugins, controllers, cipher suites and versions. Raises ValueError."""
    from kapiserver.apiserver.admission.plugins import enabled_plugins

    enabled_plugins(
        enable=options.enable_admission_plugins, disable=options.disable_admission_plugins
    )
    check_controllers(options.controllers, simulate=options.simulate)
    parse_settings(options.tls_min_version, options.tls_cipher_suites)
    for value in options.tls_sni_cert_key:
        parse_named_pair(value)
    versions_of(",".join(options.emulated_version), ",".join(options.min_compatibility_version))


def check_controllers(controllers: Sequence[str], *, simulate: bool) -> None:
    """Check names for `--controllers`; with `--simulate` there are more. Raises ValueError."""
    registry = REGISTRY
    if simulate:
        from kapiserver.simulation.controllers import SIMULATORS

        registry = (*REGISTRY, *SIMULATORS)
    enabled_controllers(controllers, registry)


def _check_workers_and_rpc(options: argparse.Namespace, storage: str) -> None:
    has_rpc = options.rpc is not None or options.rpc_storage
    if options.rpc_socket_dir is not None and not has_rpc:
        raise ValueError("--rpc-socket-dir must be set with --rpc or --rpc-storage")
    if options.workers <= 1:
        return
    if not backend_of(storage).shared:
        raise ValueError(
            "--workers above 1 needs etcd or PostgreSQL: one process owns a SQLite store"
        )
    if has_rpc:
        raise ValueError("--workers above 1 cannot be set with --rpc or --rpc-storage")
    if not hasattr(os, "fork"):
        raise ValueError("--workers above 1 needs an operating system with fork")

"""The settings of a logical cluster, which are those of the process as far as they are safe.

A setting that this module does not name has its default: a tenant must not use the certificates,
keys, users and files that the operator of the process has configured for the management cluster.
"""

from __future__ import annotations

from kapiserver.apiserver.config import (
    AuthenticationSettings,
    Config,
    ControllerManagerSettings,
    DebuggingSettings,
    ServiceAccountSettings,
    ServingSettings,
    SimulationSettings,
    StoreSettings,
)


def account_issuer(config: Config, name: str) -> str:
    """Return the issuer of the tokens of a cluster's service accounts, which names the cluster."""
    return f"{config.service_accounts.service_account_issuer[0]}/clusters/{name}"


def cluster_config(config: Config, *, root: str, name: str, nodes: int | None = None) -> Config:
    """Return the settings of the cluster of a name, whose keys begin with a root, from those of the
    management cluster. It opens no port, and reads no file but that of admission plugins. Unless
    `nodes` is None, it simulates so many."""
    serving, tokens, store = config.serving, config.service_accounts, config.store
    controllers = config.controller_manager
    return Config(
        serving=ServingSettings(
            secure_port=None,
            verbosity=serving.verbosity,
            vmodule=serving.vmodule,
            logging_format=serving.logging_format,
        ),
        features=config.features,
        services=config.services,
        authentication=AuthenticationSettings(anonymous_auth=config.authentication.anonymous_auth),
        service_accounts=ServiceAccountSettings(
            service_account_issuer=(account_issuer(config, name),),
            service_account_extend_token_expiration=tokens.service_account_extend_token_expiration,
            service_account_max_token_expiration=tokens.service_account_max_token_expiration,
        ),
        admission=config.admission,
        controller_manager=ControllerManagerSettings(
            controllers=controllers.controllers,
            terminated_pod_gc_threshold=controllers.terminated_pod_gc_threshold,
        ),
        node_lifecycle=config.node_lifecycle,
        store=StoreSettings(
            etcd_prefix=root,
            etcd_compaction_interval=store.etcd_compaction_interval,
            event_ttl=store.event_ttl,
        ),
        limits=config.limits,
        simulation=SimulationSettings(simulate=nodes is not None, simulate_nodes=nodes),
        debugging=DebuggingSettings(profiling=False),
    )

"""The admission plugins in the order in which they run, and the writes that each handles.

A plugin is a module with `admit`, `validate` or both; `loaders.py` makes the Hooks of those that
have state. The order is that of kube-apiserver's AllOrderedPlugins.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from kapiserver.api.lazy import lazy
from kapiserver.apiserver.admission.configuration import PluginConfiguration
from kapiserver.apiserver.admission.plugin import (
    ANY_OR_CONNECT,
    CREATE,
    UPDATE,
    WRITE,
    Hooks,
    Plugin,
    PluginContext,
)
from kapiserver.apiserver.admission.plugins import loaders
from kapiserver.apiserver.admission.resource_rules import resource_rules
from kapiserver.apiserver.config import AdmissionSettings, Config
from kapiserver.apiserver.context import AdmissionStep, PluginChain, ResourceRules
from kapiserver.apiserver.file_watch import FileWatch
from kapiserver.apiserver.metrics import AdmissionLabels, Metrics, StepLabels
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.concurrency.clock import Clock

_MAX_CHAINS = 1024
"""The chains that are kept; custom resources have chains of their own."""

_CSR = "certificatesigningrequests.certificates.k8s.io"

PLUGINS = (
    Plugin(
        name="AlwaysAdmit",
        load=loaders.always_admit,
        operations=ANY_OR_CONNECT,
        enabled_by_default=False,
    ),
    Plugin(
        name="NamespaceAutoProvision",
        admit=lazy("kapiserver.apiserver.admission.plugins.namespace_auto_provision:admit"),
        operations=CREATE,
        enabled_by_default=False,
    ),
    # Before the others: a write into a terminating namespace needs no other plugin.
    Plugin(name="NamespaceLifecycle", load=loaders.namespace_lifecycle),
    Plugin(
        name="NamespaceExists",
        validate=lazy("kapiserver.apiserver.admission.plugins.namespace_exists:validate"),
        enabled_by_default=False,
    ),
    Plugin(
        name="LimitPodHardAntiAffinityTopology",
        validate=lazy(
            "kapiserver.apiserver.admission.plugins.limit_pod_hard_anti_affinity_topology:validate"
        ),
        resources=("pods",),
        operations=WRITE,
        enabled_by_default=False,
    ),
    # Before ResourceQuota: it sets the requests and limits that are counted.
    Plugin(
        name="LimitRanger",
        admit=lazy("kapiserver.apiserver.admission.plugins.limit_ranger:admit"),
        validate=lazy("kapiserver.apiserver.admission.plugins.limit_ranger:validate"),
        resources=("pods", "pods/resize", "persistentvolumeclaims"),
        operations=WRITE,
    ),
    Plugin(
        name="ServiceAccount",
        admit=lazy("kapiserver.apiserver.admission.plugins.service_account:admit"),
        validate=lazy("kapiserver.apiserver.admission.plugins.service_account:validate"),
        resources=("pods", "pods/ephemeralcontainers"),
        operations=WRITE,
    ),
    Plugin(
        name="NodeRestriction",
        admit=lazy("kapiserver.apiserver.admission.plugins.node_restriction:admit"),
        resources=(
            "csinodes.storage.k8s.io",
            "leases.coordination.k8s.io",
            "nodes",
            "nodes/status",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "podcertificaterequests.certificates.k8s.io",
            "pods",
            "pods/binding",
            "pods/ephemeralcontainers",
            "pods/eviction",
            "pods/resize",
            "pods/status",
            "resourceslices.resource.k8s.io",
            "serviceaccounts/token",
            _CSR,
        ),
        enabled_by_default=False,
    ),
    Plugin(
        name="TaintNodesByCondition",
        admit=lazy("kapiserver.apiserver.admission.plugins.taint_nodes_by_condition:admit"),
        resources=("nodes",),
        operations=CREATE,
    ),
    Plugin(
        name="AlwaysPullImages",
        admit=lazy("kapiserver.apiserver.admission.plugins.always_pull_images:admit"),
        validate=lazy("kapiserver.apiserver.admission.plugins.always_pull_images:validate"),
        resources=("pods", "pods/ephemeralcontainers"),
        operations=WRITE,
        enabled_by_default=False,
    ),
    Plugin(
        name="ImagePolicyWebhook",
        load=loaders.image_policy_webhook,
        resources=("pods", "pods/ephemeralcontainers"),
        operations=WRITE,
        enabled_by_default=False,
    ),
    Plugin(
        name="PodSecurity",
        load=loaders.pod_security,
        resources=(
            "cronjobs.batch",
            "daemonsets.apps",
            "deployments.apps",
            "jobs.batch",
            "namespaces",
            "pods",
            "pods/ephemeralcontainers",
            "podtemplates",
            "replicasets.apps",
            "replicationcontrollers",
            "statefulsets.apps",
        ),
        operations=WRITE,
    ),
    Plugin(
        name="PodNodeSelector",
        load=loaders.pod_node_selector,
        resources=("pods",),
        operations=CREATE,
        enabled_by_default=False,
    ),
    Plugin(
        name="Priority",
        admit=lazy("kapiserver.apiserver.admission.plugins.priority:admit"),
        validate=lazy("kapiserver.apiserver.admission.plugins.priority:validate"),
        resources=("pods", "priorityclasses.scheduling.k8s.io"),
        operations=WRITE,
    ),
    Plugin(
        name="DefaultTolerationSeconds",
        load=loaders.default_toleration_seconds,
        resources=("pods",),
        operations=WRITE,
    ),
    Plugin(
        name="PodTolerationRestriction",
        load=loaders.pod_toleration_restriction,
        resources=("pods",),
        operations=WRITE,
        enabled_by_default=False,
    ),
    Plugin(
        name="EventRateLimit",
        load=loaders.event_rate_limit,
        resources=("events",),
        operations=WRITE,
        enabled_by_default=False,
    ),
    Plugin(
        name="ExtendedResourceToleration",
        admit=lazy("kapiserver.apiserver.admission.plugins.extended_resource_toleration:admit"),
        resources=("pods",),
        operations=WRITE,
        enabled_by_default=False,
    ),
    Plugin(
        name="DefaultStorageClass",
        admit=lazy("kapiserver.apiserver.admission.plugins.default_class:admit"),
        resources=("persistentvolumeclaims",),
        operations=CREATE,
    ),
    Plugin(
        name="StorageObjectInUseProtection",
        admit=lazy("kapiserver.apiserver.admission.plugins.storage_object_in_use_protection:admit"),
        resources=(
            "persistentvolumeclaims",
            "persistentvolumes",
            "volumeattributesclasses.storage.k8s.io",
        ),
        operations=CREATE,
    ),
    # GenericWorkload is off in Kubernetes 1.37.
    Plugin(
        name="PodGroupProtection",
        load=loaders.inactive,
        resources=("podgroups.scheduling.k8s.io",),
        operations=CREATE,
    ),
    Plugin(
        name="OwnerReferencesPermissionEnforcement",
        validate=lazy(
            "kapiserver.apiserver.admission.plugins.owner_references_permission_enforcement:validate"
        ),
        operations=WRITE,
        enabled_by_default=False,
    ),
    Plugin(
        name="PersistentVolumeClaimResize",
        validate=lazy(
            "kapiserver.apiserver.admission.plugins.persistent_volume_claim_resize:validate"
        ),
        resources=("persistentvolumeclaims",),
        operations=UPDATE,
    ),
    # After plugins that may set the class, before ResourceQuota, which counts the overhead.
    Plugin(
        name="RuntimeClass",
        admit=lazy("kapiserver.apiserver.admission.plugins.runtime_class:admit"),
        validate=lazy("kapiserver.apiserver.admission.plugins.runtime_class:validate"),
        resources=("pods",),
        operations=CREATE,
    ),
    Plugin(
        name="CertificateApproval",
        validate=lazy("kapiserver.apiserver.admission.plugins.certificate_approval:validate"),
        resources=(f"{_CSR}/approval",),
        operations=UPDATE,
    ),
    Plugin(
        name="CertificateSigning",
        validate=lazy("kapiserver.apiserver.admission.plugins.certificate_signing:validate"),
        resources=(f"{_CSR}/status",),
        operations=UPDATE,
    ),
    Plugin(
        name="ClusterTrustBundleAttest",
        validate=lazy(
            "kapiserver.apiserver.admission.plugins.cluster_trust_bundle_attest:validate"
        ),
        resources=("clustertrustbundles.certificates.k8s.io",),
        operations=WRITE,
    ),
    Plugin(
        name="CertificateSubjectRestriction",
        validate=lazy(
            "kapiserver.apiserver.admission.plugins.certificate_subject_restriction:validate"
        ),
        resources=(_CSR,),
        operations=CREATE,
    ),
    Plugin(
        name="DefaultIngressClass",
        admit=lazy("kapiserver.apiserver.admission.plugins.default_class:admit"),
        resources=("ingresses.networking.k8s.io",),
        operations=CREATE,
    ),
    Plugin(
        name="DenyServiceExternalIPs",
        validate=lazy("kapiserver.apiserver.admission.plugins.deny_service_external_ips:validate"),
        resources=("services",),
        operations=WRITE,
        enabled_by_default=False,
    ),
    Plugin(
        name="PodTopologyLabels",
        admit=lazy("kapiserver.apiserver.admission.plugins.pod_topology_labels:admit"),
        resources=(
            "pods",
            "pods/binding",
        ),
        operations=CREATE,
    ),
    Plugin(
        name="PodGroupWorkloadExists",
        load=loaders.inactive,
        resources=("podgroups.scheduling.k8s.io",),
        operations=CREATE,
    ),
    Plugin(
        name="NodeDeclaredFeatureValidator",
        validate=lazy(
            "kapiserver.apiserver.admission.plugins.node_declared_feature_validator:validate"
        ),
        resources=("pods", "pods/resize"),
        operations=UPDATE,
    ),
    Plugin(
        name="JobValidation",
        load=loaders.inactive,
        resources=("jobs.batch",),
        operations=UPDATE,
    ),
    Plugin(
        name="PodResizeValidator",
        validate=lazy("kapiserver.apiserver.admission.plugins.pod_resize_validator:validate"),
        resources=("pods/resize",),
        operations=UPDATE,
    ),
    Plugin(
        name="MutatingAdmissionPolicy",
        load=loaders.mutating_admission_policy,
        operations=ANY_OR_CONNECT,
    ),
    Plugin(
        name="MutatingAdmissionWebhook",
        load=loaders.mutating_admission_webhook,
        operations=ANY_OR_CONNECT,
    ),
    Plugin(
        name="ValidatingAdmissionPolicy",
        load=loaders.validating_admission_policy,
        operations=ANY_OR_CONNECT,
    ),
    Plugin(
        name="ValidatingAdmissionWebhook",
        load=loaders.validating_admission_webhook,
        operations=ANY_OR_CONNECT,
    ),
    # Last: a write that another plugin refuses is not counted.
    Plugin(name="ResourceQuota", load=loaders.resource_quota, operations=CREATE),
    Plugin(
        name="ResourceQuota",
        load=loaders.resource_quota,
        resources=(
            "persistentvolumeclaims",
            "pods/resize",
            "resourceclaims.resource.k8s.io",
            "services",
        ),
        operations=UPDATE,
    ),
    Plugin(
        name="AlwaysDeny",
        admit=lazy("kapiserver.apiserver.admission.plugins.always_deny:admit"),
        operations=ANY_OR_CONNECT,
        enabled_by_default=False,
    ),
)


def enabled_plugins(
    plugins: Sequence[Plugin] = PLUGINS,
    *,
    enable: Sequence[str] = (),
    disable: Sequence[str] = (),
) -> tuple[Plugin, ...]:
    """Return the plugins that run, in order: those in `enable`, and those enabled by default that
    `disable` does not have. Raises ValueError for an unknown name."""
    names = {plugin.name for plugin in plugins}
    unknown = [name for name in (*enable, *disable) if name not in names]
    if unknown:
        raise ValueError(f"unknown admission plugins: {', '.join(unknown)}")
    return tuple(
        plugin
        for plugin in plugins
        if plugin.name in enable or (plugin.enabled_by_default and plugin.name not in disable)
    )


class AdmissionPlugins:
    """The hooks of the enabled plugins of one server.

    plugins     all plugins, in order
    offloader   loads the plugins

    Raises ValueError for the name of an unknown plugin, BadAdmissionConfiguration.
    """

    def __init__(
        self,
        plugins: Sequence[Plugin],
        config: Config,
        clock: Clock,
        metrics: Metrics,
        file_watch: FileWatch,
        offloader: Offloader,
    ) -> None:
        self._config = config
        self._file_watch = file_watch
        self._clock = clock
        self._metrics = metrics
        self._configurations = configurations = _read_configurations(config.admission)
        self._offloader = offloader
        self._hooks: dict[str, Hooks] = {}
        self._chains: dict[tuple[str, str], PluginChain] = {}
        self._lock = threading.Lock()
        """Held while a plugin is loaded, which threads do."""
        names = config.admission.enable_admission_plugins
        self._enabled = enabled_plugins(
            plugins, enable=names, disable=config.admission.disable_admission_plugins
        )
        for plugin in self._enabled:
            if plugin.name in configurations or plugin.name in names:
                self._load(plugin)

    async def close(self) -> None:
        """Free what the plugins hold. Meanwhile a thread may still load a plugin for a cancelled
        request; it holds nothing, because no request has used it."""
        for hooks in tuple(self._hooks.values()):
            if hooks.close is not None:
                await hooks.close()

    async def chain(self, resource: str, operation: str) -> PluginChain:
        """Return the plugins and rules for a qualified resource (with its subresource) and an
        operation; a thread loads them for the first write."""
        chain = self._chains.get((resource, operation))
        if chain is None:
            if len(self._chains) >= _MAX_CHAINS:
                self._chains.clear()
            load = self._offloader.run_in_thread
            chain = await load(self.load_chain, resource, operation, limited=False)
            self._chains[resource, operation] = chain
        return chain

    def load_chain(self, resource: str, operation: str) -> PluginChain:
        """Import and return the plugins and rules for a qualified resource and an operation."""
        hooks = [
            (plugin.name, self._load(plugin))
            for plugin in self._enabled
            if operation in plugin.operations
            and (not plugin.resources or resource in plugin.resources)
        ]
        seconds = self._metrics.admission_seconds
        admit: list[AdmissionStep] = []
        validate: list[AdmissionStep] = []
        for name, plugin_hooks in hooks:
            for steps, hook, type_ in (
                (admit, plugin_hooks.admit, "admit"),
                (validate, plugin_hooks.validate, "validate"),
            ):
                if hook is not None:
                    labels = AdmissionLabels(name, type_, operation, "false")
                    step = AdmissionStep(
                        hook=hook,
                        is_idle=plugin_hooks.is_idle,
                        labels=labels,
                        admitted=seconds.of(labels),
                    )
                    steps.append(step)
        rules = resource_rules(resource) if operation in WRITE else ResourceRules()
        steps_of = self._metrics.admission_step_seconds.of
        return PluginChain(
            admit=tuple(admit),
            validate=tuple(validate),
            admitted=steps_of(StepLabels("admit", operation, "false")),
            validated=steps_of(StepLabels("validate", operation, "false")),
            rules=rules,
        )

    def _load(self, plugin: Plugin) -> Hooks:
        """Return the hooks of a plugin; all records of one name have the same."""
        name = plugin.name
        if name in self._hooks:
            return self._hooks[name]
        with self._lock:
            if name not in self._hooks:
                configuration = self._configurations.get(name) or PluginConfiguration(name=name)
                context = PluginContext(
                    configuration=configuration,
                    config=self._config,
                    clock=self._clock,
                    metrics=self._metrics,
                    file_watch=self._file_watch,
                )
                self._hooks[name] = plugin.hooks(context)
            return self._hooks[name]


def _read_configurations(settings: AdmissionSettings) -> Mapping[str, PluginConfiguration]:
    """Return the configurations of --admission-control-config-file, by the names of the plugins."""
    if settings.admission_control_config_file is None:
        return {}
    # Loads a YAML parser.
    from kapiserver.apiserver.admission.configuration import read_admission_configuration

    return read_admission_configuration(settings.admission_control_config_file)


ADMISSION_PLUGIN_NAMES = frozenset(plugin.name for plugin in PLUGINS)
"""The names of kube-apiserver's admission plugins."""

"""The registry of controllers: one record each, and what `--controllers` makes of them.

To add a controller: write a module here and a record below. Its module is imported when
it starts, so that reading flags loads no controller. Names and aliases are those of
kube-controller-manager's `--controllers`. Mirrors cmd/kube-controller-manager/app.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.lazy import lazy
from kapiserver.apiserver.user import (
    APISERVER,
    AUTHENTICATED,
    User,
    service_account_user,
)
from kapiserver.controllers.descriptor import ControllerDescriptor, Scope, loaded_by


def _account(name: str) -> User:
    return service_account_user("kube-system", name)


REGISTRY: tuple[ControllerDescriptor, ...] = (
    ControllerDescriptor(
        name="crd-status-controller",
        factory=loaded_by(lazy("kapiserver.controllers.status.crd_status:CRDStatusController")),
        user=APISERVER,
        manager="kube-apiserver",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="crd-finalizing-controller",
        factory=loaded_by(lazy("kapiserver.controllers.status.crd_finalizer:CRDFinalizer")),
        user=APISERVER,
        manager="kube-apiserver",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="cluster-authentication-trust-controller",
        factory=loaded_by(
            lazy(
                "kapiserver.controllers.certificates.authentication_trust:AuthenticationTrustController"
            )
        ),
        user=APISERVER,
        manager="kube-apiserver",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="kube-apiserver-identity-lease-garbage-collector",
        factory=loaded_by(
            lazy("kapiserver.controllers.deletion.apiserver_lease_gc:APIServerLeaseGC")
        ),
        user=APISERVER,
        manager="kube-apiserver",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="apiservice-registration-controller",
        factory=loaded_by(
            lazy("kapiserver.controllers.status.api_services:APIServiceRegistration")
        ),
        user=APISERVER,
        manager="kube-apiserver",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="apiservice-status-remote-available-controller",
        factory=loaded_by(
            lazy("kapiserver.controllers.status.api_service_availability:APIServiceAvailability")
        ),
        user=APISERVER,
        manager="kube-apiserver",
        selectable=False,
    ),
    ControllerDescriptor(
        name="apiservice-discovery-controller",
        factory=loaded_by(lazy("kapiserver.controllers.aggregation.documents:DiscoveryDocuments")),
        user=APISERVER,
        manager="kube-apiserver",
        scope=Scope.EVERY_PROCESS,
        selectable=False,
    ),
    ControllerDescriptor(
        name="apiservice-openapi-controller",
        factory=loaded_by(lazy("kapiserver.controllers.aggregation.documents:OpenAPIDocuments")),
        user=APISERVER,
        manager="kube-apiserver",
        scope=Scope.EVERY_PROCESS,
        selectable=False,
    ),
    ControllerDescriptor(
        name="flow-control-bootstrap-controller",
        factory=loaded_by(
            lazy("kapiserver.controllers.defaults.flow_control:FlowControlBootstrap")
        ),
        user=APISERVER,
        manager="api-priority-and-fairness-config-producer-v1",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="flow-schema-status-controller",
        factory=loaded_by(
            lazy("kapiserver.controllers.status.flow_schema_status:FlowSchemaStatusController")
        ),
        user=APISERVER,
        manager="api-priority-and-fairness-config-consumer-v1",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="serviceaccount-controller",
        aliases=("serviceaccount",),
        factory=loaded_by(
            lazy("kapiserver.controllers.defaults.namespace_defaults:ServiceAccountsController")
        ),
        user=_account("service-account-controller"),
        scope=Scope.EVERY_SERVER,
    ),
    ControllerDescriptor(
        name="root-ca-certificate-publisher-controller",
        aliases=("root-ca-cert-publisher",),
        factory=loaded_by(
            lazy("kapiserver.controllers.defaults.namespace_defaults:RootCAPublisher")
        ),
        user=_account("root-ca-cert-publisher"),
        scope=Scope.EVERY_SERVER,
    ),
    ControllerDescriptor(
        name="kube-apiserver-serving-clustertrustbundle-publisher-controller",
        factory=loaded_by(
            lazy("kapiserver.controllers.certificates.trust_bundle_publisher:TrustBundlePublisher")
        ),
        user=_account("kube-apiserver-serving-clustertrustbundle-publisher"),
    ),
    ControllerDescriptor(
        name="certificatesigningrequest-approving-controller",
        aliases=("csrapproving",),
        factory=loaded_by(
            lazy("kapiserver.controllers.certificates.csr_approving:CSRApprovingController")
        ),
        user=_account("certificate-controller"),
    ),
    ControllerDescriptor(
        name="certificatesigningrequest-signing-controller",
        aliases=("csrsigning",),
        factory=loaded_by(
            lazy("kapiserver.controllers.certificates.csr_signing:CSRSigningController")
        ),
        user=_account("certificate-controller"),
    ),
    ControllerDescriptor(
        name="certificatesigningrequest-cleaner-controller",
        aliases=("csrcleaner",),
        factory=loaded_by(
            lazy("kapiserver.controllers.certificates.csr_cleaner:CSRCleanerController")
        ),
        user=_account("certificate-controller"),
    ),
    ControllerDescriptor(
        name="podcertificaterequest-cleaner-controller",
        factory=loaded_by(
            lazy("kapiserver.controllers.certificates.csr_cleaner:PodCertificateRequestCleaner")
        ),
        user=_account("podcertificaterequestcleaner"),
    ),
    ControllerDescriptor(
        name="clusterrole-aggregation-controller",
        aliases=("clusterrole-aggregation",),
        factory=loaded_by(
            lazy("kapiserver.controllers.rbac.role_aggregation:ClusterRoleAggregationController")
        ),
        user=_account("clusterrole-aggregation-controller"),
        manager="clusterrole-aggregation-controller",
    ),
    ControllerDescriptor(
        name="disruption-controller",
        aliases=("disruption",),
        factory=loaded_by(lazy("kapiserver.controllers.policy.disruption:DisruptionController")),
        user=_account("disruption-controller"),
    ),
    ControllerDescriptor(
        name="endpoints-controller",
        aliases=("endpoint",),
        factory=loaded_by(lazy("kapiserver.controllers.endpoints.endpoints:endpoints_controller")),
        user=_account("endpoint-controller"),
    ),
    ControllerDescriptor(
        name="endpointslice-controller",
        aliases=("endpointslice",),
        factory=loaded_by(
            lazy("kapiserver.controllers.endpoints.endpoints:endpoint_slice_controller")
        ),
        user=_account("endpointslice-controller"),
    ),
    ControllerDescriptor(
        name="endpointslice-mirroring-controller",
        aliases=("endpointslicemirroring",),
        factory=loaded_by(
            lazy("kapiserver.controllers.endpoints.endpoints:endpoint_slice_mirroring_controller")
        ),
        user=_account("endpointslicemirroring-controller"),
    ),
    ControllerDescriptor(
        name="garbage-collector-controller",
        aliases=("garbagecollector",),
        factory=loaded_by(
            lazy("kapiserver.controllers.deletion.garbage_collector:GarbageCollector")
        ),
        user=_account("generic-garbage-collector"),
    ),
    ControllerDescriptor(
        name="namespace-controller",
        aliases=("namespace",),
        factory=loaded_by(
            lazy("kapiserver.controllers.deletion.namespace_deletion:NamespaceController")
        ),
        user=_account("namespace-controller"),
    ),
    ControllerDescriptor(
        name="persistentvolume-protection-controller",
        aliases=("pv-protection",),
        factory=loaded_by(
            lazy("kapiserver.controllers.deletion.storage_protection:volume_protection_controller")
        ),
        user=_account("pv-protection-controller"),
    ),
    ControllerDescriptor(
        name="persistentvolumeclaim-protection-controller",
        aliases=("pvc-protection",),
        factory=loaded_by(
            lazy("kapiserver.controllers.deletion.storage_protection:claim_protection_controller")
        ),
        user=_account("pvc-protection-controller"),
    ),
    ControllerDescriptor(
        name="resourcequota-controller",
        aliases=("resourcequota",),
        factory=loaded_by(
            lazy("kapiserver.controllers.policy.resource_quotas:ResourceQuotaController")
        ),
        user=_account("resourcequota-controller"),
    ),
    ControllerDescriptor(
        name="storage-version-migrator-controller",
        aliases=("svm",),
        factory=loaded_by(
            lazy("kapiserver.controllers.storage_versions.migrator:StorageVersionMigrator")
        ),
        user=_account("storage-version-migrator-controller"),
        manager="storage-version-migrator-controller",
    ),
    ControllerDescriptor(
        name="service-cidr-controller",
        aliases=("service-cidr",),
        factory=loaded_by(
            lazy("kapiserver.controllers.endpoints.service_cidrs:ServiceCIDRController")
        ),
        user=_account("service-cidrs-controller"),
    ),
    ControllerDescriptor(
        name="serviceaccount-token-controller",
        aliases=("serviceaccount-token",),
        factory=loaded_by(
            lazy("kapiserver.controllers.tokens.token_secrets:TokenSecretsController")
        ),
        # The only controller without a service account of its own: it makes their tokens.
        user=User(name="system:kube-controller-manager", groups=(AUTHENTICATED,)),
    ),
    ControllerDescriptor(
        name="replicationcontroller-controller",
        aliases=("replicationcontroller",),
        factory=loaded_by(
            lazy("kapiserver.controllers.workloads.replica_set:ReplicationControllerController")
        ),
        user=_account("replication-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="replicaset-controller",
        aliases=("replicaset",),
        factory=loaded_by(
            lazy("kapiserver.controllers.workloads.replica_set:ReplicaSetController")
        ),
        user=_account("replicaset-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="deployment-controller",
        aliases=("deployment",),
        factory=loaded_by(
            lazy("kapiserver.controllers.workloads.deployment.controller:DeploymentController")
        ),
        user=_account("deployment-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="horizontal-pod-autoscaler-controller",
        aliases=("horizontalpodautoscaling",),
        factory=loaded_by(
            lazy(
                "kapiserver.controllers.workloads.horizontal_pod_autoscaler.controller:"
                "HorizontalPodAutoscalerController"
            )
        ),
        user=_account("horizontal-pod-autoscaler"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="job-controller",
        aliases=("job",),
        factory=loaded_by(lazy("kapiserver.controllers.workloads.job.controller:JobController")),
        user=_account("job-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="cronjob-controller",
        aliases=("cronjob",),
        factory=loaded_by(
            lazy("kapiserver.controllers.workloads.cron_job.controller:CronJobController")
        ),
        user=_account("cronjob-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="daemonset-controller",
        aliases=("daemonset",),
        factory=loaded_by(
            lazy("kapiserver.controllers.workloads.daemon_set.controller:DaemonSetController")
        ),
        user=_account("daemon-set-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="statefulset-controller",
        aliases=("statefulset",),
        factory=loaded_by(
            lazy("kapiserver.controllers.workloads.stateful_set.controller:StatefulSetController")
        ),
        user=_account("statefulset-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="pod-garbage-collector-controller",
        aliases=("podgc",),
        factory=loaded_by(lazy("kapiserver.controllers.nodes.pod_gc:PodGC")),
        user=_account("pod-garbage-collector"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="node-lifecycle-controller",
        aliases=("nodelifecycle",),
        factory=loaded_by(
            lazy("kapiserver.controllers.nodes.node_lifecycle:NodeLifecycleController")
        ),
        user=_account("node-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="taint-eviction-controller",
        factory=loaded_by(
            lazy("kapiserver.controllers.nodes.taint_eviction:TaintEvictionController")
        ),
        user=_account("node-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="device-taint-eviction-controller",
        factory=loaded_by(
            lazy(
                "kapiserver.controllers.resource_claims.device_taints:DeviceTaintEvictionController"
            )
        ),
        user=_account("device-taint-eviction-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="resourceclaim-controller",
        factory=loaded_by(
            lazy("kapiserver.controllers.resource_claims.controller:ResourceClaimController")
        ),
        user=_account("resource-claim-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="persistentvolume-binder-controller",
        aliases=("persistentvolume-binder",),
        factory=loaded_by(
            lazy("kapiserver.controllers.volumes.persistent_volume_binder:PersistentVolumeBinder")
        ),
        user=_account("persistent-volume-binder"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="persistentvolume-expander-controller",
        aliases=("persistentvolume-expander",),
        factory=loaded_by(lazy("kapiserver.controllers.volumes.expansion:ExpansionController")),
        user=_account("expand-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="persistentvolume-attach-detach-controller",
        aliases=("attachdetach",),
        factory=loaded_by(
            lazy("kapiserver.controllers.volumes.attach_detach:AttachDetachController")
        ),
        user=_account("attachdetach-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="ephemeral-volume-controller",
        aliases=("ephemeral-volume",),
        factory=loaded_by(
            lazy("kapiserver.controllers.volumes.ephemeral_volumes:EphemeralVolumeController")
        ),
        user=_account("ephemeral-volume-controller"),
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="bootstrap-signer-controller",
        aliases=("bootstrapsigner",),
        factory=loaded_by(lazy("kapiserver.controllers.tokens.bootstrap_signer:BootstrapSigner")),
        user=_account("bootstrap-signer"),
        enabled_by_default=False,  # as in kube-controller-manager
    ),
    ControllerDescriptor(
        name="token-cleaner-controller",
        aliases=("tokencleaner",),
        factory=loaded_by(lazy("kapiserver.controllers.tokens.token_cleaner:TokenCleaner")),
        user=_account("token-cleaner"),
        enabled_by_default=False,  # as in kube-controller-manager
    ),
    ControllerDescriptor(
        name="ttl-after-finished-controller",
        aliases=("ttl-after-finished",),
        factory=loaded_by(
            lazy("kapiserver.controllers.deletion.ttl_after_finished:TTLAfterFinishedController")
        ),
        user=_account("ttl-after-finished-controller"),
    ),
    ControllerDescriptor(
        name="validatingadmissionpolicy-status-controller",
        factory=loaded_by(
            lazy("kapiserver.controllers.status.policy_status:PolicyStatusController")
        ),
        user=_account("validatingadmissionpolicy-status-controller"),
        manager="validatingadmissionpolicy-status",
    ),
    ControllerDescriptor(
        name="volumeattributesclass-protection-controller",
        aliases=("volumeattributesclass-protection",),
        factory=loaded_by(
            lazy("kapiserver.controllers.deletion.storage_protection:class_protection_controller")
        ),
        user=_account("volumeattributesclass-protection-controller"),
    ),
)

CONTROLLER_NAMES: tuple[str, ...] = tuple(
    descriptor.name for descriptor in REGISTRY if descriptor.selectable
)
"""The names that `--controllers` can turn on and off."""


def enabled_controllers(
    flags: Sequence[str], registry: Sequence[ControllerDescriptor] = REGISTRY
) -> frozenset[str]:
    """Return the names of the controllers that `--controllers` enables: `*` for those enabled by
    default, `NAME` and `-NAME` for one of them; the first flag about a controller counts. Raises
    ValueError for an unknown name."""
    names = {
        alias: descriptor.name
        for descriptor in registry
        if descriptor.selectable
        for alias in (descriptor.name, *descriptor.aliases)
    }
    choices: dict[str, bool] = {}
    for flag in flags:
        text = flag.removeprefix("-")
        if text != "*" and text not in names:
            raise ValueError(f'"{text}" is not in the list of known controllers')
        choices.setdefault(names.get(text, text), not flag.startswith("-"))
    star = choices.get("*", False)
    return frozenset(
        descriptor.name
        for descriptor in registry
        if descriptor.selectable
        and choices.get(descriptor.name, star and descriptor.enabled_by_default)
    )

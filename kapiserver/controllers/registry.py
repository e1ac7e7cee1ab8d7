"""The registry of controllers: one record each, and what `--controllers` makes of them.

To add a controller: write a module here, a factory and a record below. A factory imports its module
when it is called, so that reading flags loads no controller. Names and aliases are those of
kube-controller-manager's `--controllers`. Mirrors cmd/kube-controller-manager/app.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from msgspec import Struct

from kapiserver.apiserver.authentication.user import (
    APISERVER,
    AUTHENTICATED,
    User,
    service_account_user,
)
from kapiserver.controllers.context import Controller, ControllerContext


class Scope(Enum):
    """The servers on which a controller runs, if several servers share a store."""

    EVERY_SERVER = "every server"
    LEADER = "the leader"


class ControllerDescriptor(Struct, frozen=True, kw_only=True):
    """One controller.

    user        the user of its writes: that of its service account in Kubernetes
    manager     the field manager of its writes
    selectable  whether `--controllers` knows it; the others are kube-apiserver's own and always run
    """

    name: str
    aliases: tuple[str, ...] = ()
    factory: Callable[[ControllerContext], Controller]
    user: User
    manager: str = "kube-controller-manager"
    scope: Scope = Scope.LEADER
    selectable: bool = True
    enabled_by_default: bool = True


def _crd_status(context: ControllerContext) -> Controller:
    from kapiserver.controllers.crd_status import CRDStatusController

    return CRDStatusController(context)


def _api_services(context: ControllerContext) -> Controller:
    from kapiserver.controllers.api_services import APIServiceRegistration

    return APIServiceRegistration(context)


def _api_service_availability(context: ControllerContext) -> Controller:
    from kapiserver.controllers.api_service_availability import APIServiceAvailability

    return APIServiceAvailability(context)


def _flow_control(context: ControllerContext) -> Controller:
    from kapiserver.controllers.flow_control import FlowControlBootstrap

    return FlowControlBootstrap(context)


def _flow_schema_status(context: ControllerContext) -> Controller:
    from kapiserver.controllers.flow_schema_status import FlowSchemaStatusController

    return FlowSchemaStatusController(context)


def _service_accounts(context: ControllerContext) -> Controller:
    from kapiserver.controllers.namespace_defaults import ServiceAccountsController

    return ServiceAccountsController(context)


def _root_ca_publisher(context: ControllerContext) -> Controller:
    from kapiserver.controllers.namespace_defaults import RootCAPublisher

    return RootCAPublisher(context)


def _disruption(context: ControllerContext) -> Controller:
    from kapiserver.controllers.disruption import DisruptionController

    return DisruptionController(context)


def _endpoints(context: ControllerContext) -> Controller:
    from kapiserver.controllers.endpoints import endpoints_controller

    return endpoints_controller(context)


def _endpoint_slices(context: ControllerContext) -> Controller:
    from kapiserver.controllers.endpoints import endpoint_slice_controller

    return endpoint_slice_controller(context)


def _endpoint_slice_mirroring(context: ControllerContext) -> Controller:
    from kapiserver.controllers.endpoints import endpoint_slice_mirroring_controller

    return endpoint_slice_mirroring_controller(context)


def _garbage_collector(context: ControllerContext) -> Controller:
    from kapiserver.controllers.garbage_collector import GarbageCollector

    return GarbageCollector(context)


def _namespaces(context: ControllerContext) -> Controller:
    from kapiserver.controllers.namespace_deletion import NamespaceController

    return NamespaceController(context)


def _volume_protection(context: ControllerContext) -> Controller:
    from kapiserver.controllers.storage_protection import volume_protection_controller

    return volume_protection_controller(context)


def _claim_protection(context: ControllerContext) -> Controller:
    from kapiserver.controllers.storage_protection import claim_protection_controller

    return claim_protection_controller(context)


def _class_protection(context: ControllerContext) -> Controller:
    from kapiserver.controllers.storage_protection import class_protection_controller

    return class_protection_controller(context)


def _role_aggregation(context: ControllerContext) -> Controller:
    from kapiserver.controllers.role_aggregation import ClusterRoleAggregationController

    return ClusterRoleAggregationController(context)


def _resource_quotas(context: ControllerContext) -> Controller:
    from kapiserver.controllers.resource_quotas import ResourceQuotaController

    return ResourceQuotaController(context)


def _service_cidrs(context: ControllerContext) -> Controller:
    from kapiserver.controllers.service_cidrs import ServiceCIDRController

    return ServiceCIDRController(context)


def _bootstrap_signer(context: ControllerContext) -> Controller:
    from kapiserver.controllers.bootstrap_signer import BootstrapSigner

    return BootstrapSigner(context)


def _token_cleaner(context: ControllerContext) -> Controller:
    from kapiserver.controllers.token_cleaner import TokenCleaner

    return TokenCleaner(context)


def _ttl_after_finished(context: ControllerContext) -> Controller:
    from kapiserver.controllers.ttl_after_finished import TTLAfterFinishedController

    return TTLAfterFinishedController(context)


def _token_secrets(context: ControllerContext) -> Controller:
    from kapiserver.controllers.token_secrets import TokenSecretsController

    return TokenSecretsController(context)


def _csr_approving(context: ControllerContext) -> Controller:
    from kapiserver.controllers.csr_approving import CSRApprovingController

    return CSRApprovingController(context)


def _csr_signing(context: ControllerContext) -> Controller:
    from kapiserver.controllers.csr_signing import CSRSigningController

    return CSRSigningController(context)


def _csr_cleaner(context: ControllerContext) -> Controller:
    from kapiserver.controllers.csr_cleaner import CSRCleanerController

    return CSRCleanerController(context)


def _authentication_trust(context: ControllerContext) -> Controller:
    from kapiserver.controllers.authentication_trust import AuthenticationTrustController

    return AuthenticationTrustController(context)


def _apiserver_lease_gc(context: ControllerContext) -> Controller:
    from kapiserver.controllers.apiserver_lease_gc import APIServerLeaseGC

    return APIServerLeaseGC(context)


def _pod_certificate_request_cleaner(context: ControllerContext) -> Controller:
    from kapiserver.controllers.csr_cleaner import PodCertificateRequestCleaner

    return PodCertificateRequestCleaner(context)


def _trust_bundle_publisher(context: ControllerContext) -> Controller:
    from kapiserver.controllers.trust_bundle_publisher import TrustBundlePublisher

    return TrustBundlePublisher(context)


def _policy_status(context: ControllerContext) -> Controller:
    from kapiserver.controllers.policy_status import PolicyStatusController

    return PolicyStatusController(context)


def _account(name: str) -> User:
    return service_account_user("kube-system", name)


REGISTRY: tuple[ControllerDescriptor, ...] = (
    ControllerDescriptor(
        name="crd-status-controller",
        factory=_crd_status,
        user=APISERVER,
        manager="kube-apiserver",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="cluster-authentication-trust-controller",
        factory=_authentication_trust,
        user=APISERVER,
        manager="kube-apiserver",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="kube-apiserver-identity-lease-garbage-collector",
        factory=_apiserver_lease_gc,
        user=APISERVER,
        manager="kube-apiserver",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="apiservice-registration-controller",
        factory=_api_services,
        user=APISERVER,
        manager="kube-apiserver",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="apiservice-status-remote-available-controller",
        factory=_api_service_availability,
        user=APISERVER,
        manager="kube-apiserver",
        selectable=False,
    ),
    ControllerDescriptor(
        name="flow-control-bootstrap-controller",
        factory=_flow_control,
        user=APISERVER,
        manager="api-priority-and-fairness-config-producer-v1",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="flow-schema-status-controller",
        factory=_flow_schema_status,
        user=APISERVER,
        manager="api-priority-and-fairness-config-consumer-v1",
        scope=Scope.EVERY_SERVER,
        selectable=False,
    ),
    ControllerDescriptor(
        name="serviceaccount-controller",
        aliases=("serviceaccount",),
        factory=_service_accounts,
        user=_account("service-account-controller"),
        scope=Scope.EVERY_SERVER,
    ),
    ControllerDescriptor(
        name="root-ca-certificate-publisher-controller",
        aliases=("root-ca-cert-publisher",),
        factory=_root_ca_publisher,
        user=_account("root-ca-cert-publisher"),
        scope=Scope.EVERY_SERVER,
    ),
    ControllerDescriptor(
        name="kube-apiserver-serving-clustertrustbundle-publisher-controller",
        factory=_trust_bundle_publisher,
        user=_account("kube-apiserver-serving-clustertrustbundle-publisher"),
    ),
    ControllerDescriptor(
        name="certificatesigningrequest-approving-controller",
        aliases=("csrapproving",),
        factory=_csr_approving,
        user=_account("certificate-controller"),
    ),
    ControllerDescriptor(
        name="certificatesigningrequest-signing-controller",
        aliases=("csrsigning",),
        factory=_csr_signing,
        user=_account("certificate-controller"),
    ),
    ControllerDescriptor(
        name="certificatesigningrequest-cleaner-controller",
        aliases=("csrcleaner",),
        factory=_csr_cleaner,
        user=_account("certificate-controller"),
    ),
    ControllerDescriptor(
        name="podcertificaterequest-cleaner-controller",
        factory=_pod_certificate_request_cleaner,
        user=_account("podcertificaterequestcleaner"),
    ),
    ControllerDescriptor(
        name="clusterrole-aggregation-controller",
        aliases=("clusterrole-aggregation",),
        factory=_role_aggregation,
        user=_account("clusterrole-aggregation-controller"),
        manager="clusterrole-aggregation-controller",
    ),
    ControllerDescriptor(
        name="disruption-controller",
        aliases=("disruption",),
        factory=_disruption,
        user=_account("disruption-controller"),
    ),
    ControllerDescriptor(
        name="endpoints-controller",
        aliases=("endpoint",),
        factory=_endpoints,
        user=_account("endpoint-controller"),
    ),
    ControllerDescriptor(
        name="endpointslice-controller",
        aliases=("endpointslice",),
        factory=_endpoint_slices,
        user=_account("endpointslice-controller"),
    ),
    ControllerDescriptor(
        name="endpointslice-mirroring-controller",
        aliases=("endpointslicemirroring",),
        factory=_endpoint_slice_mirroring,
        user=_account("endpointslicemirroring-controller"),
    ),
    ControllerDescriptor(
        name="garbage-collector-controller",
        aliases=("garbagecollector",),
        factory=_garbage_collector,
        user=_account("generic-garbage-collector"),
    ),
    ControllerDescriptor(
        name="namespace-controller",
        aliases=("namespace",),
        factory=_namespaces,
        user=_account("namespace-controller"),
    ),
    ControllerDescriptor(
        name="persistentvolume-protection-controller",
        aliases=("pv-protection",),
        factory=_volume_protection,
        user=_account("pv-protection-controller"),
    ),
    ControllerDescriptor(
        name="persistentvolumeclaim-protection-controller",
        aliases=("pvc-protection",),
        factory=_claim_protection,
        user=_account("pvc-protection-controller"),
    ),
    ControllerDescriptor(
        name="resourcequota-controller",
        aliases=("resourcequota",),
        factory=_resource_quotas,
        user=_account("resourcequota-controller"),
    ),
    ControllerDescriptor(
        name="service-cidr-controller",
        aliases=("service-cidr",),
        factory=_service_cidrs,
        user=_account("service-cidrs-controller"),
    ),
    ControllerDescriptor(
        name="serviceaccount-token-controller",
        aliases=("serviceaccount-token",),
        factory=_token_secrets,
        # The only controller without a service account of its own: it makes their tokens.
        user=User(name="system:kube-controller-manager", groups=(AUTHENTICATED,)),
    ),
    ControllerDescriptor(
        name="bootstrap-signer-controller",
        aliases=("bootstrapsigner",),
        factory=_bootstrap_signer,
        user=_account("bootstrap-signer"),
        enabled_by_default=False,  # as in kube-controller-manager
    ),
    ControllerDescriptor(
        name="token-cleaner-controller",
        aliases=("tokencleaner",),
        factory=_token_cleaner,
        user=_account("token-cleaner"),
        enabled_by_default=False,  # as in kube-controller-manager
    ),
    ControllerDescriptor(
        name="ttl-after-finished-controller",
        aliases=("ttl-after-finished",),
        factory=_ttl_after_finished,
        user=_account("ttl-after-finished-controller"),
    ),
    ControllerDescriptor(
        name="validatingadmissionpolicy-status-controller",
        factory=_policy_status,
        user=_account("validatingadmissionpolicy-status-controller"),
        manager="validatingadmissionpolicy-status",
    ),
    ControllerDescriptor(
        name="volumeattributesclass-protection-controller",
        aliases=("volumeattributesclass-protection",),
        factory=_class_protection,
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

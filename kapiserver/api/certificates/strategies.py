"""Strategies of the certificates group."""

from __future__ import annotations

import copy

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.certificates import v1
from kapiserver.api.certificates.declarative_rules import SIGNING_REQUEST
from kapiserver.api.certificates.validation.pod_requests import (
    validate_pod_request,
    validate_pod_request_status_update,
    validate_pod_request_update,
)
from kapiserver.api.certificates.validation.signing_requests import (
    DECISIONS,
    validate_approval_update,
    validate_signing_request,
    validate_signing_request_update,
    validate_signing_status_update,
)
from kapiserver.api.certificates.validation.trust_bundles import (
    validate_trust_bundle,
    validate_trust_bundle_update,
)
from kapiserver.api.errors import FieldError
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.strategy import (
    STATUS_METADATA,
    SpecStrategy,
    StatusStrategy,
    Strategy,
    copy_field,
)
from kapiserver.api.types import Tree


class SigningRequestStrategy(SpecStrategy):
    """The strategy of signing requests, whose spec is immutable. Admission fills in the requesting
    user."""

    tracks_generation = False
    reset_fields = {"f:spec": {}, "f:status": {}}
    declarative_rules = SIGNING_REQUEST

    def check_name(self, name: str) -> list[str]:
        return names.path_segment(name)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        copy_field(new, old, "spec")
        copy_field(new, old, "status")

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_signing_request(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_signing_request_update(new, old))


class SigningStatusStrategy(StatusStrategy):
    """The strategy of status updates of the signer. Decisions keep their old content and must not
    be removed."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        old_conditions = value_at(old, "status", "conditions") or ()
        conditions = value_at(new, "status", "conditions") or []
        for type_ in DECISIONS:
            old_decisions = [
                decision for decision in old_conditions if decision.get("type") == type_
            ]
            indexes = [
                index
                for index, condition in enumerate(conditions)
                if condition.get("type") == type_
            ]
            if len(old_decisions) == len(indexes):
                for index, decision in zip(indexes, old_decisions, strict=True):
                    conditions[index] = copy.deepcopy(decision)


class ApprovalStrategy(StatusStrategy):
    """The strategy of updates of `/approval`, which change the conditions only."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        conditions = value_at(new, "status", "conditions")
        status = copy.deepcopy(old.get("status") or {})
        status.pop("conditions", None)
        if conditions:
            status["conditions"] = conditions
        new["status"] = status
        reorder_keys(status, v1.CertificateSigningRequestStatus)


class ClusterTrustBundleStrategy(Strategy):
    """The strategy of trust bundles. Validation checks that the name matches the signer."""

    allow_unconditional_update = False

    def check_name(self, name: str) -> list[str]:
        return []

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_trust_bundle(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_trust_bundle_update(new, old))


class PodCertificateRequestStrategy(SpecStrategy):
    """The strategy of pod certificate requests, whose spec is immutable."""

    allow_unconditional_update = False
    tracks_generation = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_pod_request(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_pod_request_update(new, old))


_SIGNING_REQUEST = SigningRequestStrategy()
_POD_REQUEST = PodCertificateRequestStrategy()

STRATEGIES: dict[str, Strategy] = {
    "certificatesigningrequests": _SIGNING_REQUEST,
    "certificatesigningrequests/approval": ApprovalStrategy(
        _SIGNING_REQUEST, validate_status=validate_approval_update
    ),
    "certificatesigningrequests/status": SigningStatusStrategy(
        _SIGNING_REQUEST, validate_status=validate_signing_status_update
    ),
    "clustertrustbundles": ClusterTrustBundleStrategy(),
    "podcertificaterequests": _POD_REQUEST,
    "podcertificaterequests/status": StatusStrategy(
        _POD_REQUEST,
        preserved_metadata=STATUS_METADATA,
        validate_status=validate_pod_request_status_update,
    ),
}

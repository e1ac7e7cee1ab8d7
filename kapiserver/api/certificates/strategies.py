"""Strategies of the certificates group."""

from __future__ import annotations

import copy

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.certificates import v1
from kapiserver.api.certificates.declarations import SIGNING_REQUEST
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
    """What was asked for does not change; who asked is filled in where the request is known."""

    tracks_generation = False
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
    """The signer's reports; decisions stay as they were made, and must not be left out."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        old_conditions = value_at(old, "status", "conditions") or ()
        conditions = value_at(new, "status", "conditions") or []
        for type_ in DECISIONS:
            decided = [one for one in old_conditions if one.get("type") == type_]
            places = [
                at for at, condition in enumerate(conditions) if condition.get("type") == type_
            ]
            if len(decided) == len(places):
                for at, one in zip(places, decided, strict=True):
                    conditions[at] = copy.deepcopy(one)


class ApprovalStrategy(StatusStrategy):
    """Writes of `/approval`: conditions, and nothing else of the status."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        wanted = value_at(new, "status", "conditions")
        status = copy.deepcopy(old.get("status") or {})
        status.pop("conditions", None)
        if wanted:
            status["conditions"] = wanted
        new["status"] = status
        reorder_keys(status, v1.CertificateSigningRequestStatus)


class ClusterTrustBundleStrategy(Strategy):
    """Its name begins with its signer's, which the rules see to."""

    allow_unconditional_update = False

    def check_name(self, name: str) -> list[str]:
        return []

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_trust_bundle(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_trust_bundle_update(new, old))


class PodCertificateRequestStrategy(SpecStrategy):
    """What a pod asked for does not change."""

    allow_unconditional_update = False
    tracks_generation = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_pod_request(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_pod_request_update(new, old))


_SIGNING = SigningRequestStrategy()
_POD = PodCertificateRequestStrategy()

STRATEGIES: dict[str, Strategy] = {
    "certificatesigningrequests": _SIGNING,
    "certificatesigningrequests/approval": ApprovalStrategy(
        _SIGNING, validate_status=validate_approval_update
    ),
    "certificatesigningrequests/status": SigningStatusStrategy(
        _SIGNING, validate_status=validate_signing_status_update
    ),
    "clustertrustbundles": ClusterTrustBundleStrategy(),
    "podcertificaterequests": _POD,
    "podcertificaterequests/status": StatusStrategy(
        _POD, preserved_metadata=STATUS_METADATA, validate_status=validate_pod_request_status_update
    ),
}

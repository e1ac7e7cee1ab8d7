"""AdmissionReview: the request that a webhook is sent, and the check of its response.

Mirrors pkg/admission/plugin/webhook/request of k8s.io/apiserver.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from kapiserver.api.go_format import quote
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.admission_request import admission_request
from kapiserver.apiserver.admission.matching.rules import ResourceVariant
from kapiserver.apiserver.attributes import Attributes
from kapiserver.codecs import yaml
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.json import (
    check_value_count,
    decode_value,
    encode_value_without_floats,
)
from kapiserver.codecs.limits import MAX_VALUES
from kapiserver.codecs.object_decoder import decode_object

_GROUP = "admission.k8s.io"
_KIND = "AdmissionReview"
_SCHEME = ' in scheme "pkg/util/webhook/client.go:74"'
"""The scheme of kube-apiserver's clients of webhooks."""
_KINDS = {version: GroupVersionKind(_GROUP, version, _KIND) for version in ("v1", "v1beta1")}
"""The kinds, by version."""


class BadReview(Exception):
    """The response of a webhook is not a valid AdmissionReview; `is_decoded` if it is a review."""

    def __init__(self, message: str, *, is_decoded: bool = True) -> None:
        super().__init__(message)
        self.is_decoded = is_decoded


class ReviewResponse(Struct, frozen=True, kw_only=True):
    """The decision of a webhook.

    status  why the request is rejected, None if the webhook gives no reason
    patch   JSON text, b"" for none
    """

    allowed: bool
    status: Tree | None = None
    patch: bytes = b""
    patch_type: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def review_version(supported: Sequence[str]) -> str | None:
    """Return the first known version that a webhook supports, or None."""
    return next((version for version in supported if version in _KINDS), None)


def encode_review(
    version: str,
    uid: str,
    attributes: Attributes,
    variant: ResourceVariant,
    new: bytes,
    old: bytes,
) -> bytes:
    """Return the AdmissionReview of a request as JSON. `new` and `old` are the JSON of its objects
    in the version of `variant`, or `null`."""
    request = {"uid": uid, "options": None, **admission_request(attributes, variant)}
    return b'{"kind":"%b","apiVersion":"%b/%b","request":%b,"object":%b,"oldObject":%b}}' % (
        _KIND.encode(),
        _GROUP.encode(),
        version.encode(),
        encode_value_without_floats(request).removesuffix(b"}"),
        new,
        old,
    )


def read_response(
    scheme: Scheme, data: bytes, version: str, uid: str, *, mutating: bool
) -> ReviewResponse:
    """Return the response in the body that a webhook sent. Raises BadReview."""
    expected = _KINDS[version]
    try:
        check_value_count(data, MAX_VALUES)
        # As kube-apiserver, which takes what does not begin as an object of JSON for YAML.
        is_json = data.lstrip()[:1] == b"{"
        document = decode_value(data) if is_json else yaml.decode_value(data)
        decoded = decode_object(scheme, document, defaults=expected, source=data)
    except CodecError as error:
        raise BadReview(str(error), is_decoded=False) from None
    if decoded.kind.group != _GROUP:
        kind, api_version = quote(decoded.kind.kind), quote(decoded.kind.api_version)
        raise BadReview(
            f"no kind {kind} is registered for version {api_version}{_SCHEME}",
            is_decoded=False,
        )
    if decoded.kind != expected:
        actual = f"{decoded.kind.version}.{decoded.kind.kind}"
        raise BadReview(
            f"converting ({actual}) to ({version}.{_KIND}): unknown conversion", is_decoded=False
        )
    response = decoded.object.get("response")
    if response is None:
        raise BadReview("webhook response was absent")
    if version == "v1":
        _check_v1(document, response, expected, uid, mutating=mutating)
    return _response(response, version, mutating=mutating)


def _check_v1(
    document: Any, response: Tree, expected: GroupVersionKind, uid: str, *, mutating: bool
) -> None:
    """Raise BadReview for a response that v1beta1 allows and v1 forbids."""
    if response.get("uid") != uid:
        actual = response.get("uid") or ""
        raise BadReview(f"expected response.uid={quote(uid)}, got {quote(actual)}")
    if not document.get("apiVersion") or not document.get("kind"):
        actual = f"{document.get('apiVersion') or '/'}, Kind={document.get('kind') or ''}"
        raise BadReview(f"expected webhook response of {expected}, got {actual}")
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating:
        for name, is_set in (("patch", bool(patch)), ("patchType", patch_type is not None)):
            if is_set:
                raise BadReview(f"validating webhook may not return response.{name}")
    elif patch and patch_type is None:
        raise BadReview("webhook returned response.patch but not response.patchType")
    elif not patch and patch_type is not None:
        raise BadReview("webhook returned response.patchType but not response.patch")
    elif patch_type == "":
        raise BadReview('webhook returned invalid response.patchType of ""')


def _response(response: Tree, version: str, *, mutating: bool) -> ReviewResponse:
    patch, patch_type = b"", ""
    if mutating and response.get("patch"):
        try:
            patch = base64.b64decode(response["patch"])
        except (binascii.Error, ValueError) as error:
            raise BadReview(str(error), is_decoded=False) from None
        # kube-apiserver does not look at the type in v1beta1.
        patch_type = response["patchType"] if version == "v1" else "JSONPatch"
    return ReviewResponse(
        allowed=bool(response.get("allowed")),
        status=response.get("status"),
        patch=patch,
        patch_type=patch_type,
        annotations=response.get("auditAnnotations") or {},
        warnings=response.get("warnings") or (),
    )

"""Converts custom objects between versions with the webhook of their definition.

One HTTPS request converts all objects of a page. The response is checked: of the metadata, a
webhook may change labels and annotations only. Mirrors webhook_converter.go of
k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from kapiserver.api.accessors import copy_tree, kind_of
from kapiserver.api.custom_kinds import Definition
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.go_format import go_type, join_errors
from kapiserver.api.group import GroupVersion
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.metadata_validation import validate_annotations
from kapiserver.api.types import Tree
from kapiserver.apiserver.webhooks.client_config import call_webhook
from kapiserver.apiserver.webhooks.http_client import WebhookFailed
from kapiserver.apiserver.webhooks.metrics import ConversionMetrics
from kapiserver.codecs.json import encode_value
from kapiserver.storage.errors import ConversionRefused
from kapiserver.storage.objects.store_registry import StoreRegistry

_REVIEW_VERSIONS = ("v1", "v1beta1")


class ConversionWebhooks:
    """Calls the conversion webhooks of all definitions."""

    def __init__(self, stores: StoreRegistry, metrics: ConversionMetrics) -> None:
        self._stores = stores
        self._metrics = metrics

    async def convert(
        self, definition: Definition, objects: Sequence[Tree], version: GroupVersion
    ) -> list[Tree]:
        """Return the objects in the given version; none of them is of that version already.

        Raises ConversionRefused.
        """
        webhook = (definition.spec.get("conversion") or {}).get("webhook") or {}
        review_versions = [
            name
            for name in webhook.get("conversionReviewVersions") or ()
            if name in _REVIEW_VERSIONS
        ]
        if not review_versions:
            raise ConversionRefused("no supported conversion review versions")
        uid = str(uuid.uuid4())
        api_version = f"apiextensions.k8s.io/{review_versions[0]}"
        review = {
            "kind": "ConversionReview",
            "apiVersion": api_version,
            "request": {"uid": uid, "desiredAPIVersion": str(version), "objects": list(objects)},
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        kind = kind_of(objects[0])
        started, stage = perf_counter(), "call"
        try:
            config = webhook.get("clientConfig") or {}
            response = await call_webhook(self._stores, config, review, self._metrics.client)
            stage = "malformed_response"
            converted = _converted_objects(response, api_version, uid)
            stage = "partial_response"
            if len(converted) != len(objects):
                raise ConversionRefused(
                    f"conversion webhook for {kind} returned {len(converted)} objects, "
                    f"expected {len(objects)}"
                )
            stage = "invalid_converted_object"
            prefix = f"conversion webhook for {kind} returned invalid"
            checked = [
                _check_object(*pair, version, prefix)
                for pair in zip(objects, converted, strict=True)
            ]
            stage = ""
            return checked
        except WebhookFailed as error:
            raise ConversionRefused(f"conversion webhook for {kind} failed: {error}") from None
        finally:
            labels = (definition.name, objects[0].get("apiVersion") or "", version.version)
            self._observe(labels, stage, perf_counter() - started)

    def _observe(self, labels: tuple[str, str, str], failed_stage: str, seconds: float) -> None:
        """Count a call; `labels` are the definition, the API version of the objects and the version
        that they get, `failed_stage` what failed, "" if nothing did."""
        name, from_version, to_version = labels
        result = "failure" if failed_stage else "success"
        failure = f"conversion_webhook_{failed_stage}_failure" if failed_stage else ""
        self._metrics.seconds.observe((result, failure), seconds)
        succeeded = "false" if failed_stage else "true"
        old_version = from_version.rpartition("/")[2]
        self._metrics.definition_seconds.observe(
            (name, old_version, to_version, succeeded), seconds
        )


def _converted_objects(review: Any, version: str, uid: str) -> Sequence[Any]:
    """Return the objects of a ConversionReview response. Raises WebhookFailed."""
    if not isinstance(review, dict):
        raise WebhookFailed("the response is not a ConversionReview")
    strict = version.endswith("/v1")
    actual, expected = (
        f"{tree.get('apiVersion') or '/'}, Kind={tree.get('kind') or ''}"
        for tree in (review, {"apiVersion": version, "kind": "ConversionReview"})
    )
    if strict and actual != expected:
        raise WebhookFailed(f"expected webhook response of {expected}, got {actual}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise WebhookFailed("no response provided")
    if strict and response.get("uid") != uid:
        raise WebhookFailed(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        status = result.get("status") or ""
        raise WebhookFailed(
            result.get("message") or f"response.result.status was '{status}', not 'Success'"
        )
    objects = response.get("convertedObjects") or []
    return objects if isinstance(objects, list) else []


def _check_object(obj: Tree, converted: Any, version: GroupVersion, prefix: str) -> Tree:
    """Return the converted object with the immutable metadata of the original. Raises
    ConversionRefused."""
    _check_kind(obj, converted, version, prefix)
    if "metadata" not in converted:
        raise ConversionRefused(f"{prefix} metadata: missing metadata in converted object")
    metadata, converted_metadata = obj.get("metadata") or {}, converted["metadata"]
    if not isinstance(converted_metadata, dict):
        problem = (
            f"invalid metadata of type {_go_type_name(converted_metadata)} in converted object"
        )
        raise ConversionRefused(f"{prefix} metadata: {problem}")
    for name, label in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        old_value, new_value = metadata.get(name) or "", converted_metadata.get(name) or ""
        if old_value != new_value:
            raise ConversionRefused(
                f"{prefix} object: must have the same {label}: {old_value} != {new_value}"
            )
    merged_metadata = {
        name: copy_tree(value) for name, value in metadata.items() if name not in _MUTABLE_METADATA
    }
    for name in _MUTABLE_METADATA:
        value = converted_metadata.get(name)
        if problem := _metadata_problem(name, value, metadata.get(name)):
            raise ConversionRefused(f"{prefix} metadata: {problem}")
        if value:
            merged_metadata[name] = value
    return {**converted, "metadata": merged_metadata}


def _check_kind(obj: Tree, converted: Any, version: GroupVersion, prefix: str) -> None:
    """Raise ConversionRefused for a wrong kind or version."""
    kind = converted.get("kind") if isinstance(converted, dict) else None
    if not isinstance(kind, str) or not kind:
        raise ConversionRefused(f"Object 'Kind' is missing in '{encode_value(converted).decode()}'")
    actual = converted.get("apiVersion") or ""
    if actual != str(version):
        problem = f"invalid groupVersion (expected {version}, received {actual})"
        raise ConversionRefused(f"{prefix} object at index 0: {problem}")
    if kind != obj["kind"]:
        problem = f"invalid kind (expected {obj['kind']}, received {kind})"
        raise ConversionRefused(f"{prefix} object at index 0: {problem}")


_MUTABLE_METADATA: Mapping[str, Callable[[dict[str, str], Path], Sequence[FieldError]]] = {
    "labels": validate_labels,
    "annotations": validate_annotations,
}
"""The metadata that a webhook may change, and how each is validated."""


def _metadata_problem(name: str, value: Any, old_value: Any) -> str:
    """Return the problem with labels or annotations, or ""; unchanged values are not checked."""
    if value is None:
        return ""
    if not isinstance(value, dict):
        return f"invalid metadata.{name} of type {_go_type_name(value)} in converted object"
    for key, item in value.items():
        if not isinstance(item, str):
            type_ = _go_type_name(item)
            return f"metadata.{name}[{key}] must be a string, but is {type_} in converted object"
    if value == old_value:
        return ""
    # kube-apiserver reports annotations under this path.
    path = Path("metadata.annotation" if name == "annotations" else f"metadata.{name}")
    return join_errors([str(error) for error in _MUTABLE_METADATA[name](value, path)])


def _go_type_name(value: Any) -> str:
    return "<nil>" if value is None else go_type(value)

"""Custom objects from version to version by the webhook that their definition names.

One HTTPS request for all objects of a page. What the webhook answers is held to what it may
change: everything but labels and annotations of the metadata stays. Mirrors
webhook_converter.go of k8s.io/apiextensions-apiserver.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kapiserver.api.accessors import copy_tree, kind_of
from kapiserver.api.custom_kinds import Definition
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.go_format import go_type
from kapiserver.api.group import GroupVersion
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.metadata_validation import validate_annotations
from kapiserver.api.types import Tree
from kapiserver.apiserver.customresources.webhook_client import WebhookFailed, ask
from kapiserver.codecs.json import encode_value
from kapiserver.storage.errors import ConversionRefused
from kapiserver.storage.store_registry import StoreRegistry

_SPOKEN = ("v1", "v1beta1")


class ConversionWebhooks:
    """Asks the webhooks of all definitions of one server."""

    def __init__(self, stores: StoreRegistry) -> None:
        self._stores = stores

    async def convert(
        self, definition: Definition, objects: Sequence[Tree], version: GroupVersion
    ) -> list[Tree]:
        """The objects, which are all of other versions, in that version.

        Raises ConversionRefused.
        """
        webhook = (definition.spec.get("conversion") or {}).get("webhook") or {}
        spoken = [one for one in webhook.get("conversionReviewVersions") or () if one in _SPOKEN]
        if not spoken:
            raise ConversionRefused("no supported conversion review versions")
        uid = str(uuid.uuid4())
        version_spoken = f"apiextensions.k8s.io/{spoken[0]}"
        review = {
            "kind": "ConversionReview",
            "apiVersion": version_spoken,
            "request": {"uid": uid, "desiredAPIVersion": str(version), "objects": list(objects)},
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
        kind = kind_of(objects[0])
        try:
            answer = await ask(self._stores, webhook.get("clientConfig") or {}, review)
            found = _converted(answer, version_spoken, uid)
        except WebhookFailed as error:
            raise ConversionRefused(f"conversion webhook for {kind} failed: {error}") from None
        if len(found) != len(objects):
            raise ConversionRefused(
                f"conversion webhook for {kind} returned {len(found)} objects, "
                f"expected {len(objects)}"
            )
        where = f"conversion webhook for {kind} returned invalid"
        return [_checked(*pair, version, where) for pair in zip(objects, found, strict=True)]


def _converted(answer: Any, version: str, uid: str) -> Sequence[Any]:
    """The objects in an answer. Raises WebhookFailed."""
    if not isinstance(answer, dict):
        raise WebhookFailed("the answer is no ConversionReview")
    strict = version.endswith("/v1")
    got, wanted = (
        f"{one.get('apiVersion') or '/'}, Kind={one.get('kind') or ''}"
        for one in (answer, {"apiVersion": version, "kind": "ConversionReview"})
    )
    if strict and got != wanted:
        raise WebhookFailed(f"expected webhook response of {wanted}, got {got}")
    response = answer.get("response")
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
    found = response.get("convertedObjects") or []
    return found if isinstance(found, list) else []


def _checked(before: Tree, after: Any, version: GroupVersion, where: str) -> Tree:
    """The converted object with the metadata that no webhook changes. Raises
    ConversionRefused."""
    _check_kind(before, after, version, where)
    if "metadata" not in after:
        raise ConversionRefused(f"{where} metadata: missing metadata in converted object")
    metadata, changed = before.get("metadata") or {}, after["metadata"]
    if not isinstance(changed, dict):
        words = f"invalid metadata of type {_go(changed)} in converted object"
        raise ConversionRefused(f"{where} metadata: {words}")
    for name, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        one, other = metadata.get(name) or "", changed.get(name) or ""
        if one != other:
            raise ConversionRefused(f"{where} object: must have the same {word}: {one} != {other}")
    kept = {name: copy_tree(one) for name, one in metadata.items() if name not in _RULES}
    for name in _RULES:
        value = changed.get(name)
        if problem := _problem(name, value, metadata.get(name)):
            raise ConversionRefused(f"{where} metadata: {problem}")
        if value:
            kept[name] = value
    return {**after, "metadata": kept}


def _check_kind(before: Tree, after: Any, version: GroupVersion, where: str) -> None:
    """Raises ConversionRefused when it is not the same kind in the version asked for."""
    kind = after.get("kind") if isinstance(after, dict) else None
    if not isinstance(kind, str) or not kind:
        raise ConversionRefused(f"Object 'Kind' is missing in '{encode_value(after).decode()}'")
    got = after.get("apiVersion") or ""
    if got != str(version):
        words = f"invalid groupVersion (expected {version}, received {got})"
        raise ConversionRefused(f"{where} object at index 0: {words}")
    if kind != before["kind"]:
        words = f"invalid kind (expected {before['kind']}, received {kind})"
        raise ConversionRefused(f"{where} object at index 0: {words}")


_RULES: Mapping[str, Callable[[dict[str, str], Path], Sequence[FieldError]]] = {
    "labels": validate_labels,
    "annotations": validate_annotations,
}
"""What a webhook may change of the metadata."""


def _problem(name: str, value: Any, before: Any) -> str:
    """What is wrong with labels or annotations; what was there before is let be."""
    if value is None:
        return ""
    if not isinstance(value, dict):
        return f"invalid metadata.{name} of type {_go(value)} in converted object"
    for key, one in value.items():
        if not isinstance(one, str):
            return f"metadata.{name}[{key}] must be a string, but is {_go(one)} in converted object"
    if value == before:
        return ""
    # Go's name of the path is another one.
    path = Path("metadata.annotation" if name == "annotations" else f"metadata.{name}")
    return _broken(_RULES[name](value, path))


def _broken(errors: Sequence[FieldError]) -> str:
    told = [str(error) for error in errors]
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]" if told else ""


def _go(value: Any) -> str:
    return "<nil>" if value is None else go_type(value)

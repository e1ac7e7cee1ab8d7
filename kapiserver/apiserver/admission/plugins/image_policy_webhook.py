"""ImagePolicyWebhook: asks a webhook whether the images of a pod may run.

Mirrors plugin/pkg/admission/imagepolicy.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from kapiserver.api.accessors import annotations_of, metadata_of
from kapiserver.api.names import qualified_name
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.configuration import PluginConfiguration
from kapiserver.apiserver.admission.plugin import PluginContext
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.authentication.token_cache import TokenCache
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.webhooks.http_client import WebhookFailed
from kapiserver.apiserver.webhooks.kubeconfig import read_kubeconfig

AUDIT_PREFIX = "imagepolicywebhook.image-policy.k8s.io/"
_FAILED_OPEN = "alpha.image-policy.k8s.io/failed-open"
_API_VERSION = "imagepolicy.k8s.io/v1alpha1"
_MAX_CACHED = 1024

_log = logging.getLogger(__name__)


class _Settings(Struct, frozen=True, kw_only=True):
    """The field imagePolicy of the configuration. Times are in seconds; 0 turns a cache off."""

    kubeconfig: Path
    allow_ttl: float
    deny_ttl: float
    retry_backoff: float
    default_allow: bool


class ImagePolicyWebhook:
    """The webhook of one server, and a cache of its verdicts. Raises BadAdmissionConfiguration
    without a valid configuration."""

    def __init__(self, context: PluginContext) -> None:
        configuration = context.configuration
        self._settings = _read_settings(configuration)
        try:
            self._webhook = read_kubeconfig(
                self._settings.kubeconfig,
                context.clock,
                purpose="image policy webhook",
                metrics=context.metrics.client,
            )
        except BadConfiguration as error:
            raise configuration.error(str(error)) from None
        self._clock = context.clock
        self._statuses: TokenCache[Tree] = TokenCache(context.clock, _MAX_CACHED)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._webhook.close()

    async def validate(
        self, _server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
    ) -> None:
        """Raise Forbidden if the webhook denies the images, or if it fails and the configuration
        does not set `defaultAllow`."""
        if new is None:
            return
        spec = _review_spec(attributes, new)
        try:
            status = await self._status(spec)
        except WebhookFailed as error:
            if not self._settings.default_allow:
                raise attributes.forbidden(str(error)) from None
            _log.warning("the image policy webhook failed; images are allowed: %s", error)
            attributes.audit.annotations[f"{AUDIT_PREFIX}failed-open"] = "true"
            metadata_of(new)["annotations"] = {**annotations_of(new), _FAILED_OPEN: "true"}
            return
        for name, value in status["auditAnnotations"].items():
            if not qualified_name(f"{AUDIT_PREFIX}{name}"):
                attributes.audit.annotations.setdefault(f"{AUDIT_PREFIX}{name}", value)
        if status["allowed"]:
            return
        if status["reason"]:
            raise attributes.forbidden(
                f"image policy webhook backend denied one or more images: {status['reason']}"
            )
        raise attributes.forbidden("one or more images rejected by webhook backend")

    async def _status(self, spec: Tree) -> Tree:
        """Return the status of the review of a spec, complete. Raises WebhookFailed."""
        key = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS).decode()
        status = self._statuses.get(key)
        if status is None:
            review = {
                "kind": "ImageReview",
                "apiVersion": _API_VERSION,
                "metadata": {"creationTimestamp": None},
                "spec": spec,
                "status": {"allowed": False},
            }
            backoff = self._settings.retry_backoff
            status = _status_of(await self._webhook.review(review, initial_backoff=backoff))
            ttl = self._settings.allow_ttl if status["allowed"] else self._settings.deny_ttl
            self._statuses.put(key, status, until=self._clock.now() + ttl)
        return status


def _review_spec(attributes: Attributes, pod: Tree) -> Tree:
    spec = pod.get("spec") or {}
    is_ephemeral = bool(attributes.target.subresource)
    kinds = ["ephemeralContainers"] if is_ephemeral else ["containers", "initContainers"]
    images = [
        {"image": container.get("image") or ""}
        for kind in kinds
        for container in spec.get(kind) or ()
    ]
    annotations = {
        name: value
        for name, value in annotations_of(pod).items()
        if ".image-policy.k8s.io/" in name
    }
    review: Tree = {"containers": images} if images else {}
    if annotations:
        review["annotations"] = annotations
    return {**review, "namespace": attributes.target.key.namespace}


def _status_of(response: Any) -> Tree:
    """Return the status of a response. Raises WebhookFailed for one that is not a review."""
    if not isinstance(response, dict) or response.get("kind") != "ImageReview":
        raise WebhookFailed("the response is not an ImageReview")
    if response.get("apiVersion") != _API_VERSION:
        raise WebhookFailed(f"the response is not of version {_API_VERSION}")
    status = response.get("status") or {}
    if not isinstance(status, dict):
        raise WebhookFailed("the response has no valid status")
    annotations = status.get("auditAnnotations")
    return {
        "allowed": status.get("allowed") is True,
        "reason": str(status.get("reason") or ""),
        "auditAnnotations": _texts(annotations) if isinstance(annotations, dict) else {},
    }


def _texts(annotations: Mapping[str, Any]) -> Mapping[str, str]:
    return {name: value for name, value in annotations.items() if isinstance(value, str)}


def _read_settings(configuration: PluginConfiguration) -> _Settings:
    """Return the settings of a configuration. Raises BadAdmissionConfiguration."""
    if not configuration.data.strip():
        raise configuration.error("no config specified")
    tree = configuration.decode_unversioned().get("imagePolicy") or {}
    if not isinstance(tree, dict) or not isinstance(tree.get("kubeConfigFile") or "", str):
        raise configuration.error("imagePolicy must be an object with a kubeConfigFile")
    return _Settings(
        kubeconfig=configuration.folder / (tree.get("kubeConfigFile") or ""),
        retry_backoff=_duration(configuration, tree, "retryBackoff"),
        allow_ttl=_duration(configuration, tree, "allowTTL"),
        deny_ttl=_duration(configuration, tree, "denyTTL"),
        default_allow=tree.get("defaultAllow") is True,
    )


_DURATIONS = {
    # Unit, minimum, maximum and default of each setting in seconds, and the limits in words.
    "retryBackoff": (1e-3, 1e-9, 300.0, 0.5, "between 1ns and 5m0s"),
    "allowTTL": (1.0, 1.0, 1800.0, 300.0, "between 1s and 30m0s"),
    "denyTTL": (1.0, 1.0, 1800.0, 30.0, "between 1s and 30m0s"),
}


def _duration(configuration: PluginConfiguration, tree: Tree, name: str) -> float:
    """Return the seconds of a duration: 0 if the configuration turns it off with -1. Raises
    BadAdmissionConfiguration."""
    unit, minimum, maximum, default, limits = _DURATIONS[name]
    value = tree.get(name) or 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise configuration.error(f"imagePolicy.{name} must be an integer")
    if value == -1:
        return 0.0
    if value == 0:
        return default
    seconds = value * unit
    if not minimum < seconds <= maximum:
        raise configuration.error(f"{name}: valid value is {limits}, got {seconds:g}s")
    return seconds

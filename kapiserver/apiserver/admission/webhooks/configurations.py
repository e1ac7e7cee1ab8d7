"""The webhooks of all configurations of one kind, compiled again after each change.

Mirrors pkg/admission/configuration of k8s.io/apiserver.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from kapiserver.api.accessors import name_of
from kapiserver.api.errors import BadObject
from kapiserver.api.group import GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.expressions import MatchConditions
from kapiserver.apiserver.admission.matching.criteria import Criteria, webhook_criteria
from kapiserver.apiserver.admission.matching.index import Candidate, MatchIndex
from kapiserver.apiserver.admission.webhooks.reviews import review_version
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.webhooks.client_config import ClientConfig
from kapiserver.storage.errors import Corrupt
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.store_registry import StoreRegistry

if TYPE_CHECKING:
    from kapiserver.apiserver.admission.static_manifests import StaticManifests

_GROUP_VERSION = GroupVersion("admissionregistration.k8s.io", "v1")
_DEFAULT_SECONDS = 10
_log = logging.getLogger(__name__)


class CompiledParts(Struct):
    """The parts of a webhook that are compiled when they are first needed."""

    conditions: MatchConditions | None = None


class Webhook(Struct, frozen=True, kw_only=True, eq=False):
    """One compiled webhook.

    uid             identifies the webhook: configuration, name and position
    index           the position among all webhooks of the kind
    timeout         the time limit of a call in seconds
    review_version  the version of the AdmissionReview; None if the server knows no version that the
                    webhook accepts
    """

    name: str
    configuration: str
    uid: str
    index: int
    client_config: ClientConfig
    ignores_failures: bool
    has_side_effects: bool
    is_reinvoked: bool
    timeout: int
    review_version: str | None
    match_conditions: tuple[Tree, ...]
    compiled: CompiledParts = field(default_factory=CompiledParts)


class WebhookConfigurations:
    """The webhooks of all MutatingWebhookConfigurations, or of all ValidatingWebhookConfigurations,
    in order of the names of the configurations."""

    def __init__(
        self,
        resource: str,
        scheme: Scheme,
        stores: StoreRegistry,
        manifests: StaticManifests | None = None,
        *,
        sees_reviews: bool = False,
    ) -> None:
        """Subscribe to the informer of the configurations; those of `manifests` come first. With
        `sees_reviews` webhooks are asked about reviews of authentication and authorization."""
        self._resource = resource
        self._scheme = scheme
        self._manifests = manifests
        self._sees_reviews = sees_reviews
        self._informer = stores.by_name(_GROUP_VERSION, resource).informer
        self._subscription = self._informer.subscribe_batches(self._on_changes)
        self._is_ready = False
        self._index: MatchIndex[Webhook] | None = None
        if manifests is not None:
            manifests.start(self._drop_index)

    def close(self) -> None:
        """Cancel the subscription. Idempotent."""
        self._subscription.cancel()
        if self._manifests is not None:
            self._manifests.stop()

    async def candidates(self, attributes: Attributes) -> Sequence[Candidate[Webhook]]:
        """Return the webhooks whose rules match a request, in order. Raises StorageError if the
        configurations have never been read and cannot be read now."""
        if not self._is_ready:
            await self._subscription.wait_synced()
            self._is_ready = True
        index = self._index
        if index is None:
            static = list(_compile_all(self._static_configurations(), prefix="manifest/"))
            present = list(_compile_all(self._present_configurations(), first=len(static)))
            index = self._index = MatchIndex(
                self._scheme, present, static, sees_reviews=self._sees_reviews
            )
        return index.candidates(attributes)

    def is_idle(self, attributes: Attributes) -> bool:
        """Whether it is known already that no rule of a webhook matches a request."""
        return self._index is not None and not self._index.candidates(attributes)

    def _on_changes(self, _changes: Sequence[ObjectChange]) -> None:
        self._drop_index()

    def _drop_index(self) -> None:
        self._index = None

    def _static_configurations(self) -> Sequence[Tree]:
        return self._manifests.objects[self._resource] if self._manifests is not None else ()

    def _present_configurations(self) -> Iterator[Tree]:
        for entry in self._informer.lister.list():
            try:
                yield entry.tree()
            except Corrupt as error:
                _log.warning("a webhook configuration is ignored: %s", error)


def _compile_all(
    configurations: Iterable[Tree], *, first: int = 0, prefix: str = ""
) -> Iterator[tuple[Criteria, Webhook]]:
    """Yield the webhooks of configurations. `first` is the index of the first webhook; each uid
    starts with `prefix`."""
    index = first
    for configuration in configurations:
        name = name_of(configuration)
        for position, webhook in enumerate(configuration.get("webhooks") or ()):
            try:
                criteria = webhook_criteria(webhook)
            except BadObject as error:
                # Validation refuses such a selector; an older server may have stored it.
                _log.warning("the webhook %s is ignored: %s", webhook.get("name"), error)
                continue
            uid = f"{prefix}{name}/{webhook.get('name') or ''}/{position}"
            yield criteria, _compile(name, webhook, uid, index)
            index += 1


def _compile(configuration: str, webhook: Tree, uid: str, index: int) -> Webhook:
    timeout = webhook.get("timeoutSeconds") or _DEFAULT_SECONDS
    return Webhook(
        name=webhook.get("name") or "",
        configuration=configuration,
        uid=uid,
        index=index,
        client_config=ClientConfig(webhook.get("clientConfig") or {}, timeout),
        ignores_failures=webhook.get("failurePolicy") == "Ignore",
        has_side_effects=webhook.get("sideEffects") not in ("None", "NoneOnDryRun"),
        is_reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
        timeout=timeout,
        review_version=review_version(webhook.get("admissionReviewVersions") or ()),
        match_conditions=tuple(webhook.get("matchConditions") or ()),
    )

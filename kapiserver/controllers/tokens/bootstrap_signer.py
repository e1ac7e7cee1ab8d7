"""Signs the ConfigMap `kube-public/cluster-info` with each bootstrap token.

A node that joins has a token; the signature proves to it that the CA in the ConfigMap is that of
the cluster. A signature is a JSON Web Signature without its payload, which is the kubeconfig.
Mirrors pkg/controller/bootstrap/bootstrapsigner.go.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable

from kapiserver.api.accessors import is_terminating
from kapiserver.api.group import CORE
from kapiserver.api.selectors import FieldTerm, Selection
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.bootstrap_token import (
    NAMESPACE,
    SECRET_PREFIX,
    SECRET_TYPE,
    expiry_of,
    secret_text,
)
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

CLUSTER_INFO = ObjectKey("kube-public", "cluster-info")
_CONTENT = "kubeconfig"
_SIGNATURE = "jws-kubeconfig-"
_BOOTSTRAP_TOKENS = Selection(fields=(FieldTerm(name="type", value=SECRET_TYPE, equal=True),))


class BootstrapSigner(Controller[ObjectKey]):
    """The control loop; its queue holds the key of the ConfigMap."""

    def set_up(self) -> None:
        """Watch ConfigMaps and Secrets."""
        self._config_maps = self.watch(CORE, "configmaps", _for_config_map)
        self._secrets = self.watch(CORE, "secrets", _for_token)

    async def reconcile(self, key: ObjectKey) -> None:
        """Write the signatures of all tokens."""
        entry = self._config_maps.lister.get(key)
        data = (entry.tree().get("data") or {}) if entry is not None else {}
        if _CONTENT not in data or self._with_signatures(data) == data:
            return
        config_maps = self.context.resource("v1", "configmaps", namespace=key.namespace)
        with suppress_reason("NotFound"):
            await config_maps.update_with_retry(
                key.name,
                lambda tree: tree | {"data": self._with_signatures(tree.get("data") or {})},
            )

    def _with_signatures(self, data: Tree) -> Tree:
        """Return the data of the ConfigMap with the signatures of all tokens, and no others."""
        unsigned = {name: text for name, text in data.items() if not name.startswith(_SIGNATURE)}
        content = data.get(_CONTENT)
        if content is None:
            return unsigned
        signatures = {
            f"{_SIGNATURE}{token_id}": detached_signature(content, token_id, secret)
            for token_id, secret in self._tokens().items()
        }
        return unsigned | signatures

    def _tokens(self) -> dict[str, str]:
        """Return the secrets of the tokens that may sign, by id."""
        tokens: dict[str, str] = {}
        for entry in self._secrets.lister.select(_BOOTSTRAP_TOKENS, NAMESPACE):
            tree = entry.tree()
            token_id, secret = secret_text(tree, "token-id"), secret_text(tree, "token-secret")
            expiry = expiry_of(tree)
            if (
                token_id
                and secret
                and entry.key.name == f"{SECRET_PREFIX}{token_id}"
                and secret_text(tree, "usage-bootstrap-signing") == "true"
                and (expiry is None or expiry > self.clock.now())
                and not is_terminating(tree)
            ):
                tokens[token_id] = secret
        return tokens


def _for_config_map(change: ObjectChange) -> Iterable[ObjectKey]:
    return (CLUSTER_INFO,) if change.last.key == CLUSTER_INFO else ()


def _for_token(change: ObjectChange) -> Iterable[ObjectKey]:
    is_token = change.last.key.namespace == NAMESPACE and change.last.is_selected(_BOOTSTRAP_TOKENS)
    return (CLUSTER_INFO,) if is_token else ()


def detached_signature(content: str, token_id: str, secret: str) -> str:
    """Return the JSON Web Signature of a text (RFC 7515) without the text: `HEADER..SIGNATURE`."""
    header = json.dumps({"alg": "HS256", "kid": token_id}, separators=(",", ":"))
    head, payload = (_base64url(text.encode()) for text in (header, content))
    digest = hmac.new(secret.encode(), f"{head}.{payload}".encode(), hashlib.sha256).digest()
    return f"{head}..{_base64url(digest)}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

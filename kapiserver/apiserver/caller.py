"""The caller of an operation: its user, and the warnings and annotations that the operation adds.

Created from an HTTP request or by the internal client. Knows neither.
"""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec import Struct, field

from kapiserver.api.types import Tree
from kapiserver.apiserver.user import User

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Warnings(Struct, eq=False):
    """Texts for the response's Warning headers, without duplicates. When they have more than
    `LIMIT` characters in total, each is cut after `SHORT` characters, and later ones are dropped.
    Mirrors the recorder of k8s.io/apiserver/pkg/endpoints/filters/warning.go."""

    LIMIT: ClassVar[int] = 4096
    SHORT: ClassVar[int] = 256
    texts: list[str] = field(default_factory=list)
    _is_full: bool = False

    def add(self, text: str) -> None:
        """Add a text, unless it has control characters, which a header cannot have."""
        # Names decoded from CBOR may contain surrogates.
        text = text.encode("utf-8", "replace").decode()
        if self._is_full or not text or text in self.texts or _CONTROL.search(text):
            return
        self.texts.append(text)
        if sum(map(len, self.texts)) > self.LIMIT:
            self._is_full = True
            self.texts[:] = [text[: self.SHORT] for text in self.texts]

    def clear(self) -> None:
        """Forget all texts."""
        self.texts.clear()
        self._is_full = False


class AuditNotes(Struct, eq=False, kw_only=True):
    """What filters and operations note for the audit event of a request.

    id          identifies the request in the log and in the response
    is_decided  whether the audit policy was asked about the request
    has_body    whether the event will have the body of the request
    annotations annotations of the event
    object_reference    what the body says about the object of the event
    """

    id: str = ""
    is_decided: bool = False
    has_body: bool = False
    annotations: dict[str, str] = field(default_factory=dict)
    object_reference: dict[str, str] = field(default_factory=dict)

    def record_reference(self, obj: Tree) -> None:
        """Record the name, namespace, uid and resourceVersion in the body of a request."""
        metadata = obj.get("metadata") or {}
        for name in ("namespace", "name", "uid", "resourceVersion"):
            if text := metadata.get(name):
                self.object_reference[name] = text


class Caller(Struct, frozen=True, kw_only=True):
    """The user of an operation.

    verb        the verb of the request, such as patch
    user_agent  names the program; its part before the slash is the default field manager
    warnings    warnings for the client
    audit       notes for the audit event
    may_all     whether the operation is the server's own, which needs no right
    """

    user: User
    verb: str = ""
    user_agent: str = ""
    warnings: Warnings = field(default_factory=Warnings)
    audit: AuditNotes = field(default_factory=AuditNotes)
    may_all: bool = False

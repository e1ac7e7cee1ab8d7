"""Caller: on whose behalf an operation runs, and what the server tells them beside the result.

Made of an HTTP request or by the internal client. Knows neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kapiserver.apiserver.authentication.user import User


class Warnings:
    """Texts for the client's Warning headers: no text twice, bounded in number and size."""

    LIMIT = 4096
    __slots__ = ("texts",)

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, text: str) -> None:
        """Tell the client; ignored beyond the bound, as kube-apiserver does."""
        # Names out of CBOR may hold bytes that are no text.
        text = text.encode("utf-8", "replace").decode()
        if text and text not in self.texts:
            size = sum(map(len, self.texts)) + len(text)
            if size <= self.LIMIT:
                self.texts.append(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The user of an operation.

    user_agent  names the program; its part before the slash is the default field manager
    warnings    for the client
    annotations of the audit event
    """

    user: User
    user_agent: str = ""
    warnings: Warnings = field(default_factory=Warnings)
    annotations: dict[str, str] = field(default_factory=dict)

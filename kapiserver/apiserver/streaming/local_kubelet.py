"""The interface of a kubelet inside this server, which answers for the pods of some nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from kapiserver.api.resource_client import Client
from kapiserver.api.types import Tree
from kapiserver.apiserver.streaming.remote_command import Command
from kapiserver.apiserver.streaming.stream import Stream

Forward: TypeAlias = Callable[[int, Stream], Awaitable[None]]
"""Passes bytes between a port of a pod and a stream until either ends. Raises OSError if the port
cannot be reached; its text is for the client."""


class PodTarget(Struct, frozen=True, kw_only=True):
    """What a request is about.

    pod         the pod as it is now
    container   the name of one of its containers, of any kind; "" for port-forward
    client      reads objects
    """

    pod: Tree
    container: str = ""
    client: Client


class LocalKubelet(Protocol):
    """Answers logs, exec, attach and port-forward in place of the kubelets of some nodes. Every
    method may raise an error that `errors.TABLE` has a row for."""

    def serves(self, node: Tree) -> bool:
        """Report whether it answers for the pods of a node."""

    async def log(self, target: PodTarget, options: Tree) -> AsyncIterator[bytes]:
        """Return the log of a container; `options` is a PodLogOptions."""

    async def exec(self, target: PodTarget, command: Sequence[str]) -> Command:
        """Return what runs a command in a container."""

    async def attach(self, target: PodTarget) -> Command:
        """Return what attaches to a container."""

    async def port_forward(self, target: PodTarget) -> Forward:
        """Return what connects to the ports of a pod."""

"""Query options of the connections to pods, nodes and services."""

from __future__ import annotations

from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, field, int32, int64


class PodLogOptions(Kind):
    """Query options of a pod's log."""

    listed = False

    container: str = field(1)
    follow: bool = field(2)
    previous: bool = field(3)
    sinceSeconds: int64 | None = field(4)
    sinceTime: Time | None = field(5)
    timestamps: bool = field(6)
    tailLines: int64 | None = field(7)
    limitBytes: int64 | None = field(8)
    insecureSkipTLSVerifyBackend: bool = field(9)
    stream: str | None = field(10)


class PodExecOptions(Kind):
    """Query options of running a command in a pod."""

    listed = False

    stdin: bool = field(1, doc="Whether standard input is connected.")
    stdout: bool = field(2, doc="Whether standard output is connected.")
    stderr: bool = field(3, doc="Whether standard error is connected.")
    tty: bool = field(4, doc="Whether there is a terminal.")
    container: str = field(5, doc="The container, by name.")
    command: list[str] = field(
        6, always=True, required=True, doc="What to run, one argument after another."
    )


class PodAttachOptions(Kind):
    """Query options of attaching to a container."""

    listed = False

    stdin: bool = field(1, doc="Whether standard input is connected.")
    stdout: bool = field(2, doc="Whether standard output is connected.")
    stderr: bool = field(3, doc="Whether standard error is connected.")
    tty: bool = field(4, doc="Whether there is a terminal.")
    container: str = field(5, doc="The container, by name.")


class PodPortForwardOptions(Kind):
    """Query options of forwarding ports."""

    listed = False

    ports: list[int32] = field(1, doc="Ports to forward.")


class PodProxyOptions(Kind):
    """Query options of the proxy to a pod."""

    listed = False

    path: str = field(1, doc="Where it is.")


class NodeProxyOptions(Kind):
    """Query options of the proxy to a node."""

    listed = False

    path: str = field(1, doc="Where it is.")


class ServiceProxyOptions(Kind):
    """Query options of the proxy to a service."""

    listed = False

    path: str = field(1, doc="Where it is.")

"""Query parameters of the subresources of pods, nodes and services that open connections."""

from __future__ import annotations

from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, field, int32, int64


class PodLogOptions(Kind):
    """Query parameters of the log subresource of pods."""

    listed = False

    container: str = field(
        1,
        doc=(
            "Container whose log to return. Default: the only container of the pod; required when "
            "there are several."
        ),
    )
    follow: bool = field(
        2,
        doc=(
            "Keep the response open and send new lines as the container writes them. Default: "
            "false."
        ),
    )
    previous: bool = field(
        3, doc="Return the log of the container's run before its last restart. Default: false."
    )
    sinceSeconds: int64 | None = field(
        4, doc="Return only lines of the last so many seconds, at least 1. Excludes sinceTime."
    )
    sinceTime: Time | None = field(
        5, doc="Return only lines written at this time (RFC 3339) or later. Excludes sinceSeconds."
    )
    timestamps: bool = field(
        6, doc="Begin each line with the time at which it was written. Default: false."
    )
    tailLines: int64 | None = field(
        7,
        doc=(
            "Return only this many lines from the end of the log, 0 or more. When absent: from "
            "the beginning or from the since parameter."
        ),
    )
    limitBytes: int64 | None = field(
        8,
        doc=(
            "Maximum size of the response in bytes, at least 1; it may end within a line. When "
            "absent: no maximum."
        ),
    )
    insecureSkipTLSVerifyBackend: bool = field(
        9,
        doc=(
            "Do not verify the certificate of the kubelet, so that the log may come from an "
            "impostor. Default: false."
        ),
    )
    stream: str | None = field(
        10, doc="Stream of the container to return: All, Stdout or Stderr. Default: All."
    )


class PodExecOptions(Kind):
    """Query parameters of the exec subresource of pods."""

    listed = False

    stdin: bool = field(1, doc="Connect the standard input of the command. Default: false.")
    stdout: bool = field(2, doc="Connect the standard output of the command. Default: true.")
    stderr: bool = field(3, doc="Connect the standard error of the command. Default: true.")
    tty: bool = field(
        4,
        doc=(
            "Allocate a terminal for the command; its standard error then arrives on standard "
            "output. Default: false."
        ),
    )
    container: str = field(
        5, doc="Container to run the command in. Default: the only container of the pod."
    )
    command: list[str] = field(
        6,
        always=True,
        required=True,
        doc=(
            "Program and its arguments, repeated as one parameter each. They are run without a "
            "shell."
        ),
    )


class PodAttachOptions(Kind):
    """Query parameters of the attach subresource of pods."""

    listed = False

    stdin: bool = field(
        1,
        doc=(
            "Connect the standard input of the container, which must have stdin set. Default: "
            "false."
        ),
    )
    stdout: bool = field(2, doc="Connect the standard output of the container. Default: true.")
    stderr: bool = field(3, doc="Connect the standard error of the container. Default: true.")
    tty: bool = field(
        4, doc="Connect the terminal of the container, which must have tty set. Default: false."
    )
    container: str = field(5, doc="Container to attach to. Default: the only container of the pod.")


class PodPortForwardOptions(Kind):
    """Query parameters of the portforward subresource of pods."""

    listed = False

    ports: list[int32] = field(
        1, doc="Ports of the pod to forward. Required for WebSocket connections."
    )


class PodProxyOptions(Kind):
    """Query parameters of the proxy subresource of pods."""

    listed = False

    path: str = field(1, doc="Path of the request that is sent to the pod.")


class NodeProxyOptions(Kind):
    """Query parameters of the proxy subresource of nodes."""

    listed = False

    path: str = field(1, doc="Path of the request that is sent to the kubelet of the node.")


class ServiceProxyOptions(Kind):
    """Query parameters of the proxy subresource of services."""

    listed = False

    path: str = field(1, doc="Path of the request that is sent to the service, with any query.")

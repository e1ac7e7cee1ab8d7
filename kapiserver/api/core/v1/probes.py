"""Probes and lifecycle hooks: what the kubelet does to a container while it runs."""

from __future__ import annotations

from kapiserver.api.scalar_types import IntOrString
from kapiserver.api.types import Type, field, int32, int64

# fmt: off
STOP_SIGNALS = (
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL",
    "SIGINT", "SIGIO", "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT",
    "SIGSEGV", "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN",
    "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ",
    "SIGRTMIN", "SIGRTMIN+1", "SIGRTMIN+2", "SIGRTMIN+3", "SIGRTMIN+4", "SIGRTMIN+5",
    "SIGRTMIN+6", "SIGRTMIN+7", "SIGRTMIN+8", "SIGRTMIN+9", "SIGRTMIN+10", "SIGRTMIN+11",
    "SIGRTMIN+12", "SIGRTMIN+13", "SIGRTMIN+14", "SIGRTMIN+15", "SIGRTMAX-14", "SIGRTMAX-13",
    "SIGRTMAX-12", "SIGRTMAX-11", "SIGRTMAX-10", "SIGRTMAX-9", "SIGRTMAX-8", "SIGRTMAX-7",
    "SIGRTMAX-6", "SIGRTMAX-5", "SIGRTMAX-4", "SIGRTMAX-3", "SIGRTMAX-2", "SIGRTMAX-1",
    "SIGRTMAX",
)
# fmt: on
"""Signals that may stop a container."""


class Probe(Type):
    """A check that the kubelet repeats while a container runs."""

    handler: ProbeHandler = field(1, inline=True)
    initialDelaySeconds: int32 = field(
        2,
        doc=(
            "Seconds from the container's start to the first probe. Default: 0. A startup probe "
            "adapts better than a long delay."
        ),
    )
    timeoutSeconds: int32 = field(
        3, doc="Seconds after which an unanswered probe counts as failed. Default: 1."
    )
    periodSeconds: int32 = field(4, doc="Seconds between two probes. Default: 10.")
    successThreshold: int32 = field(
        5,
        doc=(
            "Consecutive successes after a failure until the probe counts as successful. Default: "
            "1, which is the only value for liveness and startup."
        ),
    )
    failureThreshold: int32 = field(
        6, doc="Consecutive failures after a success until the probe counts as failed. Default: 3."
    )
    terminationGracePeriodSeconds: int64 | None = field(
        7,
        doc=(
            "Seconds that the container gets to stop after this probe failed, at least 1. "
            "Default: the pod's period. Not allowed for readiness probes."
        ),
    )


class ProbeHandler(Type):
    """The action of a probe. Exactly one field is set."""

    exec: ExecAction | None = field(
        1, doc="Run a command in the container. The probe succeeds when it exits with 0."
    )
    httpGet: HTTPGetAction | None = field(
        2, doc="Send an HTTP GET request. The probe succeeds with a status from 200 to 399."
    )
    tcpSocket: TCPSocketAction | None = field(
        3, doc="Open a TCP connection. The probe succeeds when the port accepts it."
    )
    grpc: GRPCAction | None = field(
        4, doc="Call the gRPC health service. The probe succeeds when the answer is SERVING."
    )


class Lifecycle(Type):
    """Actions of the kubelet around a container's start and stop."""

    postStart: LifecycleHandler | None = field(
        1,
        doc=(
            "Action right after the container is created, beside its command. If it fails, the "
            "container is killed and restarted as its policy says."
        ),
    )
    preStop: LifecycleHandler | None = field(
        2,
        doc=(
            "Action before the stop signal is sent. It counts against the grace period of the "
            "pod. It does not run when the container exits by itself."
        ),
    )
    stopSignal: str | None = field(
        3,
        enum=STOP_SIGNALS,
        doc=(
            "Signal that stops the container, for example SIGQUIT. Needs spec.os.name. When "
            "absent: the image's signal, or SIGTERM. Alpha: the server drops this field from new "
            "pods."
        ),
    )


class LifecycleHandler(Type):
    """The action of a lifecycle hook. Exactly one field is set."""

    exec: ExecAction | None = field(
        1, doc="Run a command in the container as the hook. A nonzero exit code is a failure."
    )
    httpGet: HTTPGetAction | None = field(
        2, doc="Send an HTTP GET request as the hook. A status below 200 or above 399 is a failure."
    )
    tcpSocket: TCPSocketAction | None = field(
        3,
        doc=(
            "Deprecated and without effect: a hook with it fails when it runs. Use exec or httpGet."
        ),
    )
    sleep: SleepAction | None = field(
        4,
        doc=(
            "Pause the container's start or stop for some seconds, for example until load "
            "balancers have noticed."
        ),
    )


class ExecAction(Type):
    """Runs a command inside the container."""

    command: list[str] = field(
        1,
        doc=(
            "Program and its arguments, run in the container's root directory without a shell; "
            "call a shell for pipes or variables. It is required."
        ),
    )


class HTTPGetAction(Type):
    """Sends an HTTP GET request to the container."""

    path: str = field(1, doc="Path of the request, for example /healthz. Default: /.")
    port: IntOrString = field(
        2,
        required=True,
        doc=(
            "Port of the request: a number from 1 to 65535, or the name of one of the container's "
            "ports."
        ),
    )
    host: str = field(
        3,
        doc=(
            "Host that the request goes to. When empty: the pod's IP address. Set a Host header "
            "in httpHeaders rather than this."
        ),
    )
    scheme: str = field(
        4,
        enum=("HTTP", "HTTPS"),
        doc=(
            "Scheme of the request: HTTP or HTTPS. With HTTPS, the certificate is not verified. "
            "Default: HTTP."
        ),
    )
    httpHeaders: list[HTTPHeader] = field(
        5, doc="Additional headers of the request. A name may be repeated."
    )
    protocol: str | None = field(
        6,
        enum=("HTTP1", "HTTP2"),
        doc=(
            "Version of HTTP for the request: HTTP1 or HTTP2. Alpha: the server drops this field "
            "from new pods."
        ),
    )


class HTTPHeader(Type):
    """One header of a probe's or hook's HTTP request."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc="Name of the header, for example X-Probe. Case does not matter.",
    )
    value: str = field(2, always=True, required=True, doc="Value of the header, sent as it is.")


class TCPSocketAction(Type):
    """Opens a TCP connection to the container."""

    port: IntOrString = field(
        1,
        required=True,
        doc=(
            "Port to connect to: a number from 1 to 65535, or the name of one of the container's "
            "ports."
        ),
    )
    host: str = field(2, doc="Host to connect to. When empty: the pod's IP address.")


class GRPCAction(Type):
    """Calls the gRPC health service of the container (grpc.health.v1.Health)."""

    port: int32 = field(
        1,
        always=True,
        required=True,
        doc="Number of the port that serves gRPC, 1 to 65535. Names are not allowed.",
    )
    service: str | None = field(
        2,
        always=True,
        default="",
        doc=(
            "Service to ask about in the health check request. Default: empty, which means the "
            "server as a whole."
        ),
    )
    mode: str | None = field(
        3,
        enum=("Plaintext", "TLS"),
        doc=(
            "Plaintext or TLS connection to the port. When absent: Plaintext. Alpha: the server "
            "drops this field from new pods."
        ),
    )


class SleepAction(Type):
    """Waits for a number of seconds."""

    seconds: int64 = field(
        1,
        always=True,
        required=True,
        doc="Seconds to wait, 0 to the pod's terminationGracePeriodSeconds.",
    )

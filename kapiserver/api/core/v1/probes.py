"""What the kubelet does to a container: probes and lifecycle hooks."""

from __future__ import annotations

from kapiserver.api.leaves import IntOrString
from kapiserver.api.types import Type, field, int32, int64


class Probe(Type):
    """A health check that is repeated while the container runs."""

    handler: ProbeHandler = field(1, inline=True)
    initialDelaySeconds: int32 = field(2, doc="How long to wait before the first time.")
    timeoutSeconds: int32 = field(3, doc="How long an answer may take.")
    periodSeconds: int32 = field(4, doc="How often.")
    successThreshold: int32 = field(5, doc="How many successes in a row count as one.")
    failureThreshold: int32 = field(6, doc="How many failures in a row count as one.")
    terminationGracePeriodSeconds: int64 | None = field(
        7, doc="How long it has to end after a failure."
    )


class ProbeHandler(Type):
    """The one action a probe takes."""

    exec: ExecAction | None = field(1, doc="Run a command in the container.")
    httpGet: HTTPGetAction | None = field(2, doc="Ask over HTTP.")
    tcpSocket: TCPSocketAction | None = field(3, doc="Open a connection.")
    grpc: GRPCAction | None = field(4, doc="Ask over gRPC.")


class Lifecycle(Type):
    """What is done right after a container starts and right before it stops."""

    postStart: LifecycleHandler | None = field(1, doc="Right after it started.")
    preStop: LifecycleHandler | None = field(2, doc="Before it is told to end.")
    stopSignal: str | None = field(
        3,
        enum=(
            "SIGABRT",
            "SIGALRM",
            "SIGBUS",
            "SIGCHLD",
            "SIGCLD",
            "SIGCONT",
            "SIGFPE",
            "SIGHUP",
            "SIGILL",
            "SIGINT",
            "SIGIO",
            "SIGIOT",
            "SIGKILL",
            "SIGPIPE",
            "SIGPOLL",
            "SIGPROF",
            "SIGPWR",
            "SIGQUIT",
            "SIGSEGV",
            "SIGSTKFLT",
            "SIGSTOP",
            "SIGSYS",
            "SIGTERM",
            "SIGTRAP",
            "SIGTSTP",
            "SIGTTIN",
            "SIGTTOU",
            "SIGURG",
            "SIGUSR1",
            "SIGUSR2",
            "SIGVTALRM",
            "SIGWINCH",
            "SIGXCPU",
            "SIGXFSZ",
            "SIGRTMIN",
            "SIGRTMIN+1",
            "SIGRTMIN+2",
            "SIGRTMIN+3",
            "SIGRTMIN+4",
            "SIGRTMIN+5",
            "SIGRTMIN+6",
            "SIGRTMIN+7",
            "SIGRTMIN+8",
            "SIGRTMIN+9",
            "SIGRTMIN+10",
            "SIGRTMIN+11",
            "SIGRTMIN+12",
            "SIGRTMIN+13",
            "SIGRTMIN+14",
            "SIGRTMIN+15",
            "SIGRTMAX-14",
            "SIGRTMAX-13",
            "SIGRTMAX-12",
            "SIGRTMAX-11",
            "SIGRTMAX-10",
            "SIGRTMAX-9",
            "SIGRTMAX-8",
            "SIGRTMAX-7",
            "SIGRTMAX-6",
            "SIGRTMAX-5",
            "SIGRTMAX-4",
            "SIGRTMAX-3",
            "SIGRTMAX-2",
            "SIGRTMAX-1",
            "SIGRTMAX",
        ),
        doc="The signal that ends it.",
    )


class LifecycleHandler(Type):
    """The one action a lifecycle hook takes."""

    exec: ExecAction | None = field(1, doc="Run a command in the container.")
    httpGet: HTTPGetAction | None = field(2, doc="Ask over HTTP.")
    tcpSocket: TCPSocketAction | None = field(3, doc="Open a connection.")
    sleep: SleepAction | None = field(4, doc="Wait.")


class ExecAction(Type):
    """Runs a command inside the container."""

    command: list[str] = field(1, doc="What to run, one argument after another.")


class HTTPGetAction(Type):
    """Makes an HTTP GET request."""

    path: str = field(1, doc="The path to ask for.")
    port: IntOrString = field(2, required=True, doc="The port, by number or name.")
    host: str = field(3, doc="Whom to ask; the pod where nothing is said.")
    scheme: str = field(4, enum=("HTTP", "HTTPS"), doc="HTTP or HTTPS.")
    httpHeaders: list[HTTPHeader] = field(5, doc="Further headers.")
    protocol: str | None = field(6, enum=("HTTP1", "HTTP2"), doc="TCP, UDP or SCTP.")


class HTTPHeader(Type):
    """A header to send along."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    value: str = field(2, always=True, required=True, doc="Its value.")


class TCPSocketAction(Type):
    """Opens a TCP connection."""

    port: IntOrString = field(1, required=True, doc="The port, by number or name.")
    host: str = field(2, doc="The host, by name or address.")


class GRPCAction(Type):
    """Calls the gRPC health service."""

    port: int32 = field(1, always=True, required=True, doc="The port, by number or name.")
    service: str | None = field(2, always=True, default="", doc="What to ask about.")
    mode: str | None = field(3, enum=("Plaintext", "TLS"), doc="The permission bits.")


class SleepAction(Type):
    """Waits."""

    seconds: int64 = field(1, always=True, required=True, doc="How long.")

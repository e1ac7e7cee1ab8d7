"""Checks of an API server from outside: its health, certificates, clock, requests and tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from cryptography import x509

from kapiserver.doctor.certificates import expiry, load_certificates
from kapiserver.doctor.finding import ERROR, INFO, WARNING, Problem
from kapiserver.doctor.remote_server import RemoteServer

SKEW = timedelta(seconds=5)
"""A larger difference of clocks gets a warning. The Date header omits up to one more second."""
LARGE_SKEW = timedelta(minutes=1)
OBJECTS = 50_000
"""A resource with at least this many objects is reported as large."""
GROWTH = 2.0
"""A table that has grown by this factor since the earlier report is reported."""
GROWN_OBJECTS = 1000
"""A table is reported if it also has this many more objects or, for bytes, megabytes."""
_OBJECT_METRICS = ("apiserver_resource_objects", "apiserver_storage_objects")
"""The metric with the numbers of objects, and its name before Kubernetes 1.34."""
_BYTES = "bytes of "
_MEGABYTE = 1 << 20


def failing_checks(server: RemoteServer) -> Iterator[Problem]:
    """Read the health checks of /readyz."""
    answer = server.ask("/readyz?verbose")
    if answer.status == 200:
        return
    text = answer.body.decode(errors="replace")
    failed = [line[3:].split()[0] for line in text.splitlines() if line.startswith("[-]")]
    names = ", ".join(failed) or f"status {answer.status}"
    yield Problem(
        severity=ERROR, about=f"{server.url}/readyz", message=f"the server is not ready: {names}",
        remedy="the log of the server has the reason, at -v=1",
    )  # fmt: skip


def served_certificate(server: RemoteServer) -> Iterator[Problem]:
    """Look at the dates of the certificate that the server shows."""
    data = server.certificate()
    if data is not None:
        certificate = x509.load_der_x509_certificate(data)
        remedy = "replace it; kapiserver makes a new one at a restart unless --tls-cert-file is set"
        yield from expiry(certificate, server.url, server.now, remedy)


def client_certificate(server: RemoteServer) -> Iterator[Problem]:
    """Look at the dates of the client certificate in the kubeconfig."""
    for certificate in load_certificates(server.client_certificate):
        yield from expiry(
            certificate, "kubeconfig", server.now,
            "replace it; kapiserver writes its own kubeconfig at each start",
        )  # fmt: skip


def different_clocks(server: RemoteServer) -> Iterator[Problem]:
    """Compare the server's clock with that of this machine."""
    date = server.ask("/version").date
    if date is None:
        return
    yield from clock_problem("the server's clock", server.now - date)


def clock_problem(name: str, skew: timedelta) -> Iterator[Problem]:
    """Yield a problem of a clock that is behind that of this machine, or ahead of it."""
    if abs(skew) > SKEW:
        is_behind = skew > timedelta(0)
        yield Problem(
            severity=ERROR if abs(skew) > LARGE_SKEW else WARNING,
            about="clock",
            message=f"{name} is {abs(skew).total_seconds():.0f} seconds "
            f"{'behind' if is_behind else 'ahead of'} that of this machine",
            remedy="let a time service set both: tokens and leases are judged by the clock",
        )


def deprecated_versions(server: RemoteServer) -> Iterator[Problem]:
    """Look for requests for deprecated versions since the start of the server."""
    for labels, _ in server.samples("apiserver_requested_deprecated_apis"):
        parts = (labels.get("group"), labels.get("version"))
        removed = labels.get("removed_release")
        end = f", which {removed} removes" if removed else ""
        yield Problem(
            severity=WARNING,
            about=f"{labels.get('resource')} of {'/'.join(filter(None, parts))}",
            message=f"clients use this deprecated version{end}",
            remedy="find the clients by the audit annotation k8s.io/deprecated, and update them; "
            "`kapiserver check` finds manifests",
        )


def rejected_requests(server: RemoteServer) -> Iterator[Problem]:
    """Look for requests that the server has refused with 429 since its start."""
    for labels, count in server.samples("apiserver_flowcontrol_rejected_requests_total"):
        if count:
            yield Problem(
                severity=WARNING,
                about=f"PriorityLevelConfiguration {labels.get('priority_level')}",
                message=f"{count:.0f} requests of the FlowSchema {labels.get('flow_schema')} got "
                f"429: {labels.get('reason')}",
                remedy="see who sends so many requests, or give the level more shares",
            )


def large_tables(server: RemoteServer) -> Iterator[Problem]:
    """Look at the number of objects of each resource."""
    for name, count in object_figures(server).items():
        if count >= OBJECTS:
            yield Problem(
                severity=WARNING, about=name, message=f"there are {count:.0f}",
                remedy="delete what nobody needs, such as finished Jobs (ttlSecondsAfterFinished)",
            )  # fmt: skip


def object_figures(server: RemoteServer) -> dict[str, float]:
    """Return the number of objects of each resource, by name."""
    for metric in _OBJECT_METRICS:
        figures = {
            ".".join(filter(None, (labels["resource"], labels.get("group")))): value
            for labels, value in server.samples(metric)
        }
        if figures:
            return figures
    return {}


def growth(figures: dict[str, float], previous: dict[str, float]) -> Iterator[Problem]:
    """Compare sizes with those of an earlier report."""
    for name, old in previous.items():
        new = figures.get(name, 0)
        unit = _MEGABYTE if name.startswith(_BYTES) else 1
        if new > GROWTH * old and new - old >= GROWN_OBJECTS * unit:
            yield Problem(
                severity=WARNING,
                about=name,
                message=f"has grown from {old:.0f} to {new:.0f} since the earlier report",
                remedy="see who creates the objects: managedFields, or the audit log",
            )


def anonymous_rights(server: RemoteServer) -> Iterator[Problem]:
    """Look for cluster roles that are bound to users without credentials."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    for binding in server.items(path):
        name, role = binding["metadata"]["name"], binding["roleRef"]["name"]
        subjects = {subject.get("name") for subject in binding.get("subjects") or ()}
        if role == "cluster-admin" and subjects & {"system:anonymous", "system:unauthenticated"}:
            yield Problem(
                severity=ERROR, about=f"ClusterRoleBinding {name}",
                message="everybody who reaches the server is an administrator",
                remedy=f"kubectl delete clusterrolebinding {name}",
            )  # fmt: skip


def stuck_namespaces(server: RemoteServer) -> Iterator[Problem]:
    """Look for namespaces whose deletion does not end."""
    for namespace in server.items("/api/v1/namespaces"):
        metadata, status = namespace["metadata"], namespace.get("status") or {}
        if not metadata.get("deletionTimestamp"):
            continue
        reasons = [
            condition["message"]
            for condition in status.get("conditions") or ()
            if condition.get("status") == "True" and condition.get("message")
        ]
        if reasons:
            yield Problem(
                severity=WARNING,
                about=f"Namespace {metadata['name']}",
                message=f"its deletion does not end: {'; '.join(reasons)}",
                remedy="let the controller of the finalizers run, or mend the APIService",
            )


def foreign_version(server: RemoteServer) -> Iterator[Problem]:
    """Say which server answers, and with which release."""
    version = server.get("/version")
    yield Problem(
        severity=INFO, about=server.url, message=f"serves Kubernetes {version.get('gitVersion')}"
    )

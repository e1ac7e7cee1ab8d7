"""Table cells as kubectl shows them."""

from datetime import UTC, datetime, timedelta

import pytest

from kapiserver.api.columns import human_duration
from tests.objects import AUTOSCALER, DEPLOYMENT, POD, SCHEME, SERVICE, changed, defaulted, resource

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR, DAY, YEAR = 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (190, "3m10s"),
        (600, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (4 * HOUR + 300, "4h5m"),
        (8 * HOUR, "8h"),
        (48 * HOUR - 1, "47h"),
        (48 * HOUR, "2d"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (3 * YEAR + 5 * DAY, "3y5d"),
        (8 * YEAR + DAY, "8y"),
    ],
)
def test_durations(seconds, text):
    """Durations are shown in at most two units."""
    assert human_duration(seconds) == text


def cells(name, obj):
    columns = SCHEME.columns(resource(name).group, resource(name).kind)
    row = columns.cells(obj, NOW)
    return dict(zip((column.name for column in columns.columns), row, strict=True))


def _running(**fields):
    return {"name": "c", "ready": True, "state": {"running": {}}, **fields}


def _ago(seconds):
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


PODS = [
    ({"phase": "Pending"}, {}, "0/1", "Pending", "0"),
    ({"phase": "Running", "containerStatuses": [_running()]}, {}, "1/1", "Running", "0"),
    (
        {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": "c",
                    "restartCount": 4,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"finishedAt": _ago(190)}},
                }
            ],
        },
        {},
        "0/1",
        "CrashLoopBackOff",
        "4 (3m10s ago)",
    ),
    (
        {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]},
        {},
        "0/1",
        "ExitCode:3",
        "0",
    ),
    (
        {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"signal": 9}}}]},
        {},
        "0/1",
        "Signal:9",
        "0",
    ),
    ({"phase": "Failed", "reason": "Evicted"}, {}, "0/1", "Evicted", "0"),
    (
        {
            "phase": "Pending",
            "initContainerStatuses": [{"name": "i", "state": {"running": {}}}],
        },
        {"initContainers": [{"name": "i"}]},
        "0/1",
        "Init:0/1",
        "0",
    ),
    (
        {
            "phase": "Pending",
            "initContainerStatuses": [
                {"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
            ],
        },
        {"initContainers": [{"name": "i"}]},
        "0/1",
        "Init:Error",
        "0",
    ),
    (
        {
            "phase": "Running",
            "initContainerStatuses": [{"name": "s", "started": True, "ready": True, "state": {}}],
            "containerStatuses": [_running(restartCount=2)],
        },
        {"initContainers": [{"name": "s", "restartPolicy": "Always"}]},
        "2/2",
        "Running",
        "2",
    ),
]


@pytest.mark.parametrize(("status", "spec", "ready", "state", "restarts"), PODS)
def test_pods(status, spec, ready, state, restarts):
    """A pod's status, ready containers and restarts."""
    pod = {"metadata": {"name": "p"}, "spec": {**POD["spec"], **spec}, "status": status}
    row = cells("pods", pod)
    assert (row["Ready"], row["Status"], row["Restarts"]) == (ready, state, restarts)


def test_terminating_pod():
    """A pod with a deletionTimestamp is Terminating until its containers end."""
    meta = {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    pod = {"metadata": meta, "spec": {}, "status": {"phase": "Running"}}
    assert cells("pods", pod)["Status"] == "Terminating"
    assert cells("pods", changed(pod, "status/reason", "NodeLost"))["Status"] == "Unknown"
    assert cells("pods", changed(pod, "status/phase", "Succeeded"))["Status"] == "Succeeded"


def test_ended_pod_row():
    """The row of a completed pod has a condition, for clients that hide such pods."""
    (condition,) = SCHEME.columns("", "Pod").conditions({"status": {"phase": "Failed"}})
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Completed",
        "True",
        "Failed",
    )


SERVICES = [
    ({}, {"Type": "ClusterIP", "Cluster-IP": "<none>", "External-IP": "<none>"}),
    ({"clusterIPs": ["10.0.0.1"]}, {"Cluster-IP": "10.0.0.1", "Port(s)": "80/TCP"}),
    ({"type": "LoadBalancer"}, {"External-IP": "<pending>"}),
    ({"type": "ExternalName", "externalName": "a.b"}, {"External-IP": "a.b"}),
    ({"ports": [{"port": 1, "nodePort": 2, "protocol": "UDP"}]}, {"Port(s)": "1:2/UDP"}),
    ({"selector": {"b": "2", "a": "1"}}, {"Selector": "a=1,b=2"}),
]


@pytest.mark.parametrize(("spec", "expected"), SERVICES)
def test_services(spec, expected):
    """Columns show addresses and ports of a service."""
    service = defaulted(SERVICE)
    service["spec"].update(spec)
    row = cells("services", service)
    assert {name: row[name] for name in expected} == expected


def test_deployments():
    """Columns show replicas, images and the selector of a deployment."""
    row = cells("deployments", defaulted(DEPLOYMENT))
    assert (row["Ready"], row["Images"], row["Selector"]) == ("0/1", "nginx:1", "a=b")


METRICS = [
    ([], "<none>"),
    (None, "cpu: <unknown>/80%"),
    (
        [
            {"type": "External", "external": {"target": {"averageValue": "5"}}},
            {"type": "Pods", "pods": {"target": {"averageValue": "2"}}},
            {"type": "Resource", "resource": {}},
        ],
        "<unknown>/5 (avg), <unknown>/2 + 1 more...",
    ),
]


@pytest.mark.parametrize(("metrics", "text"), METRICS)
def test_autoscalers(metrics, text):
    """At most two metrics, each with its current and target value."""
    obj = defaulted(AUTOSCALER)
    if metrics is not None:
        obj["spec"]["metrics"] = metrics
    row = cells("horizontalpodautoscalers", obj)
    assert (row["Reference"], row["Targets"]) == ("Deployment/d", text)


def test_nodes():
    """Columns show status, roles and addresses of a node."""
    node = {
        "metadata": {
            "name": "n",
            "labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"},
        },
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }
    row = cells("nodes", node)
    assert (row["Status"], row["Roles"]) == ("Ready,SchedulingDisabled", "a,b")
    assert (row["Internal-IP"], row["External-IP"]) == ("10.0.0.1", "<none>")


def test_events():
    """The last timestamp of an event, its object and its count."""
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "firstTimestamp": _ago(100),
        "lastTimestamp": _ago(10),
        "message": " it broke\n",
        "source": {"component": "kubelet", "host": "n"},
    }
    row = cells("events", event)
    assert (row["Last Seen"], row["First Seen"], row["Count"]) == ("10s", "100s", 1)
    assert (row["Object"], row["Message"]) == ("pod/p", "it broke")
    assert row["Source"] == "kubelet, n"

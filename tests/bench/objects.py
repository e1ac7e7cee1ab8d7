"""The objects that the benches create: a ConfigMap of 1 KB, and a Pod of a Deployment.

With its managed fields the Pod has 5 KB of JSON, like the pods that kube-apiserver was measured
with.
"""

import orjson

from tests.bench.client import Connection

NAMESPACE = "bench"


def configmap(name: str, size: int = 1024) -> dict:
    """A ConfigMap whose compact JSON has `size` bytes."""
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "backend"}},
        "data": {"app.properties": "", "level": "info"},
    }
    obj["data"]["app.properties"] = ("key=value;" * 400)[: size - len(orjson.dumps(obj))]
    return obj


def _toleration(condition: str) -> dict:
    return {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }


def _container(app: str) -> dict:
    return {
        "name": "app",
        "image": f"registry.example.com/shop/{app}:1.4.2",
        "imagePullPolicy": "IfNotPresent",
        "args": ["--listen=:8080", "--log-level=info"],
        "env": [
            {"name": "DB_HOST", "value": "db.shop.svc"},
            {"name": "DB_PORT", "value": "5432"},
        ],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi"},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }


def owner_of(number: int) -> str:
    """The name of the ReplicaSet that owns a pod."""
    return f"app-{number % 50:02d}-{(number % 50) * 2654435761 & 0xFFFFFFFF:08x}"


def replica_set(name: str) -> dict:
    """A ReplicaSet that creates no pods."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "app", "image": "app"}]},
            },
        },
    }


def pod(number: int, name: str, uid: str) -> dict:
    """A Pod of about 5 KB of JSON with its status; `uid` is that of its ReplicaSet."""
    app = f"app-{number % 50:02d}"
    owner = owner_of(number)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/name": app,
                "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": owner[-8:],
                "tier": "backend",
            },
            "annotations": {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
                "checksum/config": f"{number % 50:064x}",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner,
                    "uid": uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeName": f"node-{number % 200:03d}",
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "securityContext": {},
            "serviceAccountName": "default",
            "enableServiceLinks": True,
            "volumes": [
                {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}}
            ],
            "tolerations": [_toleration("not-ready"), _toleration("unreachable")],
            "containers": [_container(app)],
        },
    }


def pod_status(number: int) -> dict:
    """The status that a kubelet would write."""
    moment = "2026-01-02T03:04:05Z"
    address = f"10.2.{number // 250 % 250}.{number % 250 + 1}"
    conditions = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "conditions": [
            {
                "type": condition,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": moment,
            }
            for condition in conditions
        ],
        "hostIP": f"10.1.{number % 200}.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": moment,
        "qosClass": "Burstable",
        "containerStatuses": [
            {
                "name": "app",
                "state": {"running": {"startedAt": moment}},
                "lastState": {},
                "ready": True,
                "started": True,
                "restartCount": 0,
                "image": f"registry.example.com/shop/app-{number % 50:02d}:1.4.2",
                "imageID": f"registry.example.com/shop/app@sha256:{number % 50:064x}",
                "containerID": f"containerd://{number:064x}",
            }
        ],
    }


def path(resource: str, name: str = "", *, namespace: str = NAMESPACE) -> str:
    """The URL path of a resource of the core group, or of one object."""
    url = f"/api/v1/namespaces/{namespace}/{resource}"
    return f"{url}/{name}" if name else url


async def ensure_namespace(connection: Connection, name: str = NAMESPACE) -> None:
    """Create the namespace unless it exists."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    response = await connection.request("POST", "/api/v1/namespaces", body)
    if response.status not in (201, 409):
        raise SystemExit(f"namespace {name}: {response.status} {response.body[:200]!r}")


_owners: dict[tuple[int, str, str], str] = {}
"""Uids by the server's process, namespace and name."""


async def _uid_of_owner(connection: Connection, number: int, namespace: str) -> str:
    """Return the uid of a pod's ReplicaSet, and create the ReplicaSet first if necessary: pods
    without an owner would be garbage-collected."""
    name = owner_of(number)
    key = (connection.target.pids[0], namespace, name)
    if key not in _owners:
        url = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
        response = await connection.request("POST", url, replica_set(name))
        if response.status == 409:
            response = await connection.request("GET", f"{url}/{name}")
        _owners[key] = orjson.loads(response.body)["metadata"]["uid"]
    return _owners[key]


async def create_pod(
    connection: Connection, number: int, *, namespace: str = NAMESPACE, name: str = ""
) -> None:
    """Create a pod, then write its status as a kubelet would; does nothing if the pod exists."""
    uid = await _uid_of_owner(connection, number, namespace)
    body = pod(number, name or f"pod-{number:05d}", uid)
    response = await connection.request("POST", path("pods", namespace=namespace), body)
    if response.status == 409:
        return
    if response.status != 201:
        raise SystemExit(f"pod {number}: {response.status} {response.body[:300]!r}")
    body["status"] = pod_status(number)
    url = path("pods", body["metadata"]["name"], namespace=namespace) + "/status"
    response = await connection.request("PUT", url, body)
    if response.status != 200:
        raise SystemExit(f"status of pod {number}: {response.status} {response.body[:300]!r}")

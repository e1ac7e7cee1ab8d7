"""The effects of admission plugins over HTTP."""

import asyncio
import base64
import itertools
import re

import pytest

from kapiserver.apiserver.admission.plugin import Hooks, Plugin
from kapiserver.apiserver.admission.plugins import PLUGINS, AdmissionPlugins, enabled_plugins
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.file_watch import FileWatch
from kapiserver.apiserver.metrics import Metrics
from kapiserver.storage.cache.offload import Offloader
from tests.clock import ManualClock

_names = (f"only-{number}" for number in itertools.count(1))
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def pod(name="p", **spec):
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


@pytest.fixture
def pods(core):
    return f"{core}/pods"


def test_account(api, pods):
    """A pod gets the service account `default` and a token volume mounted in each container."""
    starter = {"name": "s", "image": "i"}
    own = {"name": "o", "image": "i", "volumeMounts": [{"name": "v", "mountPath": TOKEN_PATH}]}
    body = pod(initContainers=[starter], volumes=[{"name": "v", "emptyDir": {}}])
    body["spec"]["containers"].append(own)
    spec = api.post(pods, body).json["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    volume = spec["volumes"][1]
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"]["sources"][0]["serviceAccountToken"] == {
        "expirationSeconds": 3607, "path": "token",
    }  # fmt: skip
    mount = {"name": volume["name"], "readOnly": True, "mountPath": TOKEN_PATH}
    mounts = [
        container["volumeMounts"] for container in (*spec["initContainers"], *spec["containers"])
    ]
    assert mounts == [[mount], [mount], own["volumeMounts"]]


@pytest.mark.parametrize("of_account", [True, False, None])
@pytest.mark.parametrize("of_pod", [True, False, None])
def test_automount(api, core, of_account, of_pod):
    """automountServiceAccountToken of the pod wins over that of the account; the default is
    true."""
    account = {"metadata": {"name": "a"}, "automountServiceAccountToken": of_account}
    api.post(f"{core}/serviceaccounts", account)
    body = pod(serviceAccountName="a", automountServiceAccountToken=of_pod)
    spec = api.post(f"{core}/pods", body).json["spec"]
    expected = next(setting for setting in (of_pod, of_account, True) if setting is not None)
    assert bool(spec.get("volumes")) is expected


def test_unknown_account(api, pods, namespace):
    """A pod whose service account does not exist is forbidden."""
    response = api.post(pods, pod(serviceAccountName="x"))
    assert response.status == 403
    assert response.message == (
        f'pods "p" is forbidden: error looking up service account {namespace}/x: serviceaccount '
        '"x" not found'
    )


def test_pull_secrets(api, core):
    """A pod without imagePullSecrets gets those of its service account."""
    account = {"metadata": {"name": "a"}, "imagePullSecrets": [{"name": "s"}]}
    api.post(f"{core}/serviceaccounts", account)
    spec = api.post(f"{core}/pods", pod(serviceAccountName="a")).json["spec"]
    assert spec["imagePullSecrets"] == [{"name": "s"}]


def limits(api, core, **item):
    body = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **item}]}}
    assert api.post(f"{core}/limitranges", body).status == 201


def test_limit_defaults(api, core):
    """A LimitRange sets missing requests and limits of containers and adds an annotation."""
    limits(api, core, default={"cpu": "2", "memory": "1Gi"}, defaultRequest={"cpu": "1"})
    body = pod()
    body["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1Mi"}}
    created = api.post(f"{core}/pods", body).json
    assert created["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Mi"},
    }  # fmt: skip
    assert created["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container c; "
        "cpu, memory limit for container c"
    }
    assert created["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("item", "resources", "message"),
    [
        (
            {"type": "Pod", "min": {"cpu": "1"}},
            {},
            "minimum cpu usage per Pod is 1.  No request is specified",
        ),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "500m"}},
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        (
            {"type": "Pod", "max": {"memory": "1Gi"}},
            {"limits": {"memory": "2Gi"}},
            "maximum memory usage per Pod is 1Gi, but limit is 2Gi",
        ),
        (
            {"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Pod is 2, but provided ratio is 3.000000",
        ),
        (  # 64 bits bound the values, as Value and MilliValue of Go do
            {"type": "Pod", "maxLimitRequestRatio": {"cpu": "1"}},
            {"limits": {"cpu": "1e2147483647"}, "requests": {"cpu": "1e17"}},
            "cpu max limit to request ratio per Pod is 1, but provided ratio is 92.233720",
        ),
    ],
)
def test_limits(api, core, item, resources, message):
    """A pod outside the bounds of a LimitRange is forbidden, with kube-apiserver's message."""
    limits(api, core, **item)
    body = pod()
    body["spec"]["containers"][0]["resources"] = resources
    response = api.post(f"{core}/pods", body)
    assert response.status == 403
    assert response.message == f'pods "p" is forbidden: {message}'


def test_claim_limits(api, core):
    """A LimitRange bounds PersistentVolumeClaims too."""
    body = {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}
    limits(api, core, **body)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    response = api.post(f"{core}/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
    assert response.message == (
        'persistentvolumeclaims "c" is forbidden: maximum storage usage per PersistentVolumeClaim '
        "is 1Gi, but request is 2Gi"
    )


def test_priority(api, pods):
    """The priority comes from the PriorityClass; a client cannot set another number."""
    name = next(_names)
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.post(path, {"metadata": {"name": name}, "value": 7, "preemptionPolicy": "Never"})
    spec = api.post(pods, pod(priorityClassName=name)).json["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    spec = api.post(pods, pod("q")).json["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    response = api.post(pods, pod("r", priority=3))
    assert response.message == (
        'pods "r" is forbidden: the integer value of priority (3) must not be provided in pod '
        "spec; priority admission controller computed 0 from the given PriorityClass name"
    )
    response = api.post(pods, pod("r", priorityClassName="none"))
    assert response.message == 'pods "r" is forbidden: no PriorityClass with name none was found'


def test_global_default(api, pods):
    """A PriorityClass can be the global default, and only one can."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    default_name, second_name = next(_names), next(_names)
    try:
        api.post(path, {"metadata": {"name": default_name}, "value": 9, "globalDefault": True})
        spec = api.post(pods, pod()).json["spec"]
        assert (spec["priorityClassName"], spec["priority"]) == (default_name, 9)
        response = api.post(
            path, {"metadata": {"name": second_name}, "value": 9, "globalDefault": True}
        )
        assert response.status == 403
        assert "is already marked as default. Only one default can exist" in response.message
    finally:
        api.delete(f"{path}/{default_name}")


def test_tolerations(api, pods):
    """A pod tolerates a not ready or unreachable node for 300 seconds unless it says otherwise."""
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 1}
    own["effect"] = "NoExecute"
    tolerations = api.post(pods, pod(tolerations=[own])).json["spec"]["tolerations"]
    assert tolerations == [
        own,
        {
            "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300,
        },
    ]  # fmt: skip


def test_new_node(api):
    """A new node gets the not-ready taint."""
    name = next(_names)
    spec = api.post("/api/v1/nodes", {"metadata": {"name": name}}).json["spec"]
    assert spec["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    api.delete(f"/api/v1/nodes/{name}")


def test_runtime_class(api, pods):
    """A pod gets overhead and node selector of its RuntimeClass; an unknown class is forbidden."""
    response = api.post(pods, pod(runtimeClassName="none"))
    assert response.message == (
        'pods "p" is forbidden: pod rejected: RuntimeClass "none" not found'
    )
    name = next(_names)
    body = {
        "metadata": {"name": name}, "handler": "h", "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": {"nodeSelector": {"a": "b"}},
    }  # fmt: skip
    assert api.post("/apis/node.k8s.io/v1/runtimeclasses", body).status == 201
    spec = api.post(pods, pod(runtimeClassName=name)).json["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "100m"}, {"a": "b"})
    response = api.post(pods, pod("q", runtimeClassName=name, nodeSelector={"a": "c"}))
    assert "conflict: runtimeClass.scheduling.nodeSelector[a] = b" in response.message
    response = api.post(pods, pod("q", overhead={"cpu": "1"}))
    assert response.message.endswith(
        "Pod Overhead set without corresponding RuntimeClass defined Overhead"
    )


def test_default_classes(api, core, namespace):
    """Claims and ingresses without a class get the default class."""
    name = next(_names)
    mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    path = "/apis/storage.k8s.io/v1/storageclasses"
    api.post(path, {"metadata": {"name": name, "annotations": mark}, "provisioner": "a.b/c"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = f"{core}/persistentvolumeclaims"
    claim_spec = api.post(claims, {"metadata": {"name": "c"}, "spec": spec}).json["spec"]
    assert claim_spec["storageClassName"] == name
    plain = api.post(claims, {"metadata": {"name": "d"}, "spec": spec | {"storageClassName": ""}})
    assert plain.json["spec"]["storageClassName"] == ""
    api.delete(f"{path}/{name}")
    mark = {"ingressclass.kubernetes.io/is-default-class": "true"}
    path = "/apis/networking.k8s.io/v1/ingressclasses"
    body = {"metadata": {"name": name, "annotations": mark}, "spec": {"controller": "a.b/c"}}
    assert api.post(path, body).status == 201
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    ingresses = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses"
    body = {"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}}
    assert api.post(ingresses, body).json["spec"]["ingressClassName"] == name
    api.delete(f"{path}/{name}")


def test_claims_grow(api, core):
    """A bound claim can grow only if its StorageClass allows expansion."""
    name = next(_names)
    path = "/apis/storage.k8s.io/v1/storageclasses"
    api.post(path, {"metadata": {"name": name}, "provisioner": "a.b/c"})
    spec = {
        "accessModes": ["ReadWriteOnce"], "storageClassName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    claim = f"{core}/persistentvolumeclaims/c"
    api.post(f"{core}/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    assert api.patch(f"{claim}/status", {"status": status}).status == 200
    patch = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    response = api.patch(claim, patch)
    assert response.status == 403
    assert "the storageclass that provisions the pvc must support resize" in response.message
    assert api.patch(f"{path}/{name}", {"allowVolumeExpansion": True}).status == 200
    assert api.patch(claim, patch).status == 200
    api.delete(f"{path}/{name}")


def test_invalid_first(api, core):
    """Validation errors (422) precede errors of validating admission plugins."""
    limits(api, core, min={"cpu": "1"})
    body = pod(restartPolicy="Sometimes")
    assert api.post(f"{core}/pods", body).status == 422


def test_enabled_plugins():
    """Plugins are enabled and disabled by name. Names of kube-apiserver's plugins that do not exist
    here are accepted; unknown names are errors."""

    def names(**flags):
        return {plugin.name for plugin in enabled_plugins(**flags)}

    assert "ServiceAccount" in names()
    assert "ServiceAccount" not in names(disable=("ServiceAccount",))
    assert "AlwaysPullImages" in names(enable=("AlwaysPullImages", "ValidatingAdmissionWebhook"))
    with pytest.raises(ValueError, match="Nonsense"):
        names(enable=("Nonsense",))
    assert len({(plugin.name, plugin.operations) for plugin in PLUGINS}) == len(PLUGINS)


def test_signing_request(api):
    """A signing request records its user, and its conditions get their times."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def body(name, organization):
        parts = [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            x509.NameAttribute(NameOID.COMMON_NAME, "me"),
        ]
        key = ec.generate_private_key(ec.SECP256R1())
        builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(parts))
        pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        spec = {
            "request": base64.b64encode(pem).decode(), "usages": ["client auth"],
            "signerName": "kubernetes.io/kube-apiserver-client", "username": "other",
        }  # fmt: skip
        return {"metadata": {"name": name}, "spec": spec}

    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    name = next(_names)
    created = api.post(path, body(name, "some")).json
    assert created["spec"]["username"] == "system:unsecured"
    assert "system:masters" in created["spec"]["groups"]
    created["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]}
    approved = api.put(f"{path}/{name}/approval", created).json
    condition = approved["status"]["conditions"][0]
    assert condition["lastUpdateTime"] == condition["lastTransitionTime"]
    assert condition["lastUpdateTime"]
    response = api.post(path, body(next(_names), "system:masters"))
    assert response.status == 403
    assert response.message.endswith(
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    )
    api.delete(f"{path}/{name}")


def test_generated_names(api, core, pods):
    """A plugin that runs before a name is generated refuses it by its prefix, one that runs later
    by the whole name."""
    body = {**pod(serviceAccountName="x"), "metadata": {"generateName": "web-"}}
    refusal = api.post(pods, body)
    assert refusal.message.startswith('pods "web-" is forbidden: error looking up service account')
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "0"}}}
    assert api.post(f"{core}/resourcequotas", quota).status == 201
    status = {"status": {"hard": {"configmaps": "0"}, "used": {"configmaps": "0"}}}
    assert api.patch(f"{core}/resourcequotas/q/status", status).status == 200
    refusal = api.post(f"{core}/configmaps", {"metadata": {"generateName": "web-"}})
    assert re.match('configmaps "web-[a-z0-9]{5}" is forbidden: exceeded quota', refusal.message)
    assert refusal.json["details"]["name"].startswith("web-")


def test_load_while_closing():
    """A plugin that a thread loads while the server closes the others fails nothing."""
    closed = []

    async def close():
        plugins.load_chain("secrets", "CREATE")
        closed.append("first")

    records = (
        Plugin(name="First", load=lambda _: Hooks(close=close), resources=("configmaps",)),
        Plugin(name="Second", load=lambda _: Hooks(), resources=("secrets",)),
    )
    plugins = AdmissionPlugins(
        records, Config(), ManualClock(), Metrics(), FileWatch(ManualClock()), Offloader()
    )
    plugins.load_chain("configmaps", "CREATE")
    asyncio.run(plugins.close())
    assert closed == ["first"]

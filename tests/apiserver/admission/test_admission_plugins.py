"""The admission plugins that are off by default, and PodTopologyLabels. The cases follow the unit
tests of Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kapiserver.api.resource_client import StatusError
from kapiserver.apiserver.admission.configuration import (
    BadAdmissionConfiguration,
    PluginConfiguration,
)
from kapiserver.apiserver.admission.plugin import Hooks, Plugin
from kapiserver.apiserver.admission.plugins import PLUGINS
from kapiserver.apiserver.admission.plugins.event_rate_limit import EventRateLimit
from kapiserver.apiserver.admission.plugins.pod_node_selector import PodNodeSelector
from kapiserver.apiserver.admission.plugins.pod_toleration_restriction import (
    PodTolerationRestriction,
)
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import User
from tests.api.test_certificates import AUTHORITY
from tests.apiserver.admission.pluginkit import JANE, PODS, pod, run, write_configuration
from tests.apiserver.admission.test_event_rate_limit import limits
from tests.apiserver.conftest import Api

QUIET = {
    "controllers": ("-*",),
    "disable_admission_plugins": ("ServiceAccount", "DefaultTolerationSeconds"),
}


@pytest.fixture
def start(make_server: Any, tmp_path: Path) -> Callable[..., Api]:
    """Start a server with one more plugin, which may have a configuration. Returns its client."""

    def start(name: str, configuration: Any = None, **settings: Any) -> Api:
        if configuration is not None:
            file = write_configuration(tmp_path, name, configuration)
            settings["admission_control_config_file"] = file
        api: Api = make_server(enable_admission_plugins=(name,), **{**QUIET, **settings}).api
        return api

    return start


def annotate(api: Api, name: str, key: str, value: str) -> str:
    body = {"metadata": {"name": name, "annotations": {key: value}}}
    assert api.post("/api/v1/namespaces", body).status == 201
    return f"/api/v1/namespaces/{name}/pods"


def test_order() -> None:
    """The plugins run in the order of kube-apiserver's AllOrderedPlugins."""
    order = list(dict.fromkeys(plugin.name for plugin in PLUGINS))
    assert order[0] == "AlwaysAdmit"
    assert order[-1] == "AlwaysDeny"
    for earlier, later in (
        ("NamespaceAutoProvision", "NamespaceLifecycle"),
        ("NamespaceLifecycle", "NamespaceExists"),
        ("LimitPodHardAntiAffinityTopology", "LimitRanger"),
        ("PodSecurity", "PodNodeSelector"),
        ("PodNodeSelector", "Priority"),
        ("DefaultTolerationSeconds", "PodTolerationRestriction"),
        ("PodTolerationRestriction", "EventRateLimit"),
        ("EventRateLimit", "ExtendedResourceToleration"),
        ("StorageObjectInUseProtection", "OwnerReferencesPermissionEnforcement"),
        ("DenyServiceExternalIPs", "PodTopologyLabels"),
        ("PodTopologyLabels", "ResourceQuota"),
    ):
        assert order.index(earlier) < order.index(later)


def test_always_deny(start: Callable[..., Api]) -> None:
    """AlwaysDeny refuses every write and connection, and no read."""
    api = start("AlwaysDeny")
    for response in (
        api.post(PODS, pod()),
        api.post(f"{PODS}?dryRun=All", pod()),
        api.post(f"{PODS}/p/exec?command=x", None),
        api.get("/api/v1/namespaces/default/services/kubernetes/proxy/x"),
        api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"a": "b"}}}),
    ):
        assert response.status == 403
        assert response.message.endswith("admission control is denying all modifications")
    assert api.get(PODS).status == 200


def test_always_admit(start: Callable[..., Api]) -> None:
    """AlwaysAdmit changes nothing."""
    assert start("AlwaysAdmit").post(PODS, pod()).status == 201


def test_namespace_auto_provision(start: Callable[..., Api]) -> None:
    """A create makes its namespace, unless it is a dry run; an update does not."""
    api = start("NamespaceAutoProvision")
    path = "/api/v1/namespaces/new/configmaps"
    assert api.post(f"{path}?dryRun=All", {"metadata": {"name": "c"}}).status == 404
    assert api.get("/api/v1/namespaces/new").status == 404
    assert api.post(path, {"metadata": {"name": "c"}}).status == 201
    assert api.get("/api/v1/namespaces/new").json["status"]["phase"] == "Active"
    assert api.post(path, {"metadata": {"name": "d"}}).status == 201
    assert api.post("/api/v1/namespaces", {"metadata": {"name": "own"}}).status == 201
    assert api.post("/api/v1/namespaces/Bad_/pods", pod()).status == 403
    assert api.post("/apis/scheduling.k8s.io/v1/priorityclasses", {
        "metadata": {"name": "c"}, "value": 1}).status == 201  # fmt: skip


def test_namespace_exists(start: Callable[..., Api]) -> None:
    """Writes in a missing namespace are refused, even without NamespaceLifecycle."""
    disabled = (*QUIET["disable_admission_plugins"], "NamespaceLifecycle")
    body = {"metadata": {"name": "c"}}
    path = "/api/v1/namespaces/none/configmaps"
    api = start("AlwaysAdmit", disable_admission_plugins=disabled)
    assert api.post(path, body).status == 201
    api = start("NamespaceExists", disable_admission_plugins=disabled)
    response = api.post(path, body)
    assert (response.status, response.message) == (404, 'namespaces "none" not found')
    assert api.post("/api/v1/namespaces/default/configmaps", body).status == 201
    assert api.post("/api/v1/namespaces", {"metadata": {"name": "none"}}).status == 201
    assert api.post(path, body).status == 201


def affinity(*keys: str, kind: str = "podAntiAffinity", required: bool = True) -> dict[str, Any]:
    terms: list[Any] = [
        {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": key} for key in keys
    ]
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    if not required:
        name = "preferredDuringSchedulingIgnoredDuringExecution"
        terms = [{"weight": 1, "podAffinityTerm": term} for term in terms]
    return {"affinity": {kind: {name: terms}}}


HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("spec", "refused_key"),
    [
        ({}, ""),
        (affinity(HOST), ""),
        (affinity(ZONE), ZONE),
        (affinity(HOST, ZONE), ZONE),
        (affinity(ZONE, kind="podAffinity"), ""),
        (affinity(ZONE, required=False), ""),
    ],
)
def test_limit_pod_hard_anti_affinity_topology(
    start: Callable[..., Api], spec: Any, refused_key: str
) -> None:
    """Required anti-affinity may name the host only."""
    response = start("LimitPodHardAntiAffinityTopology").post(PODS, pod(**spec))
    if not refused_key:
        assert response.status == 201, response.message
        return
    assert (response.status, response.message) == (
        403,
        'pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey '
        f"{refused_key} but only key {HOST} is allowed",
    )


def tolerates(key: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoSchedule", **more}


@pytest.mark.parametrize(
    ("requests", "init_requests", "tolerations", "expected"),
    [
        ({}, {}, [], []),
        ({"cpu": "1", "memory": "1Gi"}, {}, [], []),
        ({"example.com/gpu": "1"}, {}, [], [tolerates("example.com/gpu")]),
        ({}, {"example.com/gpu": "1"}, [], [tolerates("example.com/gpu")]),
        (
            {"z.io/b": "1", "cpu": "1"}, {"a.io/a": "2"}, [{"operator": "Exists"}],
            [{"operator": "Exists"}, tolerates("a.io/a"), tolerates("z.io/b")],
        ),
        ({"a.io/a": "1"}, {}, [tolerates("a.io/a")], [tolerates("a.io/a")]),
        (
            {"a.io/a": "1"}, {}, [{"key": "a.io/a", "operator": "Exists"}],
            [{"key": "a.io/a", "operator": "Exists"}, tolerates("a.io/a")],
        ),
    ],
)  # fmt: skip
def test_extended_resource_toleration(
    start: Callable[..., Api], requests: Any, init_requests: Any, tolerations: Any, expected: Any
) -> None:
    """A pod tolerates the taints of the extended resources that it requests."""
    body = pod(tolerations=tolerations, initContainers=[{"name": "i", "image": "i"}])
    for part, amounts in (("containers", requests), ("initContainers", init_requests)):
        body["spec"][part][0]["resources"] = {"limits": amounts, "requests": amounts}
    created = start("ExtendedResourceToleration").post(PODS, body)
    assert created.status == 201, created.message
    assert created.json["spec"].get("tolerations", []) == expected


def test_pod_topology_labels(start: Callable[..., Api]) -> None:
    """A pod gets the zone and the region of its node, when it is bound or created on it; they
    replace its own."""
    api = start("AlwaysAdmit")
    labels = {ZONE: "z1", "topology.kubernetes.io/region": "r1", "other": "o"}
    api.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}})
    api.post("/api/v1/nodes", {"metadata": {"name": "bare"}})

    def bind(name: str, node: str) -> Any:
        body = pod(name)
        body["metadata"]["labels"] = {"app": "a", ZONE: "own"}
        assert api.post(PODS, body).status == 201
        target = {"kind": "Node", "name": node}
        binding = {"metadata": {"name": name}, "target": target}
        assert api.post(f"{PODS}/{name}/binding", binding).status == 201
        return api.get(f"{PODS}/{name}").json["metadata"]["labels"]

    topology = {ZONE: "z1", "topology.kubernetes.io/region": "r1"}
    assert bind("bound", "n") == {"app": "a", **topology}
    assert bind("bare", "bare") == {"app": "a", ZONE: "own"}
    assert bind("missing", "missing") == {"app": "a", ZONE: "own"}
    assert api.post(PODS, pod("direct", nodeName="n")).json["metadata"]["labels"] == topology
    assert "labels" not in api.post(PODS, pod("free")).json["metadata"]


SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"


def test_pod_node_selector(start: Callable[..., Api]) -> None:
    """A pod gets the node selector of its namespace, or the default. It must not contradict it,
    and have only the labels that the configuration lists for the namespace."""
    selectors = {"clusterDefaultNodeSelector": "env=dev, rack=1", "limited": "env=dev,rack=1,a=b"}
    api = start("PodNodeSelector", {"podNodeSelectorPluginConfig": selectors})
    own = annotate(api, "own", SELECTOR, "infra=fish")
    empty = annotate(api, "empty", SELECTOR, "")
    bad = annotate(api, "bad", SELECTOR, "infra=fish=dog")
    limited = annotate(api, "limited", "a", "b")
    conflict = "pod node label selector conflicts with its namespace node label selector"
    not_listed = "pod node label selector labels conflict with its namespace whitelist"
    default = {"env": "dev", "rack": "1"}
    for path, selector, expected in (
        (PODS, {}, default),
        (PODS, {"env": "dev", "a": "b"}, {"a": "b", **default}),
        (PODS, {"env": "prod"}, conflict),
        (own, {}, {"infra": "fish"}),
        (own, {"env": "prod"}, {"env": "prod", "infra": "fish"}),
        (own, {"infra": "dog"}, conflict),
        (empty, {"env": "prod"}, {"env": "prod"}),
        (bad, {}, "invalid selector: [infra fish dog]"),
        (limited, {"a": "b"}, {"a": "b", **default}),
        (limited, {"a": "c"}, not_listed),
        (limited, {"c": "d"}, not_listed),
    ):
        response = api.post(f"{path}?dryRun=All", pod(nodeSelector=selector))
        if isinstance(expected, str):
            message = f'pods "p" is forbidden: {expected}'
            assert (response.status, response.message) == (403, message)
        else:
            assert response.json["spec"].get("nodeSelector") == expected


TOLERATIONS = "scheduler.alpha.kubernetes.io/defaultTolerations"
ALLOWED = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
EQUAL = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
ANY = {"key": "k", "operator": "Exists", "effect": "NoSchedule"}
EVERY = {"operator": "Exists"}
SHORT = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
LONG = {**SHORT, "tolerationSeconds": 10}
REFUSED = None
PRESSURE = tolerates("node.kubernetes.io/memory-pressure")

TOLERATION_CASES: list[tuple[Any, Any, Any, Any]] = [
    # default and allowed tolerations of the namespace, those of the pod, the result
    (None, None, [], []),
    (None, None, [EQUAL], [EQUAL]),
    ([EQUAL], None, [], [EQUAL]),
    ([EQUAL], None, [ANY], [ANY]),
    ([ANY], None, [EQUAL], [ANY]),
    ([EQUAL], None, [SHORT], [EQUAL, SHORT]),
    ([SHORT], None, [LONG], [LONG]),
    ([LONG], None, [SHORT], [LONG]),
    ([EVERY], None, [EQUAL, SHORT], [EVERY]),
    ([EQUAL], None, [EQUAL], [EQUAL]),
    (None, [EQUAL], [EQUAL], [EQUAL]),
    (None, [EQUAL], [ANY], REFUSED),
    (None, [ANY], [EQUAL], [EQUAL]),
    (None, [SHORT], [LONG], REFUSED),
    (None, [LONG], [SHORT], [SHORT]),
    (None, [EQUAL], [EQUAL, SHORT], REFUSED),
    ([SHORT], [EQUAL], [], REFUSED),
    (None, [EVERY], [EQUAL, SHORT], [EQUAL, SHORT]),
    (None, [], [EQUAL], [EQUAL]),
]


def test_pod_toleration_restriction(start: Callable[..., Api]) -> None:
    """Default tolerations are merged with those of the pod, and all must be allowed."""
    api = start("PodTolerationRestriction")
    for index, (default, allowed, tolerations, expected) in enumerate(TOLERATION_CASES):
        annotations = {
            key: json.dumps(value)
            for key, value in ((TOLERATIONS, default), (ALLOWED, allowed))
            if value is not None
        }
        name = f"case-{index}"
        body = {"metadata": {"name": name, "annotations": annotations}}
        assert api.post("/api/v1/namespaces", body).status == 201
        response = api.post(f"/api/v1/namespaces/{name}/pods", pod(tolerations=tolerations))
        if expected is REFUSED:
            assert (response.status, response.message) == (
                403,
                'pods "p" is forbidden: pod tolerations (possibly merged with namespace default '
                "tolerations) conflict with its namespace whitelist",
            )
        else:
            assert response.json["spec"].get("tolerations", []) == expected, index


def test_tolerations_of_the_cluster(start: Callable[..., Api]) -> None:
    """The configuration has the tolerations of namespaces without annotations. A pod that is not
    BestEffort tolerates memory pressure. An annotation that is no list is refused."""
    configuration = {
        "apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1",
        "kind": "Configuration",
        "default": [EQUAL],
        "whitelist": [ANY, PRESSURE],
    }
    api = start("PodTolerationRestriction", configuration)
    assert api.post(PODS, pod("best")).json["spec"]["tolerations"] == [EQUAL]
    body = pod("burstable")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert api.post(PODS, body).json["spec"]["tolerations"] == [EQUAL, PRESSURE]
    assert api.post(PODS, pod("other", tolerations=[SHORT])).status == 403
    assert api.post(annotate(api, "none", TOLERATIONS, ""), pod()).json["spec"].get(
        "tolerations"
    ) is None  # fmt: skip
    for number, text in enumerate(
        ("{", "{}", "[1]", '[{"key": 1}]', '[{"tolerationSeconds": "1"}]')
    ):
        response = api.post(annotate(api, f"bad-{number}", TOLERATIONS, text), pod())
        assert response.status == 403
        assert TOLERATIONS in response.message


BAD_CONFIGURATIONS: list[tuple[type, Any, str]] = [
    (EventRateLimit, limits(), "limits: Invalid value: [] must not be empty"),
    (EventRateLimit, None, "limits: Invalid value: [] must not be empty"),
    (
        EventRateLimit,
        limits(("Pod", 1, 1)),
        'limits[0].type: Unsupported value: "Pod": supported values: "Namespace", "Server", '
        '"SourceAndObject", "User"',
    ),
    (
        EventRateLimit,
        limits(("Server", 0, -1), ("User", 1, 1, -1)),
        "[limits[0].burst: Invalid value: -1: must be positive, limits[0].qps: Invalid value: 0: "
        "must be positive, limits[1].cacheSize: Invalid value: -1: must not be negative]",
    ),
    (PodNodeSelector, {"podNodeSelectorPluginConfig": []}, "must be an object"),
    (PodNodeSelector, {"podNodeSelectorPluginConfig": {"a": "b"}}, "invalid selector: [b]"),
    (
        PodTolerationRestriction,
        {
            "apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1",
            "kind": "Configuration",
            "default": [{"operator": "Exists", "value": "v"}],
        },
        "podtolerationrestriction.default[0].operator: Invalid value: \"v\": value must be empty "
        "when `operator` is 'Exists'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("plugin", "tree", "message"), BAD_CONFIGURATIONS)
def test_bad_configuration(plugin: Any, tree: Any, message: str) -> None:
    """A plugin refuses a bad configuration."""
    data = b"" if tree is None else json.dumps(tree).encode()
    with pytest.raises(BadAdmissionConfiguration) as caught:
        plugin(PluginConfiguration(name="X", data=data))
    text = str(caught.value)
    assert text.startswith('couldn\'t init admission plugin "X": ')
    assert message in text.replace("[]: ", "[] ")


def test_bad_configuration_stops_the_server() -> None:
    """A plugin that a flag enables is loaded when the server starts."""

    async def test(_server: Server) -> None:
        raise AssertionError("the server has started")

    with pytest.raises(BadAdmissionConfiguration, match="must not be empty"):
        run(test, enable_admission_plugins=("EventRateLimit",))


def test_default_toleration_seconds(make_server: Any) -> None:
    """The flags say how long pods tolerate a node that is not ready or not reachable."""
    api: Api = make_server(
        controllers=("-*",),
        disable_admission_plugins=("ServiceAccount",),
        default_not_ready_toleration_seconds=10,
        default_unreachable_toleration_seconds=20,
    ).api
    common = {"operator": "Exists", "effect": "NoExecute"}
    assert api.post(PODS, pod()).json["spec"]["tolerations"] == [
        {"key": "node.kubernetes.io/not-ready", **common, "tolerationSeconds": 10},
        {"key": "node.kubernetes.io/unreachable", **common, "tolerationSeconds": 20},
    ]


async def _weaken(_server: Server, _attributes: Any, new: Any, _old: Any) -> None:
    """Set another pull policy, as a mutating webhook may."""
    for container in new["spec"]["containers"]:
        container["imagePullPolicy"] = "Never"


def test_always_pull_images() -> None:
    """The plugin sets the pull policy Always for new images, and refuses a policy that a later
    plugin changes. An update without a new image keeps its policy."""
    weaken = Plugin(
        name="Weaken",
        load=lambda _context: Hooks(admit=_weaken),
        resources=("pods",),
        operations=("CREATE",),
    )

    async def test(server: Server) -> None:
        pods = server.client(JANE).resource("v1", "pods", namespace="default")
        with pytest.raises(StatusError) as caught:
            await pods.create(pod())
        assert caught.value.status["message"] == (
            'pods "p" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: '
            '"Never": supported values: "Always"'
        )

    settings = {
        "enable_admission_plugins": ("AlwaysPullImages",),
        "disable_admission_plugins": ("ServiceAccount",),
    }
    run(test, plugins=(*PLUGINS, weaken), **settings)

    async def test_updates(server: Server) -> None:
        pods = server.client(JANE).resource("v1", "pods", namespace="default")
        created = await pods.create(pod())
        assert created["spec"]["containers"][0]["imagePullPolicy"] == "Always"
        created["spec"]["containers"][0]["image"] = "j"
        created["metadata"]["labels"] = {"a": "b"}
        assert (await pods.update(created))["spec"]["containers"][0]["image"] == "j"

    run(test_updates, **settings)


def test_attest() -> None:
    """A user without permission to attest may remove finalizers of a signer's trust bundle, as
    garbage collectors do, and may change nothing else."""
    certificates = "certificates.k8s.io/v1"

    async def test(server: Server) -> None:
        masters = server.client(JANE)
        rules = [{"verbs": ["*"], "apiGroups": ["certificates.k8s.io"],
                  "resources": ["clustertrustbundles"]}]  # fmt: skip
        group = "rbac.authorization.k8s.io"
        await masters.resource(f"{group}/v1", "clusterroles").create(
            {"metadata": {"name": "r"}, "rules": rules}
        )
        await masters.resource(f"{group}/v1", "clusterrolebindings").create(
            {
                "metadata": {"name": "r"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "r"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": "lee"}],
            }
        )
        body = {
            "metadata": {"name": "example.com:s:b", "finalizers": ["example.com/f"]},
            "spec": {"signerName": "example.com/s", "trustBundle": AUTHORITY},
        }
        bundle = await masters.resource(certificates, "clustertrustbundles").create(body)
        own = server.client(User(name="lee")).resource(certificates, "clustertrustbundles")
        bundle["metadata"]["finalizers"] = []
        bundle = await own.update(bundle)
        bundle["metadata"]["labels"] = {"a": "b"}
        with pytest.raises(StatusError, match="user not permitted to attest for signerName"):
            await own.update(bundle)

    run(test, runtime_config="api/all=true", authorization_mode=("RBAC",))

"""Warnings about valid pods and pod templates."""

import pytest

from tests.objects import DEPLOYMENT, POD, changed, strategy

AFFINITY = {
    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]},
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {}, "weight": 1}]
    },
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "beta.kubernetes.io/os"}]}]
        }
    },
}
_DURING = "DuringSchedulingIgnoredDuringExecution"
_OS = 'deprecated since v1.14; use "kubernetes.io/os" instead'
_NULL_SELECTOR = "labelSelector: a null labelSelector results in matching no pod"
_ENV = [
    {"name": "A", "value": "1"},
    {"name": "A", "value": "$(A)2"},
    {"name": "A", "value": "$(A)"},
]


def projected(*sources):
    """Return a volume with these projected sources."""
    return [{"name": "v", "projected": {"sources": list(sources)}}]


def items(*paths):
    """Return volume items with these paths."""
    return {"name": "n", "items": [{"key": "k", "path": path} for path in paths]}


_BOTH = {
    "keyPath": "key",
    "certificateChainPath": "key/chain",
    "credentialBundlePath": "other",
}
CASES = [
    ("spec/nodeSelector", {"beta.kubernetes.io/os": "x"},
     [f"spec.nodeSelector[beta.kubernetes.io/os]: {_OS}"]),
    ("spec/affinity", AFFINITY, [
        f"spec.affinity.nodeAffinity.required{_DURING}.nodeSelectorTerms[0].matchExpressions[0]"
        f".key: beta.kubernetes.io/os is {_OS}",
        f"spec.affinity.podAffinity.required{_DURING}[0].{_NULL_SELECTOR}",
        f"spec.affinity.podAntiAffinity.preferred{_DURING}[0].podAffinityTerm.{_NULL_SELECTOR}",
    ]),
    ("spec/topologySpreadConstraints", [{"topologyKey": "beta.kubernetes.io/os"}], [
        f"spec.topologySpreadConstraints[0].topologyKey: beta.kubernetes.io/os is {_OS}",
        f"spec.topologySpreadConstraints[0].{_NULL_SELECTOR}",
    ]),
    ("metadata/annotations", {"scheduler.alpha.kubernetes.io/critical-pod": "",
                              "seccomp.security.alpha.kubernetes.io/pod": "x"}, [
        "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in "
        'v1.16+; use the "priorityClassName" field instead',
        "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in "
        'v1.27+; use the "seccompProfile" field instead',
    ]),
    ("spec/volumes", [{"name": "a", "storageos": {}}, {"name": "b", "rbd": {}}], [
        "spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+",
        "spec.volumes[1].rbd: deprecated in v1.28, non-functional in v1.31+",
    ]),
    ("spec/volumes", [{"name": "v", "configMap": items("a", "a/b", "ab", "a/", "a/b/c")}], [
        f'volume "v" (ConfigMap "n"): overlapping paths: {pair}'
        for pair in (
            '"a/b" with "a"', '"a" with "a"', '"a" with "a/b"', '"a/b/c" with "a"',
            '"a/b/c" with "a/b"', '"a/b/c" with "a"',
        )
    ]),
    ("spec/volumes", [{"name": "v", "secret": {**items("a", "a"), "secretName": "s"}}],
     ['volume "v" (Secret "s"): overlapping paths: "a" with "a"']),
    ("spec/volumes", [{"name": "v", "downwardAPI": items("a", "a")}],
     ['volume "v" (DownwardAPI): overlapping paths: "a" with "a"']),
    ("spec/volumes", projected({"serviceAccountToken": {"path": "a"}}, {"secret": items("a")}, {},
                               {"clusterTrustBundle": {"path": "a/b", "signerName": "x"}}), [
        'volume "v" (Projected): overlapping paths: "a" (Secret "n") with "a" '
        "(ServiceAccountToken)",
        'volume "v" (Projected) has no sources provided',
        'volume "v" (Projected): overlapping paths: "a/b" (ClusterTrustBundle "x") with "a" '
        "(ServiceAccountToken)",
        'volume "v" (Projected): overlapping paths: "a/b" (ClusterTrustBundle "x") with "a" '
        '(Secret "n")',
    ]),
    ("spec/volumes", projected({"podCertificate": _BOTH}, {"configMap": items("other/x")},
                               {"downwardAPI": items("y")}), [
        'volume "v" (Projected): overlapping paths: "key" (PodCertificate key) with "key/chain" '
        "(PodCertificate chain)",
        'volume "v" (Projected): overlapping paths: "other/x" (ConfigMap "n") with "other" '
        "(PodCertificate credential bundle)",
    ]),
    ("spec/hostAliases", [{"ip": "::01"}], [
        'spec.hostAliases[0].ip: IPv6 address "::01" should be in RFC 5952 canonical format ("::1")'
    ]),
    ("spec/dnsConfig", {"nameservers": ["::01"]}, [
        'spec.dnsConfig.nameservers[0]: IPv6 address "::01" should be in RFC 5952 canonical format '
        '("::1")'
    ]),
    ("spec/containers/0/ports", [{"containerPort": 80, "name": "p"}, {"containerPort": 81},
                                 {"containerPort": 82, "name": "p"}], [
        'spec.containers[0].ports[2]: duplicate port name "p" with spec.containers[0].ports[0], '
        "services and probes that select ports by name will use spec.containers[0].ports[0]"
    ]),
    ("spec/affinity", {"nodeAffinity": {f"preferred{_DURING}": [{"preference": {
        "matchExpressions": [{"key": "a", "values": ["b"]}, {"key": "beta.kubernetes.io/os",
                                                             "values": ["x", "-"]}]
    }}]}}, [
        f"spec.affinity.nodeAffinity.preferred{_DURING}[0].preference.matchExpressions[1].key: "
        f"beta.kubernetes.io/os is {_OS}",
        f"spec.affinity.nodeAffinity.preferred{_DURING}[0].preference.matchExpressions[1]."
        "values[1]: - is invalid, a valid label must be an empty string or consist of alphanumeric "
        "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
        "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    ]),
    ("spec/hostAliases", [{"ip": "1.1.1.1"}] * 2,
     ['spec.hostAliases[1].ip: duplicate ip "1.1.1.1"']),
    ("spec/imagePullSecrets", [{"name": "s"}, {"name": "s"}, {}], [
        'spec.imagePullSecrets[1].name: duplicate name "s"',
        'spec.imagePullSecrets[2].name: invalid empty name ""',
    ]),
    ("spec/overhead", {"memory": "100m"}, ['spec.overhead[memory]: fractional byte value "100m" is '
                                           "invalid, must be an integer"]),
    ("spec/containers/0/env", _ENV, ['spec.containers[0].env[2]: hides previous definition of "A", '
                                     "which may be dropped when using apply"]),
    ("spec/containers/0/ports", [{"containerPort": 80}, {"containerPort": 80, "hostPort": 8},
                                 {"containerPort": 80, "hostPort": 8, "hostIP": "1.1.1.1"}], [
        "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
        "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[0]",
        "spec.containers[0].ports[2]: dangerously ambiguous port definition with "
        "spec.containers[0].ports[1]",
    ]),
    ("spec/containers/0/ports", [{"containerPort": 80, "hostIP": "1.1.1.1", "protocol": "TCP"}], [
        "spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 "
        "ContainerPort:80 Protocol:TCP HostIP:1.1.1.1}",
    ]),
    ("spec/terminationGracePeriodSeconds", -1, [
        "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be "
        "treated as 1"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "expected"), CASES)
def test_pods_and_templates(path, value, expected):
    """A pod and a template give the same warnings, each with its own paths."""
    assert strategy("pods").warnings(changed(POD, path, value), None) == expected
    deployment = changed(DEPLOYMENT, f"spec/template/{path}", value)
    messages = strategy("deployments").warnings(deployment, None)
    prefix = "spec.template.spec."
    assert messages == [
        text
        if text.startswith("volume ")
        else text.replace(" spec.", " spec.template.spec.").replace("spec.", prefix, 1)
        if text.startswith("spec.")
        else f"spec.template.{text}"
        for text in expected
    ]


def test_app_armor_of_templates():
    """AppArmor annotations of a template give a warning if the field is missing."""
    key = "container.apparmor.security.beta.kubernetes.io/c"
    deployment = changed(DEPLOYMENT, "spec/template/metadata/annotations", {key: "unconfined"})
    deployment = changed(deployment, "spec/template/spec/containers/0/name", "c")
    assert strategy("deployments").warnings(deployment, None) == [
        f"spec.template.metadata.annotations[{key}]: deprecated since v1.30; use the "
        '"appArmorProfile" field instead'
    ]


def test_many_paths():
    """The check of overlapping paths is fast for many files."""
    sources = items(*(f"{number}/x" for number in range(20_000)), *["same"] * 20_000)
    pod = changed(POD, "spec/volumes", [{"name": "v", "configMap": sources}])
    assert len(strategy("pods").warnings(pod, None)) == 1000


def test_nodes():
    """Removed fields of nodes give warnings."""
    node = {"metadata": {"name": "n"}, "spec": {"configSource": {}, "externalID": "x"}}
    assert strategy("nodes").warnings(node, None) == [
        "spec.configSource: the feature is removed",
        "spec.externalID: this field is deprecated, and is unused by Kubernetes",
    ]

"""What clients are told of pods and templates that are valid and yet not what they want."""

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
_NOTHING = "labelSelector: a null labelSelector results in matching no pod"
_ENV = [
    {"name": "A", "value": "1"},
    {"name": "A", "value": "$(A)2"},
    {"name": "A", "value": "$(A)"},
]
_TOKEN = {
    "name": "t",
    "projected": {
        "sources": [
            {"serviceAccountToken": {"path": "same"}},
            {"secret": {"items": [{"key": "k", "path": "same"}]}},
        ]
    },
}
CASES = [
    ("spec/nodeSelector", {"beta.kubernetes.io/os": "x"},
     [f"spec.nodeSelector[beta.kubernetes.io/os]: {_OS}"]),
    ("spec/affinity", AFFINITY, [
        f"spec.affinity.nodeAffinity.required{_DURING}.nodeSelectorTerms[0].matchExpressions[0]"
        f".key: beta.kubernetes.io/os is {_OS}",
        f"spec.affinity.podAffinity.required{_DURING}[0].{_NOTHING}",
        f"spec.affinity.podAntiAffinity.preferred{_DURING}[0].podAffinityTerm.{_NOTHING}",
    ]),
    ("spec/topologySpreadConstraints", [{"topologyKey": "beta.kubernetes.io/os"}], [
        f"spec.topologySpreadConstraints[0].topologyKey: beta.kubernetes.io/os is {_OS}",
        f"spec.topologySpreadConstraints[0].{_NOTHING}",
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
    ("spec/volumes", [_TOKEN], ["spec.volumes[0].projected.sources.secrets[0]: has duplicated "
                                'path with ServiceAccountToken "same"']),
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


@pytest.mark.parametrize(("path", "value", "wanted"), CASES)
def test_pods_and_templates(path, value, wanted):
    """A pod and a template say the same, each from where it stands."""
    assert strategy("pods").warnings(changed(POD, path, value), None) == wanted
    there = changed(DEPLOYMENT, f"spec/template/{path}", value)
    found = strategy("deployments").warnings(there, None)
    assert found == [
        text.replace("spec.", "spec.template.spec.", 1)
        if text.startswith("spec.")
        else f"spec.template.{text}"
        for text in (one.replace("with spec.", "with spec.template.spec.") for one in wanted)
    ]


def test_nodes():
    """What nodes do not have any more."""
    node = {"metadata": {"name": "n"}, "spec": {"configSource": {}, "externalID": "x"}}
    assert strategy("nodes").warnings(node, None) == [
        "spec.configSource: the feature is removed",
        "spec.externalID: this field is deprecated, and is unused by Kubernetes",
    ]

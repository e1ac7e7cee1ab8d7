"""Validation of pods and templates, one invalid field at a time, with the messages of
kube-apiserver."""

import copy

import pytest

from tests.objects import DEPLOYMENT, GONE, POD, changed, defaulted, strategy, texts

C = "spec/containers/0"
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
RANGE = "must be between 1 and 65535, inclusive"

CASES = [
    ("spec/containers", [], ["spec.containers: Required value"]),
    (f"{C}/name", "", ["spec.containers[0].name: Required value"]),
    (f"{C}/name", "C", [f'spec.containers[0].name: Invalid value: "C": {LABEL}']),
    (f"{C}/image", "", ["spec.containers[0].image: Required value"]),
    (
        f"{C}/image",
        " x",
        [
            'spec.containers[0].image: Invalid value: " x": must not have leading or trailing '
            "whitespace"
        ],
    ),
    (
        f"{C}/imagePullPolicy",
        "Sometimes",
        [
            'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: '
            '"Always", "IfNotPresent", "Never"'
        ],
    ),
    (
        f"{C}/ports/0/containerPort",
        70000,
        [f"spec.containers[0].ports[0].containerPort: Invalid value: 70000: {RANGE}"],
    ),
    (
        f"{C}/ports/0/containerPort",
        0,
        ["spec.containers[0].ports[0].containerPort: Required value"],
    ),
    (
        f"{C}/ports/0/protocol",
        "ICMP",
        [
            'spec.containers[0].ports[0].protocol: Unsupported value: "ICMP": supported values: '
            '"SCTP", "TCP", "UDP"'
        ],
    ),
    (
        f"{C}/ports",
        [{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}],
        ['spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//5"'],
    ),
    (f"{C}/env", [{"value": "x"}], ["spec.containers[0].env[0].name: Required value"]),
    (
        f"{C}/env",
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}],
        [
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "
            '"spec.x": error converting fieldPath: field label not supported: spec.x'
        ],
    ),
    (
        f"{C}/env",
        [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        [
            'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when '
            "`value` is not empty"
        ],
    ),
    (
        f"{C}/env",
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}}],
        [],
    ),
    (
        f"{C}/envFrom",
        [{}],
        [
            'spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or '
            "`secretRef`"
        ],
    ),
    (
        f"{C}/volumeMounts/0/name",
        "gone",
        ['spec.containers[0].volumeMounts[0].name: Not found: "gone"'],
    ),
    (
        f"{C}/volumeMounts",
        [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}],
        [
            'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/v": must be unique',
        ],
    ),
    (
        f"{C}/volumeMounts/0/subPath",
        "../x",
        ["spec.containers[0].volumeMounts.subPath: Invalid value: \"../x\": must not contain '..'"],
    ),
    (f"{C}/volumeDevices", [{"name": "claim", "devicePath": "/dev/x"}], []),
    (
        f"{C}/volumeDevices",
        [{"name": "v", "devicePath": "/dev/x"}],
        [
            'spec.containers[0].volumeMounts[0].name: Invalid value: "v": must not already exist '
            "in volumeDevices",
            'spec.containers[0].volumeDevices[0].name: Invalid value: "v": can only use volume '
            "source type of PersistentVolumeClaim or Ephemeral for block mode",
            'spec.containers[0].volumeDevices[0].name: Invalid value: "v": must not already exist '
            "in volumeMounts",
        ],
    ),
    (
        f"{C}/resources",
        {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
        [
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal '
            "to cpu limit of 1"
        ],
    ),
    (
        f"{C}/resources",
        {"requests": {"cpu": "-1"}},
        [
            'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than '
            "or equal to 0"
        ],
    ),
    (
        f"{C}/resources",
        {"requests": {"gpu": "1"}},
        [
            'spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard '
            "resource type or fully qualified",
            'spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard '
            "resource for containers",
            "spec.containers[0].resources.limits: Required value: Limit must be set for non "
            "overcommitable resources",
        ][:2],
    ),
    (
        f"{C}/resources",
        {"limits": {"a.com/gpu": "500m"}, "requests": {"a.com/gpu": "500m"}},
        [
            'spec.containers[0].resources.limits[a.com/gpu]: Invalid value: "500m": must be an '
            "integer",
            'spec.containers[0].resources.requests[a.com/gpu]: Invalid value: "500m": must be an '
            "integer",
        ],
    ),
    (
        f"{C}/resources",
        {"requests": {"hugepages-2Mi": "2Mi"}, "limits": {"hugepages-2Mi": "2Mi"}},
        ["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
    ),
    (
        f"{C}/livenessProbe",
        {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}, "successThreshold": 2},
        [
            "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 "
            "handler type",
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ],
    ),
    (
        f"{C}/readinessProbe",
        {},
        ["spec.containers[0].readinessProbe: Required value: must specify a handler type"],
    ),
    (
        f"{C}/startupProbe",
        {"httpGet": {"port": "no port", "scheme": "FTP"}},
        [
            'spec.containers[0].startupProbe.httpGet.port: Invalid value: "no port": must contain '
            "only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            'spec.containers[0].startupProbe.httpGet.scheme: Unsupported value: "FTP": supported '
            'values: "HTTP", "HTTPS"',
        ],
    ),
    (
        f"{C}/securityContext",
        {
            "allowPrivilegeEscalation": False,
            "runAsUser": -1,
            "seccompProfile": {"type": "Localhost"},
        },
        [
            "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 "
            "and 2147483647, inclusive",
            "spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: "
            "must be set when seccomp type is Localhost",
        ],
    ),
    (
        "spec/volumes/0/name",
        "",
        [
            "spec.volumes[0].name: Required value",
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ],
    ),
    ("spec/volumes/1/name", "v", ['spec.volumes[1].name: Duplicate value: "v"']),
    (
        "spec/volumes/0",
        {"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}},
        [
            "spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type",
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ],
    ),
    (
        "spec/volumes/0",
        {"name": "v", "configMap": {"name": "", "defaultMode": 9999}},
        [
            "spec.volumes[0].configMap.name: Required value",
            "spec.volumes[0].configMap.defaultMode: Invalid value: 9999: must be a number between "
            "0 and 0777 (octal), both inclusive",
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ],
    ),
    (
        "spec/restartPolicy",
        "Maybe",
        [
            'spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", '
            '"OnFailure", "Never"'
        ],
    ),
    (
        "spec/dnsPolicy",
        "None",
        ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    ),
    ("spec/hostname", "A", [f'spec.hostname: Invalid value: "A": {LABEL}']),
    (
        "spec/activeDeadlineSeconds",
        0,
        [
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, "
            "inclusive"
        ],
    ),
    (
        "spec/tolerations",
        [{"operator": "Equal", "value": "x"}],
        [
            'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when '
            '`key` is empty, which means \\"match all values and all keys\\"'.replace('\\"', '"')
        ],
    ),
    (
        "spec/topologySpreadConstraints",
        [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        ["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"],
    ),
    (
        "spec/affinity",
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
            }
        },
        [
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms: Required value: must have at least one node selector term"
        ],
    ),
    (
        "spec/initContainers",
        [{"name": "c", "image": "x", "livenessProbe": {"exec": {"command": ["x"]}}}],
        [
            'spec.initContainers[0].name: Duplicate value: "c"',
            "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers "
            "without restartPolicy=Always",
        ],
    ),
    (
        "spec/ephemeralContainers",
        [{"name": "e", "image": "x"}],
        ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
    ),
]


def test_valid():
    """A minimal pod is valid."""
    assert texts(strategy("pods").validate(defaulted(POD))) == []


@pytest.mark.parametrize(("path", "value", "messages"), CASES)
def test_rules(path, value, messages):
    """Each invalid field gives exactly its messages."""
    pod = defaulted(changed(POD, path, value))
    assert texts(strategy("pods").validate(pod)) == messages


ONLY = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
UPDATES = [
    (f"{C}/image", "other:1", []),
    ("spec/tolerations", [{"operator": "Exists"}], []),
    ("spec/activeDeadlineSeconds", 30, []),
    ("metadata/labels", {"a": "b"}, []),
    ("spec/nodeName", "n", [ONLY]),
    (f"{C}/command", ["x"], [ONLY]),
    (f"{C}/name", "other", [ONLY]),
    (
        "spec/containers",
        [POD["spec"]["containers"][0], {"name": "d", "image": "x"}],
        ["spec.containers: Forbidden: pod updates may not add or remove containers"],
    ),
]


@pytest.mark.parametrize(("path", "value", "messages"), UPDATES)
def test_updates(path, value, messages):
    """Few fields of a pod are mutable."""
    old = defaulted(POD)
    new = defaulted(changed(old, path, value))
    errors = texts(strategy("pods").validate_update(new, old))
    assert [message.split("\n")[0] for message in errors] == messages


def test_deadline_only_shrinks():
    """The active deadline of a pod can only be set or shortened."""
    old = defaulted(changed(POD, "spec/activeDeadlineSeconds", 10))
    longer_deadline = changed(old, "spec/activeDeadlineSeconds", 20)
    without_deadline = changed(old, "spec/activeDeadlineSeconds", GONE)
    assert texts(strategy("pods").validate_update(longer_deadline, old)) == [
        "spec.activeDeadlineSeconds: Invalid value: 20: must be less than or equal to previous "
        "value"
    ]
    assert texts(strategy("pods").validate_update(without_deadline, old)) == [
        "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer "
        "to nil value"
    ]


WARNINGS = [
    (
        f"{C}/env",
        [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when '
        "using apply",
    ),
    (
        "spec/nodeSelector",
        {"beta.kubernetes.io/os": "linux"},
        'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" '
        "instead",
    ),
    (
        f"{C}/resources",
        {"requests": {"memory": "100m"}},
        'spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, '
        "must be an integer",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), WARNINGS)
def test_warnings(path, value, message):
    """A valid pod with questionable fields gives warnings."""
    pod = defaulted(changed(POD, path, value))
    assert strategy("pods").warnings(pod, None) == [message]
    assert strategy("pods").validate(pod) == []


def test_no_warnings():
    """A minimal pod gives no warnings, and an update never does."""
    pod = defaulted(POD)
    assert strategy("pods").warnings(pod, None) == []
    assert strategy("pods").warnings(pod, pod) == []


DEPLOYMENTS = [
    ("", GONE, []),
    (
        "spec/selector",
        None,
        [
            "spec.selector: Required value",
            'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match '
            "template `labels`",
        ],
    ),
    (
        "spec/selector",
        {},
        ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
    ),
    ("spec/replicas", -1, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
    (
        "spec/strategy",
        {"type": "Recreate", "rollingUpdate": {}},
        [
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is "
            "'Recreate'"
        ],
    ),
    (
        "spec/strategy",
        {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}},
        [
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when '
            "`maxSurge` is 0"
        ],
    ),
    (
        "spec/strategy",
        {"rollingUpdate": {"maxUnavailable": "101%"}},
        [
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be '
            "greater than 100%"
        ],
    ),
    (
        "spec/template/spec/restartPolicy",
        "Never",
        [
            'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: '
            '"Always"'
        ],
    ),
    (
        "spec/progressDeadlineSeconds",
        0,
        ["spec.progressDeadlineSeconds: Invalid value: 0: must be greater than minReadySeconds"],
    ),
]


@pytest.mark.parametrize(("path", "value", "messages"), DEPLOYMENTS)
def test_deployments(path, value, messages):
    """Deployments are validated, including their pod templates."""
    obj = defaulted(changed(DEPLOYMENT, path, value))
    assert texts(strategy("deployments").validate(obj)) == messages


def test_immutable_selector():
    """The selector of a deployment is immutable."""
    old = defaulted(DEPLOYMENT)
    new = copy.deepcopy(old)
    new["spec"]["selector"] = {"matchLabels": {"a": "b", "c": "d"}}
    new["spec"]["template"]["metadata"]["labels"] = {"a": "b", "c": "d"}
    assert texts(strategy("deployments").validate_update(new, old)) == [
        'spec.selector: Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable'
    ]

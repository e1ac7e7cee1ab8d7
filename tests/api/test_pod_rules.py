"""Validation of pods: operating systems, users, volumes, templates, updates."""

import pytest

from tests.objects import DEPLOYMENT, POD, changed, defaulted, strategy, texts

C = "spec/containers/0"
AT = "spec.containers[0]"
OPTIONS = f"{AT}.securityContext.windowsOptions"


def user(name, message):
    """Return a case with an invalid Windows user name."""
    quoted_name = name.replace("\\", "\\\\").replace("\n", "\\n")
    path = f"{C}/securityContext"
    text = f'{OPTIONS}.runAsUserName: Invalid value: "{quoted_name}": {message}'
    return (path, {"windowsOptions": {"runAsUserName": name}}, [text])


CASES = [
    user("", "runAsUserName cannot be an empty string"),
    user("a\n", "runAsUserName cannot contain control characters"),
    user("a\\b\\c", "runAsUserName cannot contain more than one backslash"),
    user(".x.\\b", "runAsUserName's Domain doesn't match the NetBios nor the DNS format"),
    user("a\\", "runAsUserName's User cannot be empty"),
    user("...", "runAsUserName's User cannot contain only periods or spaces"),
    user(
        "a@b",
        "runAsUserName's User cannot contain the following characters: "
        '"/\\:;|=,+*?<>@[]',
    ),
    (f"{C}/securityContext", {"windowsOptions": {"hostProcess": True}}, [
        "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any "
        "hostProcess containers"
    ]),
    ("spec/os", {"name": "beos"}, [
        'spec.os: Unsupported value: "beos": supported values: "linux", "windows"'
    ]),
    ("spec/os", {"name": ""}, ["spec.os.name: Required value: cannot be empty"]),
    ("spec", POD["spec"] | {"os": {"name": "windows"}, "hostPID": True, "hostUsers": False}, [
        "spec.HostPID: Forbidden: when `hostUsers` is false",
        "spec.hostUsers: Forbidden: cannot be set for a windows pod",
        "spec.hostPID: Forbidden: cannot be set for a windows pod",
    ]),
    (f"{C}/securityContext", {"procMount": "Unmasked"}, [
        f'{AT}.securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to '
        "use `Unmasked`"
    ]),
    (f"{C}/securityContext", {"allowPrivilegeEscalation": False, "privileged": True}, [
        f'{AT}.securityContext: Invalid value: {{"Capabilities":null,"Privileged":true,'
        '"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,'
        '"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,'
        '"ProcMount":null,"SeccompProfile":null,"AppArmorProfile":null}: cannot set '
        "`allowPrivilegeEscalation` to false and `privileged` to true"
    ]),
    (f"{C}/securityContext", {"appArmorProfile": {"type": "Localhost", "localhostProfile": " x"}}, [
        f'{AT}.securityContext.appArmorProfile.localhostProfile: Invalid value: " x": must not be '
        "padded with whitespace"
    ]),
    ("spec/securityContext", {"seLinuxChangePolicy": "Never"}, [
        'spec.securityContext.seLinuxChangePolicy: Unsupported value: "Never": supported values: '
        '"MountOption", "Recursive"'
    ]),
    ("spec", POD["spec"] | {"hostNetwork": True, "securityContext": {
        "sysctls": [{"name": "net.core.somaxconn", "value": "1"}]
    }}, [
        'spec.securityContext.sysctls[0].name: Invalid value: "net.core.somaxconn": may not be '
        "specified when 'hostNetwork' is true"
    ]),
    ("spec", POD["spec"] | {"hostNetwork": True, "containers": [
        {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 81}]}
    ]}, [
        f"{AT}.ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` "
        "is true"
    ]),
    (f"{C}/resizePolicy", [{"resourceName": "gpu", "restartPolicy": "Maybe"}], [
        f'{AT}.resizePolicy: Unsupported value: "gpu": supported values: "cpu", "memory"',
        f'{AT}.resizePolicy: Unsupported value: "Maybe": supported values: "NotRequired", '
        '"RestartContainer"',
    ]),
    (f"{C}/restartPolicyRules", [{"action": "Restart"}], [
        f"{AT}.restartPolicy: Required value: must specify restartPolicy when restart rules are "
        "used"
    ]),
    (C, POD["spec"]["containers"][0] | {"restartPolicy": "Never", "restartPolicyRules": [
        {"action": "Stop", "exitCodes": {"operator": "Equals", "values": [3]}}
    ]}, [
        f'{AT}.restartPolicyRules[0].action: Unsupported value: "Stop": supported values: '
        '"Restart", "RestartAllContainers"',
        f'{AT}.restartPolicyRules[0].exitCodes.operator: Unsupported value: "Equals": supported '
        'values: "In", "NotIn"',
    ]),
    (f"{C}/lifecycle", {"stopSignal": "SIGTERM"}, [
        f"{AT}.lifecycle.stopSignal: Forbidden: may not be set for containers with empty "
        "`spec.os.name`"
    ]),
    (f"{C}/lifecycle", {"preStop": {"sleep": {"seconds": 31}}}, [
        f"{AT}.lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than "
        "terminationGracePeriodSeconds (30)"
    ]),
    (f"{C}/resources", {"claims": [{"name": "x"}]}, [
        f'{AT}.resources.claims[0]: Not found: "x": must be one of the names in '
        "pod.spec.resourceClaims which is empty"
    ]),
    ("spec/resourceClaims", [{"name": "a"}], [
        'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":null,'
        '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, '
        "`resourceClaimTemplateName`"
    ]),
    ("spec/resources", {"requests": {"cpu": "2", "storage": "1"}, "limits": {"cpu": "1"}}, [
        'spec.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        'spec.resources.requests[storage]: Unsupported value: "storage": supported values: "cpu", '
        '"hugepages-", "memory"',
    ]),
    ("spec", POD["spec"] | {"resources": {"requests": {"cpu": "1"}}, "containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}
    ]}, [
        'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to '
        "aggregate container requests of 1500m"
    ]),
    ("spec/overhead", {"cpu": "-1"}, [
        'spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'
    ]),
    (f"{C}/volumeMounts/0/recursiveReadOnly", "Enabled", [
        f"{AT}.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is "
        "true"
    ]),
    ("spec/preemptionPolicy", "Odd", [
        'spec.preemptionPolicy: Unsupported value: "Odd": supported values: '
        '"PreemptLowerPriority", "Never"'
    ]),
    ("spec/tolerations", [{"key": "a", "operator": "Exists", "effect": "Odd"}], [
        'spec.tolerations[0].effect: Unsupported value: "Odd": supported values: "NoSchedule", '
        '"PreferNoSchedule", "NoExecute"'
    ]),
    ("spec/topologySpreadConstraints", [
        {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "Odd", "matchLabelKeys": ["a"]}
    ], [
        'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Odd": supported '
        'values: "DoNotSchedule", "ScheduleAnyway"',
        "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when "
        "labelSelector is not set",
    ]),
    ("spec/affinity", {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "z", "labelSelector": {}, "matchLabelKeys": ["a"],
         "mismatchLabelKeys": ["a"]}
    ]}}, [
        "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
        '.matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and '
        "mismatchLabelKeys"
    ]),
    ("spec/dnsConfig", {"searches": ["_tcp.example.com", "."], "nameservers": ["1.2.3.4"]}, []),
    ("spec/imagePullSecrets", [{}], []),
    ("metadata/annotations", {"controller.kubernetes.io/pod-deletion-cost": "+1"}, [
        "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "
        '"+1": must be a 32bit integer'
    ]),
    ("metadata/annotations", {"container.apparmor.security.beta.kubernetes.io/x": "odd"}, [
        "metadata.annotations[container.apparmor.security.beta.kubernetes.io/x]: Invalid value: "
        '"x": container not found',
        "metadata.annotations[container.apparmor.security.beta.kubernetes.io/x]: Invalid value: "
        '"odd": invalid AppArmor profile name: "odd"',
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "messages"), CASES)
def test_rules(path, value, messages):
    """Each invalid field gives exactly its messages."""
    pod = defaulted(changed(POD, path, value))
    assert texts(strategy("pods").validate(pod)) == messages


CERTIFICATE = {"signerName": "example.com/s", "keyType": "ED25519", "keyPath": "k"}


def certified(projection):
    """Return a volume with a pod certificate projection."""
    return {"projected": {"sources": [{"podCertificate": projection}]}}


VOLUMES = [
    (certified({**CERTIFICATE, "maxExpirationSeconds": 3599}), [
        "projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 3599: if "
        "provided, maxExpirationSeconds must be >= 3600"
    ]),
    (certified({**CERTIFICATE, "maxExpirationSeconds": 7862401}), [
        "projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 7862401: if "
        "provided, maxExpirationSeconds must be <= 7862400"
    ]),
    (certified({"signerName": "example.com/s", "keyType": "DSA"}), [
        'projected.sources[0].podCertificate.keyType: Unsupported value: "DSA": supported values: '
        '"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"',
        "projected.sources[0].podCertificate: Required value: specify at least one of "
        "credentialBundlePath, keyPath, and certificateChainPath",
    ]),
    ({"projected": {"sources": [{"clusterTrustBundle": {"name": "a", "path": "p",
                                                        "labelSelector": {}}}]}}, [
        "projected.sources[0].clusterTrustBundle.labelSelector: Invalid value: {}: labelSelector "
        "must be unset if name is specified"
    ]),
    ({"projected": {"sources": [{"configMap": {"name": "a", "items": [
        {"key": "k", "path": "p"}, {"key": "l", "path": "p"}
    ]}}]}}, [
        'projected: Invalid value: "a": conflicting duplicate paths'
    ]),
    ({"flocker": {}}, ["flocker: Required value: one of datasetName and datasetUUID is required"]),
    ({"gcePersistentDisk": {"pdName": "d", "partition": 256}}, [
        "persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive"
    ]),
    ({"iscsi": {"targetPortal": "p", "iqn": "iqn.x", "lun": 0, "chapAuthSession": True}}, [
        'iscsi.iqn: Invalid value: "iqn.x": must be valid format',
        "iscsi.secretRef: Required value",
    ]),
    ({"iscsi": {"targetPortal": "p", "iqn": "iqn.2001-04.com.example:storage", "lun": 0}}, []),
    ({"quobyte": {"registry": "a,b:1", "volume": "v"}}, [
        'quobyte.registry: Invalid value: "a,b:1": must be a host:port pair or multiple pairs '
        "separated by commas"
    ]),
    ({"flexVolume": {"driver": "d", "options": {"x.k8s.io/a": "b"}}}, [
        'flexVolume.options[x.k8s.io/a]: Invalid value: "x.k8s.io/a": kubernetes.io and k8s.io '
        "namespaces are reserved"
    ]),
    ({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Odd"}}, [
        'azureDisk.kind: Unsupported value: "Odd": supported values: "Dedicated", "Managed", '
        '"Shared"',
        'azureDisk.diskURI: Unsupported value: "u": supported values: "https://{account-name}'
        '.blob.core.windows.net/{container-name}/{disk-name}.vhd"',
    ]),
    ({"storageos": {"secretRef": {}}}, [
        "storageos.volumeName: Required value",
        "storageos.secretRef.name: Required value",
    ]),
    ({"fc": {}}, [
        "fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"
    ]),
    ({"gitRepo": {"repository": "r", "directory": "/x"}}, [
        'gitRepo.directory: Invalid value: "/x": must be a relative path'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "messages"), VOLUMES)
def test_volumes(source, messages):
    """Each invalid field of a volume source gives exactly its messages."""
    pod = defaulted(changed(POD, "spec/volumes/1", {"name": "claim", **source}))
    errors = texts(strategy("pods").validate(pod))
    assert [text.removeprefix("spec.volumes[1].") for text in errors] == messages


def test_templates():
    """Some rules do not apply to templates, and the paths of their metadata differ."""
    path = "spec/template"
    padded = defaulted(changed(DEPLOYMENT, f"{path}/spec/containers/0/image", " x"))
    assert texts(strategy("deployments").validate(padded)) == []
    odd = changed(DEPLOYMENT, f"{path}/metadata/labels", {"a": "b", "-": "c"})
    (message,) = texts(strategy("deployments").validate(defaulted(odd)))
    assert message.startswith('spec.template.labels: Invalid value: "-"')


def test_gated_pods():
    """Node constraints of a gated pod may only get narrower."""
    gated = changed(POD, "spec/schedulingGates", [{"name": "g"}])
    old = defaulted(changed(gated, "spec/nodeSelector", {"a": "b"}))
    narrower = changed(old, "spec/nodeSelector", {"a": "b", "c": "d"})
    assert texts(strategy("pods").validate_update(narrower, old)) == []
    relabelled = changed(old, "spec/nodeSelector", {"a": "c"})
    assert texts(strategy("pods").validate_update(relabelled, old)) == [
        'spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are '
        "allowed (no mutations or deletions)"
    ]
    with_gates = changed(old, "spec/schedulingGates", [{"name": "g"}, {"name": "h"}])
    assert texts(strategy("pods").validate_update(with_gates, old)) == [
        "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new "
        "scheduling gate 'h'"
    ]


def test_difference():
    """The message about an immutable field contains a diff."""
    old = defaulted(POD)
    new = changed(old, "spec/nodeName", "n")
    (message,) = texts(strategy("pods").validate_update(new, old))
    assert '\n- "NodeName": "",\n+ "NodeName": "n",\n' in message


def test_own_labels():
    """matchLabelKeys become requirements with the values of the pod's labels."""
    term = {
        "topologyKey": "z",
        "labelSelector": {"matchLabels": {"a": "b"}},
        "matchLabelKeys": ["hash", "gone"],
        "mismatchLabelKeys": ["tenant"],
    }
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    pod = changed(POD, "spec/affinity", {"podAntiAffinity": rules})
    pod = defaulted(changed(pod, "metadata/labels", {"hash": "1", "tenant": "t"}))
    strategy("pods").prepare_for_create(pod)
    assert texts(strategy("pods").validate(pod)) == []
    (terms,) = pod["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert terms["labelSelector"] == {
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "hash", "operator": "In", "values": ["1"]},
            {"key": "tenant", "operator": "NotIn", "values": ["t"]},
        ],
    }

"""Validation of parts of pods: names, files, annotations, updates."""

import pytest

from tests.objects import POD, changed, defaulted, strategy, texts

C = "spec/containers/0"
AT = "spec.containers[0]"
NAME = POD["spec"]["containers"][0]["name"]
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
ARMOR = f"container.apparmor.security.beta.kubernetes.io/{NAME}"
TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
MIRROR = "kubernetes.io/config.mirror"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def variable(source, **fields):
    """Return a container's env with one variable from this source."""
    return [{"name": "A", "valueFrom": source, **fields}]


def from_file(**values):
    """Return a variable from a file in a volume."""
    return variable({"fileKeyRef": {"key": "k", "path": "p", "volumeName": "v", **values}})


FIELD = "error converting fieldPath: field label"
FILE = f"{AT}.env[0].valueFrom.fileKeyRef"
CASES = [
    (f"{C}/env", variable({}), [
        f'{AT}.env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, '
        "`resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    ]),
    (f"{C}/env", variable({"fieldRef": {"fieldPath": "spec.nodeName['x']"}}), [
        f"{AT}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.nodeName['x']\": {FIELD} "
        "does not support subscript: spec.nodeName['x']"
    ]),
    (f"{C}/env", variable({"fieldRef": {"fieldPath": "spec.x"}}), [
        f'{AT}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.x": {FIELD} not '
        "supported: spec.x"
    ]),
    (f"{C}/env", variable({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}), [
        f'{AT}.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only '
        "divisor's values 1m and 1 are supported with the cpu resource"
    ]),
    (f"{C}/env", from_file(), []),
    (f"{C}/env", from_file(path="../p", volumeName="x"), [
        f'{FILE}.path: Invalid value: "../p": must not contain \'..\'',
        f'{FILE}.volumeName: Not found: "x"',
    ]),
    (f"{C}/env", from_file(volumeName="claim"),
     [f'{FILE}.volumeName: Invalid value: "claim": referenced volume must be of type emptyDir']),
    (f"{C}/envFrom", [{"secretRef": {"name": "beginning-"}}], []),
    ("spec/hostnameOverride", "H", [f'spec.hostnameOverride: Invalid value: "H": {SUBDOMAIN}']),
    ("spec", {**POD["spec"], "hostnameOverride": "h", "hostNetwork": True,
              "setHostnameAsFQDN": True},
     ["spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
      "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true"]),
    ("spec/hostnameOverride", "h" * 65,
     ["spec.hostnameOverride: Too long: may not be more than 64 bytes"]),
    ("spec/runtimeClassName", "", [f'spec.runtimeClassName: Invalid value: "": {SUBDOMAIN}']),
    ("spec/dnsConfig", {"nameservers": ["01.2.3.4"]},
     ['spec.dnsConfig.nameservers[0]: Invalid value: "01.2.3.4": must not have leading 0s']),
    ("spec/hostAliases", [{"ip": "::ffff:1.2.3.4"}], [
        'spec.hostAliases[0].ip: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 '
        "address"
    ]),
    (f"{C}/restartPolicyRules", [], []),
    (f"{C}/restartPolicyRules",
     [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}], [
        f"{AT}.restartPolicy: Required value: must specify restartPolicy when restart rules are "
        "used"
    ]),
    (C, {**POD["spec"]["containers"][0], "restartPolicy": "Never", "restartPolicyRules": [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": list(range(256))}}
    ] * 21}, [
        f"{AT}.restartPolicyRules: Too long: may not be more than 20 bytes",
        *(f"{AT}.restartPolicyRules[{number}].exitCodes.values: Too long: may not be more than 255 "
          "bytes" for number in range(21)),
    ]),
    ("spec/resourceClaims", [{"name": "a"}, {"name": "a", "resourceClaimName": "r"}, {
        "name": "b", "resourceClaimName": "r", "resourceClaimTemplateName": "t"}], [
        'spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":null,'
        '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, '
        "`resourceClaimTemplateName`",
        'spec.resourceClaims[1].name: Duplicate value: "a"',
        'spec.resourceClaims[2]: Invalid value: {"Name":"b","ResourceClaimName":"r",'
        '"ResourceClaimTemplateName":"t"}: at most one of `resourceClaimName` or '
        "`resourceClaimTemplateName` may be specified",
    ]),
    ("spec/topologySpreadConstraints", [{
        "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule",
        "matchLabelKeys": ["b", "a"], "labelSelector": {
            "matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]
        },
    }], [
        'spec.topologySpreadConstraints[0][1]: Invalid value: "a": exists in both matchLabelKeys '
        "and labelSelector",
    ]),
    ("spec/topologySpreadConstraints", [{
        "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule",
        "matchLabelKeys": ["a"],
    }], [
        "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when "
        "labelSelector is not set",
    ]),
    ("spec", {**POD["spec"], "hostIPC": True, "securityContext": {
        "sysctls": [{"name": "kernel.sem", "value": "1"}]}}, [
        'spec.securityContext.sysctls[0].name: Invalid value: "kernel.sem": may not be specified '
        "when 'hostIPC' is true"
    ]),
    ("spec", {**POD["spec"], "hostUsers": False, "hostIPC": True},
     ["spec.HostIPC: Forbidden: when `hostUsers` is false"]),
    ("metadata/annotations", {MIRROR: "x"}, [
        f'metadata.annotations[{MIRROR}]: Invalid value: "x": must set spec.nodeName if mirror pod '
        "annotation is set"
    ]),
    ("metadata/annotations", {SECCOMP: "odd"},
     [f'metadata.annotations.{SECCOMP}: Invalid value: "odd": must be a valid seccomp profile']),
    ("metadata/annotations", {TOLERATIONS: '[{"Key": "a", "Operator": "x"}]'}, [
        f"metadata.annotations.{TOLERATIONS}[0].operator: Unsupported "
        'value: "x": supported values: "Equal", "Exists"'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "messages"), CASES)
def test_rules(path, value, messages):
    """Each invalid field gives exactly its messages."""
    pod = defaulted(changed(POD, path, value))
    assert texts(strategy("pods").validate(pod)) == messages


VOLUME = "spec.volumes[0]"
VOLUMES = [
    ([{"name": "v", "gcePersistentDisk": {"pdName": ""}}],
     [f"{VOLUME}.persistentDisk.pdName: Required value"]),
    ([{"name": "v", "image": {}}], [f"{VOLUME}.image.reference: Required value"]),
    ([{"name": "v", "image": {"reference": "r", "pullPolicy": "x"}}], [
        f'{VOLUME}.image.pullPolicy: Unsupported value: "x": supported values: "Always", '
        '"IfNotPresent", "Never"'
    ]),
    ([{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}}},
      {"name": "claim", "persistentVolumeClaim": {"claimName": f"{POD['metadata']['name']}-v"}}], [
        f"spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "
        f'"{POD["metadata"]["name"]}-v": must not reference a PVC that gets created for an '
        "ephemeral volume"
    ]),
    ([{"name": "v", "hostPath": {"path": "/x", "type": "x"}}], [
        f'{VOLUME}.hostPath.type: Unsupported value: "x": supported values: "", "BlockDevice", '
        '"CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"'
    ]),
    ([{"name": "v", "projected": {"sources": [
        {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}},
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
    ]}}], [f'{VOLUME}.projected: Invalid value: "c": conflicting duplicate paths']),
    ([{"name": "v", "projected": {"sources": [{"podCertificate": {
        "signerName": "a.b/c", "keyType": "ED25519", "keyPath": "k",
        "userAnnotations": {"a.b/c": "d", "e": "f"},
    }}]}}], [
        f'{VOLUME}.projected.sources[0].podCertificate.userAnnotations: Invalid value: "e": must '
        'be a domain-prefixed key (such as "acme.io/foo")'
    ]),
    ([{"name": "v", "projected": {"sources": [{"podCertificate": {"signerName": "a.b/c"}}]}}], [
        f'{VOLUME}.projected.sources[0].podCertificate.keyType: Unsupported value: "": supported '
        'values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"',
        f"{VOLUME}.projected.sources[0].podCertificate: Required value: specify at least one of "
        "credentialBundlePath, keyPath, and certificateChainPath",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("volumes", "messages"), VOLUMES)
def test_volumes(volumes, messages):
    """Each invalid field of a volume gives exactly its messages, without a mount."""
    pod = changed(changed(POD, f"{C}/volumeMounts", []), f"{C}/volumeDevices", [])
    pod = defaulted(changed(pod, "spec/volumes", volumes))
    assert texts(strategy("pods").validate(pod)) == messages


EPHEMERAL = {"name": "e", "image": "i"}
DEBUG = "spec.ephemeralContainers"
CANNOT = "cannot be set for an Ephemeral Container"
ADDED = [  # old containers, new containers
    ([], [EPHEMERAL], []),
    ([], [{**EPHEMERAL, "name": NAME}], [f'{DEBUG}[0].name: Duplicate value: "{NAME}"']),
    ([], [{**EPHEMERAL, "targetContainerName": "x"}],
     [f'{DEBUG}[0].targetContainerName: Not found: "x"']),
    ([], [{**EPHEMERAL, "lifecycle": {}, "ports": [{"containerPort": 1}], "livenessProbe": {}}], [
        f"{DEBUG}[0].{field}: Forbidden: {CANNOT}"
        for field in ("ports", "livenessProbe", "lifecycle")
    ]),
    ([], [{**EPHEMERAL, "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "x"}]}],
     [f"{DEBUG}[0].volumeMounts[0].subPath: Forbidden: {CANNOT}"]),
    ([EPHEMERAL], [], [
        f'{DEBUG}: Forbidden: existing ephemeral containers "e" may not be removed\n'
    ]),
    ([EPHEMERAL], [{**EPHEMERAL, "image": "j"}], [
        f'{DEBUG}: Forbidden: existing ephemeral containers "e" may not be changed\n'
        "@@ -1,6 +1,6 @@\n"
        ' {\n  "Name": "e",\n- "Image": "i",\n+ "Image": "j",\n  "Command": null,\n'
        '  "Args": null,\n  "WorkingDir": "",\n'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("old_containers", "new_containers", "messages"), ADDED)
def test_ephemeral_containers(old_containers, new_containers, messages):
    """Ephemeral containers can be added, not changed or removed."""
    old = defaulted(changed(POD, "spec/ephemeralContainers", old_containers))
    new = defaulted(changed(POD, "spec/ephemeralContainers", new_containers))
    assert texts(strategy("pods/ephemeralcontainers").validate_update(new, old)) == messages
    mirror = changed(changed(old, "metadata/annotations", {MIRROR: "x"}), "spec/nodeName", "n")
    assert texts(strategy("pods/ephemeralcontainers").validate_update(mirror, mirror)) == [
        "[]: Forbidden: static pods do not support ephemeral containers"
    ]


ANNOTATIONS = [
    ({}, {ARMOR: "unconfined"},
     [f"metadata.annotations[{ARMOR}]: Forbidden: may not add AppArmor annotations"]),
    ({ARMOR: "unconfined"}, {ARMOR: "runtime/default"}, [
        f"metadata.annotations[{ARMOR}]: Forbidden: may not remove or update AppArmor annotations"
    ]),
    ({ARMOR: "unconfined"}, {},
     [f"metadata.annotations[{ARMOR}]: Forbidden: may not remove or update AppArmor annotations"]),
    ({}, {MIRROR: "x"},
     [f"metadata.annotations[{MIRROR}]: Forbidden: may not add mirror pod annotation"]),
    ({MIRROR: "x"}, {MIRROR: "y"}, [
        f"metadata.annotations[{MIRROR}]: Forbidden: may not remove or update mirror pod annotation"
    ]),
    ({}, {"a": "b"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("old_annotations", "new_annotations", "messages"), ANNOTATIONS)
def test_immutable_annotations(old_annotations, new_annotations, messages):
    """AppArmor and mirror annotations are immutable."""
    pod = defaulted(changed(POD, "spec/nodeName", "n"))
    old = changed(pod, "metadata/annotations", old_annotations)
    new = changed(pod, "metadata/annotations", new_annotations)
    assert texts(strategy("pods").validate_update(new, old)) == messages


def test_profiles_match():
    """Profiles in annotations and in fields must match."""
    pod = changed(POD, "metadata/annotations", {ARMOR: "localhost/p", SECCOMP: "runtime/default"})
    pod = changed(pod, "spec/securityContext", {
        "seccompProfile": {"type": "Unconfined"},
        "appArmorProfile": {"type": "Localhost", "localhostProfile": "q"},
    })  # fmt: skip
    assert texts(strategy("pods").validate(defaulted(pod))) == [
        "spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field "
        "must match",
        f"{AT}.securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in "
        "annotation and field must match",
    ]


def test_grace_of_old_pods():
    """A negative grace period may become 1 second."""
    old = defaulted(POD)
    old["spec"]["terminationGracePeriodSeconds"] = -1
    new = changed(old, "spec/terminationGracePeriodSeconds", 1)
    assert texts(strategy("pods").validate_update(new, old)) == []
    (message,) = texts(strategy("pods").validate_update(changed(new, f"{C}/command", ["x"]), old))
    assert message.startswith("spec: Forbidden: pod updates may not change fields other than")
    init = {**old["spec"]["containers"][0], "name": "i"}
    with_init_container = changed(old, "spec/initContainers", [init])
    assert texts(strategy("pods").validate_update(with_init_container, old)) == [
        "spec.initContainers: Forbidden: pod updates may not add or remove containers"
    ]

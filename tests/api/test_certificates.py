"""The certificates group: signing requests, bundles of trusted certificates, requests of pods."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from tests.api.test_columns import cells
from tests.objects import GONE, changed, defaulted, strategy, texts

KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])


def _request():
    made = x509.CertificateSigningRequestBuilder().subject_name(NAME).sign(KEY, hashes.SHA256())
    return made.public_bytes(Encoding.PEM).decode()


def _certificate(*, ca):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder(
        issuer_name=NAME,
        subject_name=NAME,
        public_key=KEY.public_key(),
        serial_number=1,
        not_valid_before=start,
        not_valid_after=start + timedelta(days=1),
    ).add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    return made.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def _encoded(text):
    return base64.b64encode(text.encode()).decode()


AUTHORITY, LEAF = _certificate(ca=True), _certificate(ca=False)
REQUEST = {
    "kind": "CertificateSigningRequest",
    "apiVersion": "certificates.k8s.io/v1",
    "metadata": {"name": "r"},
    "spec": {
        "request": _encoded(_request()),
        "signerName": "example.com/signer",
        "usages": ["client auth"],
        "username": "me",
    },
    "status": {},
}
BUNDLE = {
    "kind": "ClusterTrustBundle",
    "apiVersion": "certificates.k8s.io/v1",
    "metadata": {"name": "example.com:signer:b"},
    "spec": {"signerName": "example.com/signer", "trustBundle": AUTHORITY},
}
POD = defaulted(
    {
        "kind": "PodCertificateRequest",
        "apiVersion": "certificates.k8s.io/v1",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "signerName": "example.com/signer",
            "podName": "p", "podUID": "1",
            "serviceAccountName": "s", "serviceAccountUID": "2",
            "nodeName": "n", "nodeUID": "3",
            "stubPKCS10Request": "",
        },
        "status": {},
    }
)  # fmt: skip
APPROVED = {
    "type": "Approved",
    "status": "True",
    "reason": "Because",
    "lastUpdateTime": None,
    "lastTransitionTime": None,
}
DENIED = {**APPROVED, "type": "Denied"}

NEW = [
    ("certificatesigningrequests", REQUEST, "", GONE, []),
    ("certificatesigningrequests", REQUEST, "spec/request", "", [
        'spec.request: Invalid value: "": PEM block type must be CERTIFICATE REQUEST'
    ]),
    ("certificatesigningrequests", REQUEST, "spec/usages", [], ["spec.usages: Required value"]),
    ("certificatesigningrequests", REQUEST, "spec/usages", ["any", "any"], [
        'spec.usages[1]: Duplicate value: "any"'
    ]),
    ("certificatesigningrequests", REQUEST, "spec/signerName", "x", [
        'spec.signerName: Invalid value: "x": must be a fully qualified domain and path of the '
        "form 'example.com/signer-name'"
    ]),
    ("certificatesigningrequests", REQUEST, "spec/signerName", "x/y", [
        'spec.signerName: Invalid value: "x": should be a domain with at least two segments '
        "separated by dots"
    ]),
    ("certificatesigningrequests", REQUEST, "spec/signerName", "kubernetes.io/legacy-unknown", [
        'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName '
        "is not allowed via this API version"
    ]),
    ("certificatesigningrequests", REQUEST, "spec/expirationSeconds", 599, [
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 "
        "seconds (10 minutes)"
    ]),
    ("clustertrustbundles", BUNDLE, "", GONE, []),
    ("clustertrustbundles", BUNDLE, "spec/trustBundle", "", [
        'spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be '
        "provided"
    ]),
    ("clustertrustbundles", BUNDLE, "spec/trustBundle", AUTHORITY + LEAF, [
        'spec.trustBundle: Invalid value: "<value omitted>": entry 1 does not have the CA bit set'
    ]),
    ("clustertrustbundles", BUNDLE, "spec/trustBundle", AUTHORITY * 2, [
        'spec.trustBundle: Invalid value: "<value omitted>": duplicate trust anchor '
        "(indices [0 1])"
    ]),
    ("clustertrustbundles", BUNDLE, "metadata/name", "b", [
        'metadata.name: Invalid value: "b": ClusterTrustBundle for signerName '
        "example.com/signer must be named with prefix example.com:signer:"
    ]),
    ("podcertificaterequests", POD, "", GONE, []),
    ("podcertificaterequests", POD, "spec/podUID", "", [
        'spec.podUID: Invalid value: "": must not be empty'
    ]),
    ("podcertificaterequests", POD, "spec/maxExpirationSeconds", 60, [
        "spec.maxExpirationSeconds: Invalid value: 60: must be in the range [3600, 7862400]"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), NEW)
def test_new(name, base, path, value, messages):
    """Each kind keeps to its rules."""
    assert texts(strategy(name).validate(changed(base, path, value))) == messages


def _updated(name, new, old):
    found = strategy(name)
    found.prepare_for_update(new, old)
    return texts(found.validate_update(new, old))


def test_only_metadata_changes():
    """An update of a request leaves what was asked for and what was decided."""
    new = changed(changed(REQUEST, "spec/usages", ["any"]), "status/conditions", [APPROVED])
    assert _updated("certificatesigningrequests", new, REQUEST) == []
    assert (new["spec"], new["status"]) == (REQUEST["spec"], REQUEST["status"])


def test_decisions():
    """A decision is made by way of approval, once, and one only."""
    name = "certificatesigningrequests/approval"
    new = changed(REQUEST, "status", {"conditions": [APPROVED], "certificate": "AA=="})
    assert _updated(name, new, REQUEST) == []
    assert new["status"] == {"conditions": [APPROVED]}
    both = changed(REQUEST, "status/conditions", [APPROVED, DENIED])
    assert _updated(name, both, REQUEST) == [
        'status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually '
        "exclusive"
    ]
    assert _updated(name, changed(REQUEST), new) == [
        'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
    ]


def test_signers_do_not_decide():
    """The status is the signer's, the decision is not."""
    name = "certificatesigningrequests/status"
    new = changed(REQUEST, "status/conditions", [APPROVED])
    assert _updated(name, new, REQUEST) == [
        'status.conditions: Forbidden: updates may not add a condition of type "Approved"'
    ]
    signed = changed(REQUEST, "status/certificate", _encoded(LEAF))
    assert _updated(name, signed, new) == []
    assert signed["status"]["conditions"] == [APPROVED]
    again = changed(signed, "status/certificate", _encoded(AUTHORITY))
    assert _updated(name, again, signed) == [
        "status.certificate: Forbidden: updates may not modify existing certificate content"
    ]


def test_certificates_are_certificates():
    """A signer answers with certificates."""
    new = changed(REQUEST, "status/certificate", _encoded(_request()))
    assert _updated("certificatesigningrequests/status", new, REQUEST) == [
        'status.certificate: Invalid value: "<certificate data>": only CERTIFICATE PEM blocks are '
        'allowed, found "CERTIFICATE REQUEST"'
    ]


def test_states_of_pods():
    """A pod's request ends in one of three ways."""
    name = "podcertificaterequests/status"
    decided = {**DENIED, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    denied = changed(POD, "status/conditions", [decided])
    assert _updated(name, denied, POD) == []
    odd = changed(POD, "status/conditions", [{**decided, "type": "Approved"}])
    assert _updated(name, odd, POD) == [
        'status.conditions[0].type: Unsupported value: "Approved": supported values: "Denied", '
        '"Failed", "Issued"'
    ]
    (after,) = _updated(name, changed(POD), denied)
    assert after.endswith("immutable after PodCertificateRequest is issued, denied, or failed")


def test_cells():
    """Who signs, who asked, what was decided."""
    obj = changed(REQUEST, "status", {"conditions": [APPROVED], "certificate": "AA=="})
    found = cells("certificatesigningrequests", obj)
    assert list(found.values())[2:] == ["example.com/signer", "me", "<none>", "Approved,Issued"]
    assert cells("podcertificaterequests", POD)["State"] == "Pending"

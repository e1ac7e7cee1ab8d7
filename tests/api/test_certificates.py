"""The certificates group: signing requests and trust bundles."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from kapiserver.api.certificates import pem
from tests.api.test_columns import cells
from tests.objects import GONE, changed, strategy, write_errors

KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])


def _request():
    request = x509.CertificateSigningRequestBuilder().subject_name(NAME).sign(KEY, hashes.SHA256())
    return request.public_bytes(Encoding.PEM).decode()


def _certificate(*, ca):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(
        issuer_name=NAME,
        subject_name=NAME,
        public_key=KEY.public_key(),
        serial_number=1,
        not_valid_before=start,
        not_valid_after=start + timedelta(days=1),
    ).add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


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
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), NEW)
def test_new(name, base, path, value, messages):
    """New objects of each kind are validated."""
    assert write_errors(name, changed(base, path, value)) == messages


def _updated(name, new, old):
    kind_strategy = strategy(name)
    kind_strategy.prepare_for_update(new, old)
    return write_errors(name, new, old)


def test_only_metadata_changes():
    """An update of a signing request changes its metadata only."""
    new = changed(changed(REQUEST, "spec/usages", ["any"]), "status/conditions", [APPROVED])
    assert _updated("certificatesigningrequests", new, REQUEST) == []
    assert (new["spec"], new["status"]) == (REQUEST["spec"], REQUEST["status"])


def test_decisions():
    """A request is approved or denied once, through /approval."""
    name = "certificatesigningrequests/approval"
    new = changed(REQUEST, "status", {"conditions": [APPROVED], "certificate": "AA=="})
    assert _updated(name, new, REQUEST) == []
    assert new["status"] == {"conditions": [APPROVED]}
    contradictory = changed(REQUEST, "status/conditions", [APPROVED, DENIED])
    assert _updated(name, contradictory, REQUEST) == [
        'status.conditions: Invalid value: "{conditions[{\\"type\\": \\"Approved\\"}], '
        'conditions[{\\"type\\": \\"Denied\\"}]}": must specify at most one of: '
        '`conditions[{"type": "Approved"}]`, `conditions[{"type": "Denied"}]`'
    ]
    assert (
        _updated(name, changed(contradictory, "status/conditions/0/reason", "Other"), contradictory)
        == []
    )
    assert _updated(name, changed(REQUEST), new) == [
        'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
    ]


def test_signers_do_not_decide():
    """Status updates of the signer cannot change decisions."""
    name = "certificatesigningrequests/status"
    new = changed(REQUEST, "status/conditions", [APPROVED])
    assert _updated(name, new, REQUEST) == [
        'status.conditions: Forbidden: updates may not add a condition of type "Approved"'
    ]
    signed = changed(new, "status/certificate", _encoded(LEAF))
    signed["status"]["conditions"][0]["reason"] = "Other"
    assert _updated(name, signed, new) == []
    assert signed["status"]["conditions"] == [APPROVED]
    undecided = changed(REQUEST, "status/certificate", _encoded(LEAF))
    assert _updated(name, undecided, new) == [
        'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
    ]
    reissued = changed(signed, "status/certificate", _encoded(AUTHORITY))
    assert _updated(name, reissued, signed) == [
        "status.certificate: Forbidden: updates may not modify existing certificate content"
    ]


def test_certificates_are_certificates():
    """The issued certificate must be a PEM certificate."""
    new = changed(REQUEST, "status/certificate", _encoded(_request()))
    assert _updated("certificatesigningrequests/status", new, REQUEST) == [
        'status.certificate: Invalid value: "<certificate data>": only CERTIFICATE PEM blocks are '
        'allowed, found "CERTIFICATE REQUEST"'
    ]


LEGACY = "kubernetes.io/legacy-unknown"
KEPT = [
    ("spec/signerName", LEGACY, []),
    ("spec/usages", ["any", "any"], []),
    ("spec/usages", ["odd"], []),
    ("spec/usages", [], ["spec.usages: Required value"]),
    ("spec/expirationSeconds", 1, [
        "spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 600 "
        "seconds (10 minutes)"
    ]),
    ("status/conditions", [APPROVED, DENIED], []),
    ("status/conditions", [{**APPROVED, "type": ""}], []),
    ("status/conditions", [{**APPROVED, "type": "Odd"}] * 2, []),
    ("status/certificate", "AA==", []),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "messages"), KEPT)
def test_stored_errors_are_tolerated(path, value, messages):
    """An update may keep fields that are invalid under newer rules."""
    old = changed(REQUEST, path, value)
    for name in ("", "/status", "/approval"):
        errors = _updated(f"certificatesigningrequests{name}", changed(old), old)
        assert errors == messages, name


def test_invalid_stored_certificates():
    """An invalid stored certificate does not block updates, but it cannot be replaced."""
    old = changed(REQUEST, "status/certificate", "AA==")
    new = changed(REQUEST, "status/certificate", _encoded(LEAF))
    assert _updated("certificatesigningrequests/status", new, old) == [
        "status.certificate: Forbidden: updates may not modify existing certificate content"
    ]


def test_failures_are_final():
    """A Failed condition cannot be removed."""
    old = changed(REQUEST, "status/conditions", [{**APPROVED, "type": "Failed"}])
    assert _updated("certificatesigningrequests/status", changed(REQUEST), old) == [
        'status.conditions: Forbidden: updates may not remove a condition of type "Failed"'
    ]


def test_certificates_of_unknown_versions():
    """A certificate with an unknown X.509 version is reported as invalid."""
    (block,) = pem.parse_blocks(AUTHORITY)
    content = block.content.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x09", 1)
    lines = base64.encodebytes(content).decode()
    text = f"-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n"
    new = changed(BUNDLE, "spec/trustBundle", text)
    assert write_errors("clustertrustbundles", new) == [
        'spec.trustBundle: Invalid value: "<value omitted>": entry 0 does not parse as X.509'
    ]


def test_cells():
    """Columns show the signer, the requesting user and the decision."""
    obj = changed(REQUEST, "status", {"conditions": [APPROVED], "certificate": "AA=="})
    row = cells("certificatesigningrequests", obj)
    assert list(row.values())[2:] == ["example.com/signer", "me", "<none>", "Approved,Issued"]

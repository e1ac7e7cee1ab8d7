"""Validation of pod certificate requests and of issued certificates."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.api.test_columns import cells
from tests.objects import GONE, changed, defaulted, strategy, texts

KEY = ec.generate_private_key(ec.SECP256R1())
EMPTY_NAME = x509.Name([])
START = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = rsa.generate_private_key(65537, 2048)


def _text(content):
    return base64.b64encode(content).decode()


def _stub(key):
    request = x509.CertificateSigningRequestBuilder().subject_name(EMPTY_NAME)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return request.sign(key, algorithm).public_bytes(Encoding.DER)


def _pkix(key):
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _leaf(key=KEY, *, hours=24, names=()):
    builder = x509.CertificateBuilder(
        issuer_name=EMPTY_NAME,
        subject_name=EMPTY_NAME,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=START,
        not_valid_after=START + timedelta(hours=hours),
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


STUB = _stub(KEY)
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
            "stubPKCS10Request": _text(STUB),
        },
        "status": {},
    }
)  # fmt: skip
ONE_OF = (
    "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, "
    "proofOfPossession) must be set"
)
NOT_SIGNED = "could not verify proof-of-possession signature"
NOT_A_KEY = "must be a valid PKIX-serialized public key"
BIG = _text(b"x" * 10241)

NEW = [
    ("", GONE, []),
    ("spec/podUID", "", ['spec.podUID: Invalid value: "": must not be empty']),
    ("spec/nodeUID", "x" * 129, ["spec.nodeUID: Too long: may not be more than 128 bytes"]),
    ("spec/maxExpirationSeconds", 60, [
        "spec.maxExpirationSeconds: Invalid value: 60: must be in the range [3600, 7862400]"
    ]),
    ("spec/unverifiedUserAnnotations", {"Example.com/A": "b"}, []),
    ("spec/unverifiedUserAnnotations", {"a": "b"}, [
        'spec.unverifiedUserAnnotations: Invalid value: "a": must be a domain-prefixed key (such '
        'as "acme.io/foo")'
    ]),
    ("spec/unverifiedUserAnnotations", {"example.com/a": "x" * (1 << 18)}, [
        "spec.unverifiedUserAnnotations: Too long: may not be more than 262144 bytes"
    ]),
    ("spec/stubPKCS10Request", "", [ONE_OF]),
    ("spec/pkixPublicKey", "AA==", [ONE_OF]),
    ("spec/stubPKCS10Request", BIG, [
        "spec.stubPKCS10Request: Too long: may not be more than 10240 bytes"
    ]),
    ("spec/pkixPublicKey", BIG, ["spec.pkixPublicKey: Too long: may not be more than 10240 bytes"]),
    ("spec/stubPKCS10Request", "AA==", [
        "spec.stubPKCS10Request: Invalid value: must be a valid PKCS#10 CSR"
    ]),
    ("spec/stubPKCS10Request", _text(STUB[:-8] + bytes(8)), [
        f"spec.stubPKCS10Request: Invalid value: {NOT_SIGNED}"
    ]),
    ("spec/stubPKCS10Request", _text(_stub(SMALL)), [
        'spec.stubPKCS10Request: Invalid value: "2048-bit modulus": RSA keys must have modulus '
        "size 3072 or 4096"
    ]),
    ("spec/stubPKCS10Request", _text(_stub(ed25519.Ed25519PrivateKey.generate())), []),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "messages"), NEW)
def test_new(path, value, messages):
    """Names, UIDs and keys of new requests are validated."""
    errors = strategy("podcertificaterequests").validate(changed(POD, path, value))
    assert texts(errors) == messages


def _proof(key, uid=b"1"):
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(uid)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(uid, ec.ECDSA(hashes.SHA256()))
    salted = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
    return key.sign(uid, salted, hashes.SHA256())


def _shown(text, detail):
    return [f'spec.pkixPublicKey: Invalid value: "{text}": {detail}']


UNKNOWN = x25519.X25519PrivateKey.generate()
P224, K256 = (ec.generate_private_key(curve) for curve in (ec.SECP224R1(), ec.SECP256K1()))
CURVES = "elliptic public keys must use curve P256 or P384"
KINDS = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
PAIRS = [
    (ed25519.Ed25519PrivateKey.generate(), []),
    (KEY, []),
    (rsa.generate_private_key(65537, 3072), []),
    (SMALL, _shown("2048-bit modulus", "RSA keys must have modulus size 3072 or 4096")),
    (P224, _shown("curve P-224", CURVES)),
    (K256, _shown(_text(_pkix(K256)), NOT_A_KEY)),
]


@pytest.mark.parametrize(("key", "messages"), PAIRS)
def test_public_keys_and_proofs(key, messages):
    """In v1beta1, a request may have a public key and a proof of possession."""
    spec = {"pkixPublicKey": _text(_pkix(key)), "proofOfPossession": _text(_proof(key))}
    new = changed(POD, "spec", {**POD["spec"], **spec, "stubPKCS10Request": ""})
    rules = strategy("podcertificaterequests")
    assert texts(rules.validate(new)) == messages
    if not messages:
        new["spec"]["proofOfPossession"] = _text(_proof(key, b"2"))
        assert texts(rules.validate(new)) == [
            f"spec.proofOfPossession: Invalid value: {NOT_SIGNED}"
        ]


def test_unsupported_keys():
    """Keys that cannot sign are rejected."""
    spec = {"pkixPublicKey": _text(_pkix(UNKNOWN)), "proofOfPossession": "AA=="}
    new = changed(POD, "spec", {**POD["spec"], **spec, "stubPKCS10Request": ""})
    messages = texts(strategy("podcertificaterequests").validate(new))
    assert messages == _shown(spec["pkixPublicKey"], KINDS)


CONDITION = {
    "status": "True",
    "reason": "Because",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
DENIED, ISSUED, FAILED = ({**CONDITION, "type": type_} for type_ in ("Denied", "Issued", "Failed"))


def _time(hours):
    return f"{START + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}"


def _issued(chain=None, **fields):
    status = {
        "conditions": [ISSUED],
        "certificateChain": _leaf() if chain is None else chain,
        "notBefore": _time(0), "beginRefreshAt": _time(12), "notAfter": _time(24),
        **fields,
    }  # fmt: skip
    return {name: value for name, value in status.items() if value is not GONE}


def _errors(new, old):
    rules = strategy("podcertificaterequests/status")
    new, old = (changed(POD, "status", status) for status in (new, old))
    rules.prepare_for_update(new, old)
    return texts(rules.validate_update(new, old))


def _wrong(chain, detail):
    quoted_chain = chain.replace("\n", "\\n")
    return (_issued(chain), [f'status.certificateChain: Invalid value: "{quoted_chain}": {detail}'])


KEY_BLOCK = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
NO_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
PRESENT = "must be present and consistent with the issued certificate"
NANOSECONDS = 1800 * 10**9
ENDS = [
    ({"conditions": [DENIED]}, []),
    ({"conditions": [FAILED]}, []),
    (_issued(), []),
    (_issued(_leaf() * 2), []),
    ({"conditions": [{**DENIED, "type": "Approved"}]}, [
        'status.conditions.[0].type: Unsupported value: "Approved": supported values: "Issued", '
        '"Denied", "Failed"'
    ]),
    ({"conditions": [{**DENIED, "status": "False"}]}, [
        'status.conditions.[0].status: Unsupported value: "False": supported values: "True"'
    ]),
    ({"conditions": [DENIED, FAILED]}, [
        'status.conditions.[1].type: Invalid value: "Failed": There may be at most one condition '
        'with type "Issued", "Denied", or "Failed"'
    ]),
    (_issued(conditions=[DENIED]), [
        "status: Invalid value: non-condition status fields must be empty when denying or failing "
        "the PodCertificateRequest"
    ]),
    (_issued(conditions=GONE), [
        'status: Invalid value: status is immutable unless transitioning to "Issued", "Denied", '
        'or "Failed"'
    ]),
    (_issued("x" * 102401), [
        "status.certificateChain: Too long: may not be more than 102400 bytes"
    ]),
    _wrong("", "issued certificate chain must contain at least one certificate"),
    _wrong(
        KEY_BLOCK, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
    ),
    _wrong(NO_CERTIFICATE, "leaf certificate does not parse as valid X.509"),
    _wrong(
        _leaf() + KEY_BLOCK,
        "issued certificate chain must consist entirely of CERTFICATE PEM blocks",
    ),
    _wrong(_leaf() + NO_CERTIFICATE, "intermediate certificate does not parse as valid X.509"),
    _wrong(_leaf(P224), "leaf certificate was not issued to the requested public key"),
    (_issued(_leaf(names=[x509.DNSName(".a..b"), x509.RFC822Name("a b@c")])), [
        "status.certificateChain: Invalid value: \".a..b\": leaf certificate's DNSName should not "
        "contain '..'",
        "status.certificateChain: Invalid value: \".a..b\": leaf certificate's DNSName should not "
        "start or end with '.'",
        'status.certificateChain: Invalid value: "a b@c": leaf certificate should not contain '
        "invalid EmailAddress",
    ]),
    (_issued(_leaf(names=[x509.DNSName("a.b"), x509.RFC822Name("a@b.c")])), []),
    (_issued(notBefore=GONE, beginRefreshAt=GONE, notAfter=GONE), [
        f"status.notBefore: Required value: {PRESENT}",
        f"status.notAfter: Required value: {PRESENT}",
        "status.beginRefreshAt: Required value: must be present and in the range "
        "[notbefore+10min, notafter-10min]",
    ]),
    (_issued(notBefore=_time(1)), [
        'status.notBefore: Invalid value: "2026-01-01T01:00:00Z": must be set to the NotBefore '
        "time encoded in the leaf certificate"
    ]),
    (_issued(notAfter=_time(1)), [
        'status.notAfter: Invalid value: "2026-01-01T01:00:00Z": must be set to the NotAfter time '
        "encoded in the leaf certificate"
    ]),
    (_issued(_leaf(hours=0.5), notAfter=_time(0.5)), [
        f"status.certificateChain: Invalid value: {NANOSECONDS}: leaf certificate lifetime must "
        "be >= 1 hour"
    ]),
    (_issued(_leaf(hours=25), notAfter=_time(25)), [
        f"status.certificateChain: Invalid value: {50 * NANOSECONDS}: leaf certificate lifetime "
        "must be <= spec.maxExpirationSeconds (86400)"
    ]),
    (_issued(beginRefreshAt=_time(0)), [
        'status.beginRefreshAt: Invalid value: "2026-01-01T00:00:00Z": must be at least 10 minutes '
        "after status.notBefore"
    ]),
    (_issued(beginRefreshAt=_time(24)), [
        'status.beginRefreshAt: Invalid value: "2026-01-02T00:00:00Z": must be at least 10 minutes '
        "before status.notAfter"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("status", "messages"), ENDS)
def test_final_states(status, messages):
    """A request is issued, denied or failed, and the certificate must match the request."""
    assert _errors(status, {}) == messages


def test_final_states_are_immutable():
    """A final status is immutable."""
    denied = {"conditions": [DENIED]}
    assert _errors(denied, denied) == []
    for status in ({}, _issued()):
        assert _errors(status, denied) == [
            "status: Invalid value: immutable after PodCertificateRequest is issued, denied, or "
            "failed"
        ]


def test_immutable_spec():
    """The spec is immutable."""
    new = changed(POD, "spec/podUID", "4")
    (errors,) = strategy("podcertificaterequests").validate_update(new, POD)
    assert (str(errors.path), errors.detail) == ("spec", "field is immutable")


def test_cells():
    """A new request is Pending."""
    assert cells("podcertificaterequests", POD)["State"] == "Pending"

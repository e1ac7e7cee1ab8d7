"""Creation, reuse and renewal of certificates."""

import contextlib
import shutil
import ssl
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving import kubeconfig
from kapiserver.apiserver.serving.tls import credentials as tls
from kapiserver.apiserver.serving.tls.settings import NamedPair

NOW = datetime.now(UTC)
FILES = ("ca.crt", "ca.key", "apiserver.crt", "apiserver.key", "admin.crt", "admin.key")


def _contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def test_reused(tmp_path: Path) -> None:
    """Valid files are reused unchanged; keys are readable by their owner alone."""
    tls.ensure_certificates(Config(), tmp_path)
    before = _contents(tmp_path)
    tls.ensure_certificates(Config(), tmp_path)
    assert _contents(tmp_path) == before
    for name in FILES:
        if name.endswith(".key"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("when", [NOW, NOW - timedelta(days=tls.CA_DAYS)], ids=["new", "expired"])
def test_servers_that_start_at_once(when: datetime, tmp_path: Path) -> None:
    """Servers that start at once in a folder share a CA, which signed the certificates."""
    if when < NOW:
        tls.ensure_certificates(Config(), tmp_path, now=when)
    barrier = threading.Barrier(4)

    def start(_: int) -> bytes:
        barrier.wait(30)
        credentials = tls.ensure_certificates(Config(), tmp_path)
        credentials.server_context()
        return credentials.ca.read_bytes()

    with ThreadPoolExecutor(4) as threads:
        cas = set(threads.map(start, range(4)))
    (ca,) = map(x509.load_pem_x509_certificate, cas)
    for name in ("apiserver.crt", "admin.crt"):
        certificate = x509.load_pem_x509_certificate((tmp_path / name).read_bytes())
        certificate.verify_directly_issued_by(ca)


def test_renewed(tmp_path: Path) -> None:
    """A certificate about to expire is renewed under the same CA."""
    tls.ensure_certificates(Config(), tmp_path, now=NOW - timedelta(days=tls.LEAF_DAYS - 1))
    before = _contents(tmp_path)
    tls.ensure_certificates(Config(), tmp_path)
    after = _contents(tmp_path)
    changed = {name for name in FILES if before[name] != after[name]}
    assert changed == {"apiserver.crt", "apiserver.key", "admin.crt", "admin.key"}


def test_expired_ca(tmp_path: Path) -> None:
    """An expired CA is replaced with all its certificates."""
    tls.ensure_certificates(Config(), tmp_path, now=NOW - timedelta(days=tls.CA_DAYS))
    before = _contents(tmp_path)
    tls.ensure_certificates(Config(), tmp_path)
    assert all(_contents(tmp_path)[name] != before[name] for name in FILES)


def test_names(tmp_path: Path) -> None:
    """The server certificate contains all names, and is renewed for another address."""
    certificates = tls.ensure_certificates(Config(), tmp_path)
    names = _names(certificates.serving.certificate)
    assert {"localhost", "kubernetes.default.svc", "127.0.0.1", "::1", "10.0.0.1"} <= names
    tls.ensure_certificates(Config.of(bind_address="10.1.2.3"), tmp_path)
    assert "10.1.2.3" in _names(certificates.serving.certificate)
    more = ("api.example.com", "192.0.2.1", "*.example.com", f"{'a' * 63}.{'b' * 63}.{'c' * 63}")
    config = Config.of(tls_san=more)
    tls.ensure_certificates(config, tmp_path)
    assert set(more) <= _names(certificates.serving.certificate)
    first = certificates.serving.certificate.read_bytes()
    tls.ensure_certificates(config, tmp_path)
    assert certificates.serving.certificate.read_bytes() == first


@pytest.mark.parametrize("algorithm", ["rsa:2048", "ec -pkeyopt ec_paramgen_curve:prime256v1"])
def test_given_ca(algorithm: str, tmp_path: Path) -> None:
    """The server's certificate follows a CA that somebody put into the folder, whose subject key
    identifier is not the one that cryptography computes."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = (
        f"openssl req -x509 -newkey {algorithm} -nodes -days 60 -subj /CN=ca "
        "-addext subjectKeyIdentifier=0102030405060708 -addext authorityKeyIdentifier=none "
        f"-keyout {tmp_path}/ca.key -out {tmp_path}/ca.crt"
    )
    subprocess.run(made.split(), check=True, capture_output=True)
    certificates = tls.ensure_certificates(Config(), tmp_path)
    for pair in (certificates.serving, certificates.admin):
        verify = ["openssl", "verify", "-CAfile", certificates.ca, pair.certificate]
        subprocess.run(verify, check=True, capture_output=True)


def test_ca_of_another_algorithm(tmp_path: Path) -> None:
    """A CA whose key the server cannot sign with is an error that names the file."""
    tls.ensure_certificates(Config(), tmp_path)
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "ca.key").write_bytes(pem)
    (tmp_path / "apiserver.crt").unlink()
    with pytest.raises(ValueError, match=r"ca\.key is neither an RSA nor an ECDSA key"):
        tls.ensure_certificates(Config(), tmp_path)


def _names(path: Path) -> set[str]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def test_contexts(tmp_path: Path) -> None:
    """The certificates load into TLS contexts of server and client."""
    certificates = tls.ensure_certificates(Config(), tmp_path)
    assert certificates.server_context().verify_mode is ssl.CERT_OPTIONAL
    client = ssl.create_default_context(cafile=str(certificates.ca))
    client.load_cert_chain(certificates.admin.certificate, certificates.admin.key)


def test_ciphers(tmp_path: Path) -> None:
    """Every cipher suite of TLS 1.2 has forward secrecy and authenticated encryption."""
    ciphers = tls.ensure_certificates(Config(), tmp_path).server_context().get_ciphers()
    offered = [cipher["name"] for cipher in ciphers if cipher["protocol"] != "TLSv1.3"]
    assert offered
    for name in offered:
        assert name.startswith(("ECDHE-ECDSA-", "ECDHE-RSA-"))
        assert "-GCM-" in name or "-CHACHA20-" in name


def test_format_of_keys(tmp_path: Path) -> None:
    """Keys have the form that client-go writes (SEC 1); fabric8's client reads no other form of
    an EC key in a kubeconfig."""
    credentials = tls.ensure_certificates(Config(), tmp_path)
    for pair in (credentials.serving, credentials.admin):
        assert pair.key.read_text().startswith("-----BEGIN EC PRIVATE KEY-----\n")


def test_kubeconfig(tmp_path: Path) -> None:
    """The kubeconfig is readable by its owner alone and never replaces a file of the user."""
    certificates = tls.ensure_certificates(Config(), tmp_path)
    path = tmp_path / "sub" / "kubeconfig"
    for _ in range(2):
        kubeconfig.write_kubeconfig(path, url="https://127.0.0.1:1", credentials=certificates)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(kubeconfig.ForeignKubeconfig):
        kubeconfig.write_kubeconfig(path, url="https://127.0.0.1:1", credentials=certificates)


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("http2", [False, True])
def test_protocols(tmp_path: Path, http2: bool, is_named: bool) -> None:
    """Clients that offer HTTP/2 get it if it is on, also with the certificate of a name."""
    certificates = tls.ensure_certificates(Config(), tmp_path)
    if is_named:
        named = NamedPair(pair=certificates.serving, names=("localhost",))
        certificates = msgspec.structs.replace(certificates, named=(named,))
    client = ssl.create_default_context(cafile=str(certificates.ca))
    client.set_alpn_protocols(["http/1.1", "h2"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = certificates.server_context(http2=http2).wrap_bio(
        incoming, outgoing, server_side=True
    )
    client_side = client.wrap_bio(outgoing, incoming, server_hostname="localhost")
    for side in (client_side, server_side, client_side, server_side):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert server_side.selected_alpn_protocol() == ("h2" if http2 else "http/1.1")

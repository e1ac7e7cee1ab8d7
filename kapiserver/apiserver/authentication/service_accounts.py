"""Tokens of service accounts: JSON Web Tokens that this server signs, and believes while what they
are bound to lives.

Keys and the JWT library load when the first token is signed or seen. Mirrors pkg/serviceaccount of
kube-apiserver.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kapiserver.api.accessors import is_terminating, name_of, namespace_of, uid_of, value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.user import (
    SERVICE_ACCOUNT_PREFIX,
    User,
    service_account_user,
)
from kapiserver.apiserver.config import Config
from kapiserver.storage.clock import Clock
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound

if TYPE_CHECKING:
    from kapiserver.storage.store_registry import StoreRegistry

KEY_FILE = "sa.key"
_PRIVATE = "kubernetes.io"
_EXTRA = "authentication.kubernetes.io"
_BOUND = (("pod", "pods"), ("secret", "secrets"), ("node", "nodes"))
_GONE_SECONDS = 60
"""How long a token outlives the deletion of what it is bound to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A public key of the issuer, as tokens and JWKS name it; `private` signs."""

    id: str
    algorithm: str
    public: Any
    private: Any = None


class ServiceAccountTokens:
    """Signs tokens and tells whose they are."""

    def __init__(self, config: Config, stores: StoreRegistry, clock: Clock) -> None:
        self._config = config
        self._stores = stores
        self._clock = clock

    @property
    def issuer(self) -> str:
        """Who signs."""
        return self._config.service_account_issuer[0]

    @property
    def audiences(self) -> tuple[str, ...]:
        """For whom tokens must be meant that this server believes."""
        return self._config.api_audiences or self._config.service_account_issuer

    @functools.cached_property
    def keys(self) -> tuple[Key, ...]:
        """All keys whose signature is believed, the one that signs first. Raises OSError,
        ValueError for a file that is no good."""
        config = self._config
        signing = config.service_account_signing_key_file
        if signing is None and config.cert_dir is not None and not config.service_account_key_file:
            signing = config.cert_dir / KEY_FILE
            if not signing.exists():
                _write_key(signing)
        own = _key(_new_key()) if signing is None else _key_in(signing)
        found = [own, *map(_key_in, config.service_account_key_file)]
        return tuple({key.id: key for key in reversed(found)}.values())[::-1]

    def sign(
        self,
        account: Tree,
        bound: Sequence[tuple[str, Tree]],
        audiences: Sequence[str],
        seconds: int,
    ) -> str:
        """A token of an account; `bound` names the objects it ends with: ("pod", tree), ..."""
        import jwt

        now = int(self._clock.now())
        private: Tree = {"namespace": namespace_of(account)}
        for what, tree in sorted(bound, key=lambda one: one[0]):
            private[what] = {"name": name_of(tree), "uid": uid_of(tree)}
        private["serviceaccount"] = {"name": name_of(account), "uid": uid_of(account)}
        claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            _PRIVATE: dict(sorted(private.items())),
            "nbf": now,
            "sub": f"{SERVICE_ACCOUNT_PREFIX}{namespace_of(account)}:{name_of(account)}",
        }
        key = self.keys[0]
        # Without `typ`, as kube-apiserver's signer leaves it out.
        headers = {"alg": key.algorithm, "kid": key.id, "typ": None}
        return jwt.encode(claims, key.private, algorithm=key.algorithm, headers=headers)

    async def user_of(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        """Whose a token is; None for one that is not ours, is over or not meant for `audiences`
        (none: this server)."""
        claims = self._claims(token, audiences or self.audiences)
        if claims is None:
            return None
        private = claims.get(_PRIVATE)
        namespace, account = value_at(claims, _PRIVATE, "namespace"), None
        if isinstance(private, dict) and isinstance(namespace, str):
            account = private.get("serviceaccount")
        if not isinstance(private, dict) or not isinstance(account, dict):
            return None
        name, uid = str(account.get("name")), str(account.get("uid"))
        if claims.get("sub") != f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}":
            return None
        if not await self._lives("serviceaccounts", ObjectKey(namespace, name), uid):
            return None
        extra: dict[str, tuple[str, ...]] = {
            f"{_EXTRA}/credential-id": (f"JTI={claims.get('jti')}",)
        }
        for what, resource in _BOUND:
            reference = private.get(what)
            if not isinstance(reference, dict):
                continue
            name_, uid_ = str(reference.get("name")), str(reference.get("uid"))
            key = ObjectKey("" if what == "node" else namespace, name_)
            # A node beside a pod is only named.
            alone = what != "node" or "pod" not in private
            if alone and not await self._lives(resource, key, uid_):
                return None
            if what != "secret":
                extra[f"{_EXTRA}/{what}-name"] = (name_,)
                extra[f"{_EXTRA}/{what}-uid"] = (uid_,)
        return service_account_user(namespace, name, uid=uid, extra=extra)

    def _claims(self, token: str, audiences: Sequence[str]) -> dict[str, Any] | None:
        if token.count(".") != 2:
            return None
        import jwt

        options: Any = {
            "verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_sub": False,
            "verify_jti": False,
        }  # fmt: skip
        for key in self.keys:
            with contextlib.suppress(jwt.PyJWTError):
                claims = jwt.decode(
                    token,
                    key.public,
                    algorithms=[key.algorithm],
                    audience=list(audiences),
                    issuer=list(self._config.service_account_issuer),
                    options=options,
                )
                now = self._clock.now()  # the server's, which tests move
                exp, nbf = claims.get("exp"), claims.get("nbf", 0)
                if not isinstance(exp, int | float) or not isinstance(nbf, int | float):
                    return None
                return claims if nbf - 60 <= now <= exp + 60 else None
        return None

    async def _lives(self, resource: str, key: ObjectKey, uid: str) -> bool:
        store = self._stores.by_name(CORE, resource)
        try:
            tree = (await store.get(key, resource_version="0")).tree()
            if uid_of(tree) != uid:
                raise NotFound(resource=resource, group="", name=key.name)
        except NotFound:  # perhaps only the cache is behind
            try:
                tree = (await store.get(key)).tree()
            except NotFound:
                return False
        if uid_of(tree) != uid:
            return False
        return not is_terminating(tree) or self._clock.now() < _ends(tree) + _GONE_SECONDS


def _ends(tree: Tree) -> float:
    from datetime import datetime

    return datetime.fromisoformat(tree["metadata"]["deletionTimestamp"]).timestamp()


def _new_key() -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_key(path: Path) -> None:
    from kapiserver.apiserver.private_files import write_private

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, _new_key())


_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


def _key_in(path: Path) -> Key:
    try:
        return _key(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} holds no key: {error}") from error


def _key(data: bytes) -> Key:
    """A key out of PEM: private, public or a certificate. Raises ValueError."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    private: Any = None
    public: Any
    if b"PRIVATE KEY" in data:
        private = serialization.load_pem_private_key(data, None)
        public = private.public_key()
    elif b"CERTIFICATE" in data:
        public = x509.load_pem_x509_certificate(data).public_key()
    else:
        public = serialization.load_pem_public_key(data)
    if isinstance(public, rsa.RSAPublicKey):
        algorithm = "RS256"
    elif isinstance(public, ec.EllipticCurvePublicKey) and public.curve.name in _CURVES:
        algorithm = _CURVES[public.curve.name]
    else:
        raise ValueError("service account keys are RSA or ECDSA ones")
    der = public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    digest = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
    return Key(id=digest, algorithm=algorithm, public=public, private=private)

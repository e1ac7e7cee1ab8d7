"""authentication.k8s.io/v1: reviews of tokens and identities, and requests for tokens."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import StringList, Time
from kapiserver.api.types import Kind, Type, field, int64


class AttestationValue(StringList):
    """The values of one statement that a token makes about its bearer."""


class BoundObjectReference(Type):
    """The object whose lifetime a token is bound to."""

    kind: str = field(1, doc="Kind of the object: Pod, Secret or Node.")
    apiVersion: str = field(2, doc="API version of the object; v1 for all allowed kinds.")
    name: str = field(
        3,
        doc="Name of the object. A Pod or Secret must be in the namespace of the service account.",
    )
    uid: str = field(
        4,
        proto="uID",
        doc="metadata.uid of the object. If set, it must be that of the existing object.",
    )


class ExtraValue(StringList):
    """The values of one extra attribute of a user."""


class SelfSubjectReview(Kind):
    """The identity of the user who creates it. The answer is in status."""

    listed = False

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    status: SelfSubjectReviewStatus = field(2, doc="The user's identity. Set by the server.")


class SelfSubjectReviewStatus(Type):
    """The identity of the requesting user."""

    userInfo: UserInfo = field(
        1,
        doc=(
            "Name, uid, groups and extra attributes of the user who made the request, after "
            "impersonation."
        ),
    )


class TokenRequest(Kind):
    """Requests a token for a service account. POST it to the token subresource of the
    ServiceAccount."""

    listed = False

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. Name and namespace default to those of the service "
            "account."
        ),
    )
    spec: TokenRequestSpec = field(2, doc="Audiences, lifetime and binding of the token.")
    status: TokenRequestStatus = field(3, doc="The token and its expiry. Set by the server.")


class TokenRequestSpec(Type):
    """The audiences, lifetime and binding of a requested token."""

    audiences: list[str] = field(
        1,
        always=True,
        doc=(
            "Recipients that the token is for. A recipient must reject tokens for other "
            "audiences. Empty means the audiences of the API server."
        ),
    )
    expirationSeconds: int64 | None = field(
        4,
        always=True,
        doc=(
            "Lifetime of the token in seconds, from 600 to 2^32. Defaults to 3600. The server may "
            "shorten it: see status."
        ),
    )
    boundObjectRef: BoundObjectReference | None = field(
        3,
        always=True,
        doc=(
            "Object that the token is bound to: the token is invalid once the object is deleted. "
            "Unset binds it to the service account only."
        ),
    )
    attestations: dict[str, AttestationValue] = field(
        5, doc="Further statements about the bearer to put into the token, by name."
    )


class TokenRequestStatus(Type):
    """The token that the server made."""

    token: str = field(1, always=True, doc="The signed token, a JWT. Send it as a bearer token.")
    expirationTimestamp: Time = field(
        2, doc="When the token expires. The server may choose another time than requested."
    )


class TokenReview(Kind):
    """Checks a bearer token and returns the user it belongs to. The answer is in status."""

    listed = False

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: TokenReviewSpec = field(
        2, required=True, doc="The token and the audiences to check it for."
    )
    status: TokenReviewStatus = field(
        3, doc="Whether the token is valid and whose it is. Set by the server."
    )


class TokenReviewSpec(Type):
    """The token to check and the audiences that it must be for."""

    token: str = field(1, required=True, doc="The bearer token to check, without the word Bearer.")
    audiences: list[str] = field(
        2,
        doc=(
            "Audiences of which the token must be valid for at least one. Empty means the "
            "audiences of the API server."
        ),
    )


class TokenReviewStatus(Type):
    """The result of checking a token."""

    authenticated: bool = field(1, doc="True if the token is valid and belongs to a known user.")
    user: UserInfo = field(2, doc="The user that the token belongs to; empty if it is not valid.")
    audiences: list[str] = field(
        4,
        doc=(
            "Audiences of the request that the token is valid for. Recipients must check that "
            "they are among them; empty if the token is not valid."
        ),
    )
    error: str = field(
        3, doc="Why the token could not be checked, for people. Empty if there was no error."
    )


class UserInfo(Type):
    """A user as the authenticator identified it."""

    username: str = field(
        1,
        doc=(
            "Name that identifies the user among all current users, such as "
            "system:serviceaccount:default:web."
        ),
    )
    uid: str = field(
        2,
        doc=(
            "Identifier of the user over time: a later user of the same name has another uid. May "
            "be empty."
        ),
    )
    groups: list[str] = field(
        3, doc="Names of the groups that the user is in, such as system:authenticated."
    )
    extra: dict[str, ExtraValue] = field(
        4, doc="Further attributes that the authenticator knows about the user, by name."
    )

"""authentication.k8s.io/v1: who a token or a caller is."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import StringList, Time
from kapiserver.api.types import Kind, Type, field, int64


class AttestationValue(StringList):
    """The values of one statement about a token's bearer."""


class BoundObjectReference(Type):
    """The object with which a token goes."""

    kind: str = field(1, doc="The kind of the object.")
    apiVersion: str = field(2, doc="Group and version of the object.")
    name: str = field(3, doc="Its name.")
    uid: str = field(4, proto="uID", doc="Its uid.")


class ExtraValue(StringList):
    """The values of one further attribute of a user."""


class SelfSubjectReview(Kind):
    """Who the caller is."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    status: SelfSubjectReviewStatus = field(2, doc="The answer.")


class SelfSubjectReviewStatus(Type):
    """The caller as the server sees it."""

    userInfo: UserInfo = field(1, doc="Who it is.")


class TokenRequest(Kind):
    """Asks for a token of a service account."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: TokenRequestSpec = field(2, doc="The desired state.")
    status: TokenRequestStatus = field(3, doc="The observed state.")


class TokenRequestSpec(Type):
    """For whom, how long and bound to what."""

    audiences: list[str] = field(1, always=True, doc="For whom the token is meant.")
    expirationSeconds: int64 | None = field(4, always=True, doc="How long it shall be good.")
    boundObjectRef: BoundObjectReference | None = field(
        3, always=True, doc="The object whose end is the token's."
    )
    attestations: dict[str, AttestationValue] = field(
        5, doc="Claims that the token makes beside others."
    )


class TokenRequestStatus(Type):
    """The token and its end."""

    token: str = field(1, always=True, doc="The token.")
    expirationTimestamp: Time = field(2, doc="Until when it is good.")


class TokenReview(Kind):
    """Asks whose a token is."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: TokenReviewSpec = field(2, required=True, doc="What is asked.")
    status: TokenReviewStatus = field(3, doc="The answer.")


class TokenReviewSpec(Type):
    """The token, and for whom it must be meant."""

    token: str = field(1, required=True, doc="The bearer token.")
    audiences: list[str] = field(2, doc="For whom it must be meant.")


class TokenReviewStatus(Type):
    """Whose the token is, or why nobody's."""

    authenticated: bool = field(1, doc="Whether the token is good.")
    user: UserInfo = field(2, doc="Whose it is.")
    audiences: list[str] = field(4, doc="Whom it is for.")
    error: str = field(3, doc="Why it could not be checked.")


class UserInfo(Type):
    """A user as authenticators tell it."""

    username: str = field(1, doc="The name.")
    uid: str = field(2, doc="Tells apart those who had the name one after the other.")
    groups: list[str] = field(3, doc="The groups it is in.")
    extra: dict[str, ExtraValue] = field(4, doc="Whatever else is known.")

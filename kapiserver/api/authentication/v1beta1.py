"""authentication.k8s.io/v1beta1: who a token or a caller is."""

from __future__ import annotations

from kapiserver.api.authentication import v1
from kapiserver.api.leaves import StringList
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field


class ExtraValue(StringList):
    """The values of one further attribute of a user."""


class SelfSubjectReview(Kind):
    """Who the caller is."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    status: SelfSubjectReviewStatus = field(2, doc="The answer.")


class SelfSubjectReviewStatus(Type):
    """The caller as the server sees it."""

    userInfo: v1.UserInfo = field(1)


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
    audiences: list[str] = field(4)
    error: str = field(3, doc="Why it could not be checked.")


class UserInfo(Type):
    """A user as authenticators tell it."""

    username: str = field(1, doc="The name.")
    uid: str = field(2, doc="Tells apart those who had the name one after the other.")
    groups: list[str] = field(3, doc="The groups it is in.")
    extra: dict[str, ExtraValue] = field(4, doc="Whatever else is known.")

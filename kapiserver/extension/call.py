"""Call: what a function of a subresource or of a call knows about the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from kapiserver.api.resource_client import Client
    from kapiserver.apiserver.user import User


class Call(Struct, frozen=True, kw_only=True):
    """One request.

    user        who sent it; the server has authorized it
    client      reads and writes the resources of this server as that user, without authorization
    namespace   "" for resources of the cluster
    name        the name of the object; "" if the request has none
    method      such as POST
    query       the parameters; each has a list of values
    body        what the client sent, for subresources
    """

    user: User
    client: Client
    namespace: str = ""
    name: str = ""
    method: str = "POST"
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: bytes = b""

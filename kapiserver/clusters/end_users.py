"""The users of a logical cluster that come from its own identity providers.

`spec.authentication.jwt` of a Cluster has the field `jwt` of an AuthenticationConfiguration: the
issuers whose tokens count in this cluster, and how their claims become a user. No other cluster
knows these users, unless its Cluster names the same issuer and audience. While the field is invalid
it names nobody; the condition UsersConfigured of the Cluster says why.
"""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.clusters.cluster_kind import ClusterRecord


def authentication_configuration(record: ClusterRecord, own_issuer: str) -> Tree | None:
    """Return the AuthenticationConfiguration of a cluster; None if it has no users of its own.
    `own_issuer` is that of the tokens of its service accounts. Raises BadConfiguration."""
    if not record.issuers:
        return None
    # Imported late: most clusters have no issuer.
    from kapiserver.apiserver.authentication.jwt.settings import configuration_of_issuers

    return configuration_of_issuers(record.issuers, [own_issuer])


def problem_of_issuers(record: ClusterRecord, own_issuer: str) -> str:
    """Return what is wrong with the issuers of a cluster; "" if nothing is."""
    try:
        authentication_configuration(record, own_issuer)
    except BadConfiguration as error:
        return f"spec.authentication: {error}"
    return ""

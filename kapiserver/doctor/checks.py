"""All checks, in the order in which they run.

To add a check: write a function that yields problems of an Installation or of a RemoteServer, in
the module of its subject, and add a row here.
"""

from __future__ import annotations

from kapiserver.doctor import (
    certificates,
    configuration,
    extensions,
    machine,
    server_health,
)
from kapiserver.doctor.finding import Check
from kapiserver.doctor.stores import etcd, postgresql, postgresql_tables, sqlite

INSTALLATION_CHECKS = (
    Check(
        name="settings",
        text="whether the server would start with its flags and the files that they name",
        run=configuration.unusable_settings,
    ),
    Check(
        name="ports",
        text="whether the server can listen on its ports",
        run=configuration.unusable_ports,
    ),
    Check(
        name="unsafe-settings",
        text="flags that let everybody in or lose data",
        run=configuration.unsafe_settings,
    ),
    Check(
        name="file-rights",
        text="who may read keys, tokens and the store, and who may replace them",
        run=machine.open_rights,
    ),
    Check(
        name="certificate-expiry",
        text="the dates of certificate files",
        run=certificates.expiring_certificates,
    ),
    Check(
        name="certificate-keys",
        text="whether keys belong to their certificates",
        run=certificates.wrong_keys,
    ),
    Check(
        name="certificate-names",
        text="whether the serving certificate is for the server's address",
        run=certificates.missing_names,
    ),
    Check(name="clock", text="whether a time service sets the clock", run=machine.unset_clock),
    Check(name="open-files", text="the limit of open files", run=machine.few_open_files),
    Check(name="memory", text="the limit of memory", run=machine.little_memory),
    Check(name="disk", text="the free space of the disk", run=machine.little_disk_space),
    Check(
        name="sqlite-damage",
        text="damage to the SQLite file",
        run=sqlite.damaged_store,
    ),
    Check(
        name="sqlite-size",
        text="the size of the SQLite file and its free pages",
        run=sqlite.large_store,
    ),
    Check(
        name="sqlite-history",
        text="resources of the SQLite file that change all the time",
        run=sqlite.changed_often,
    ),
    Check(
        name="etcd-members",
        text="whether the members of etcd answer, and their alarms",
        run=etcd.failing_members,
    ),
    Check(name="etcd-version", text="the releases of etcd", run=etcd.old_members),
    Check(name="etcd-quota", text="the quota of etcd", run=etcd.full_members),
    Check(
        name="etcd-fragmentation",
        text="free space in etcd's database",
        run=etcd.fragmented_members,
    ),
    Check(
        name="postgresql-server",
        text="whether PostgreSQL answers, accepts writes and delivers notifications",
        run=postgresql.failing_server,
    ),
    Check(
        name="postgresql-version",
        text="the release of PostgreSQL",
        run=postgresql.old_server,
    ),
    Check(
        name="postgresql-schema",
        text="the layout of the tables in PostgreSQL, and rights to them that are missing",
        run=postgresql.unusable_schema,
    ),
    Check(
        name="postgresql-rights",
        text="rights to PostgreSQL that the role does not need, and tables that everybody may read",
        run=postgresql.open_rights,
    ),
    Check(
        name="postgresql-settings",
        text="settings of PostgreSQL that lose data, and encryption of the connection",
        run=postgresql.unsafe_server,
    ),
    Check(
        name="postgresql-connections",
        text="the limits of connections to PostgreSQL",
        run=postgresql.few_connections,
    ),
    Check(
        name="postgresql-clock",
        text="the difference between PostgreSQL's clock and this machine's",
        run=postgresql.different_clock,
    ),
    Check(
        name="postgresql-vacuum",
        text="dead rows and bloat of the tables in PostgreSQL",
        run=postgresql_tables.dead_rows,
    ),
    Check(
        name="postgresql-blockers",
        text="transactions and replication slots that keep PostgreSQL from removing old rows",
        run=postgresql_tables.vacuum_blockers,
    ),
    Check(
        name="postgresql-history",
        text="resources in PostgreSQL that change all the time",
        run=postgresql_tables.changed_often,
    ),
)
"""The checks of the server of this machine, which need no server that runs."""

SERVER_CHECKS = (
    Check(name="version", text="the release of the server", run=server_health.foreign_version),
    Check(name="health", text="the health checks of /readyz", run=server_health.failing_checks),
    Check(
        name="served-certificate",
        text="the dates of the certificate that the server shows",
        run=server_health.served_certificate,
    ),
    Check(
        name="client-certificate",
        text="the dates of the client certificate in the kubeconfig",
        run=server_health.client_certificate,
    ),
    Check(
        name="clock-skew",
        text="the difference between the server's clock and this machine's",
        run=server_health.different_clocks,
    ),
    Check(
        name="anonymous-rights",
        text="bindings that make everybody an administrator",
        run=server_health.anonymous_rights,
    ),
    Check(
        name="webhooks",
        text="whether webhooks of admission and conversion answer",
        run=extensions.silent_webhooks,
    ),
    Check(
        name="webhook-failures",
        text="calls of webhooks that have failed",
        run=extensions.failed_webhooks,
    ),
    Check(
        name="ca-bundles",
        text="the dates of the CAs of webhooks and APIServices",
        run=extensions.expiring_bundles,
    ),
    Check(
        name="api-services",
        text="APIServices that are down",
        run=extensions.unavailable_services,
    ),
    Check(
        name="definitions",
        text="the conditions of CustomResourceDefinitions, and versions in which objects are "
        "stored",
        run=extensions.bad_definitions,
    ),
    Check(
        name="deprecated-versions",
        text="requests for deprecated versions",
        run=server_health.deprecated_versions,
    ),
    Check(
        name="rejected-requests",
        text="requests that got 429",
        run=server_health.rejected_requests,
    ),
    Check(
        name="table-sizes",
        text="the number of objects of each resource",
        run=server_health.large_tables,
    ),
    Check(
        name="stuck-namespaces",
        text="namespaces whose deletion does not end",
        run=server_health.stuck_namespaces,
    ),
)
"""The checks of a server that answers, here or elsewhere."""

CONNECTION = "connection"
"""The name of the findings of a server that does not answer."""
GROWTH = "growth"
"""The name of the findings of tables that have grown since an earlier report."""

"""A second Secret is created only together with the first.

Percona's MongoDB operator (K8SPSMDB-578, reported with Sieve) looked for one TLS Secret and, if it
was missing, created two. After a crash between both writes the first Secret exists, and the second
is never created.
"""

from tests.explore.operators.kube import SECRETS, Operator, child, is_deleting, main


class TlsSecrets(Operator):
    watched = (SECRETS,)

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        secrets = [f"{name}-tls", f"{name}-internal-tls"]
        checked = secrets if self.repaired else secrets[:1]
        existing = self.caches[SECRETS].objects
        if all(secret in existing for secret in checked):
            return
        for secret in secrets:
            await self.client.create_if_missing(SECRETS, child(database, secret))


if __name__ == "__main__":
    main(TlsSecrets)

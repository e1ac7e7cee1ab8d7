"""A refused request is sent again at once, for as long as it is refused.

Hot loops on errors have overloaded API servers in many incidents: kubelets and controllers that
repeat a request that cannot succeed, thousands of times a second. Here the same body, with the
same resourceVersion, is sent again after a conflict, so that no attempt can succeed.
"""

from tests.explore.operators.kube import DATABASES, ApiError, Operator, is_deleting, main


class Retry(Operator):
    async def reconcile(self, name: str) -> None:
        database = await self.client.get_or_none(DATABASES, name)
        if database is None or is_deleting(database):
            return
        wanted = database["spec"]["storage"]
        annotations = database["metadata"].setdefault("annotations", {})
        if annotations.get("example.com/allocated") == wanted:
            return
        annotations["example.com/allocated"] = wanted
        while True:
            try:
                await self.client.update(DATABASES, database)
                return
            except ApiError as error:
                if self.repaired or error.code != 409:
                    raise


if __name__ == "__main__":
    main(Retry)

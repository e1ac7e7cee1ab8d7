"""A label that is removed from the object stays at its child.

Acto's largest class of faults: what is added downstream is not removed any more, such as the
tolerations of MongoDB's operator (issue 204 of Acto's list). A merge only adds and changes. The
corrected twin remembers which labels it has set, and removes those that are no longer wanted.
"""

from tests.explore.operators.kube import CONFIG_MAPS, Operator, child, is_deleting, main

APPLIED = "example.com/applied-labels"


class Labels(Operator):
    watched = (CONFIG_MAPS,)

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        wanted = database.get("spec", {}).get("labels") or {}
        stored = await self.client.get_or_none(CONFIG_MAPS, f"{name}-members")
        if stored is None:
            stored = await self.client.create(CONFIG_MAPS, child(database, f"{name}-members"))
        metadata = stored["metadata"]
        applied = filter(None, metadata.get("annotations", {}).get(APPLIED, "").split(","))
        removed = {key: None for key in applied if key not in wanted} if self.repaired else {}
        labels = metadata.get("labels", {})
        if removed or wanted.items() - labels.items():
            patch = {"labels": removed | wanted}
            if self.repaired:
                patch["annotations"] = {APPLIED: ",".join(sorted(wanted)) or None}
            await self.client.patch(CONFIG_MAPS, f"{name}-members", {"metadata": patch})


if __name__ == "__main__":
    main(Labels)

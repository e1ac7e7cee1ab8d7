"""What the types of the batch group declare of their fields."""

from __future__ import annotations

from kapiserver.api.declarations import Declared, needed

CRON_JOB = Declared(
    fields={"spec": Declared(fields={"schedule": Declared(first=(needed,))})},
)

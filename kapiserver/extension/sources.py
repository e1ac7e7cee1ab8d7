"""Virtual resources: objects that are somewhere else, in a database or behind another API.

    class Customers(ObjectSource[Customer]):
        async def list(self) -> list[Customer]:
            return [customer_of(row) for row in self._database.execute("SELECT ...")]

    customers = Resource(Customer, group="example.com", source=Customers())

A source says which objects there are now. The server makes the rest of that: single objects, pages,
selectors, tables, resource versions and watches. The methods that a source overrides decide which
verbs the resource has.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Generic

from kapiserver.extension.objects import AnyObject


class ObjectSource(Generic[AnyObject]):
    """The objects of a virtual resource.

    The server adds a uid, a creationTimestamp and a generation to an object that has none, and
    keeps finalizers and managedFields that clients set in memory. Labels and annotations are those
    of the source.

    poll_seconds    how long after a change watches see it at the latest, if `changes` is not there
    max_age_seconds for how long reads need not call `list` again; 0: each read sees the newest
    """

    poll_seconds = 5.0
    max_age_seconds = 0.0

    async def list(self) -> Iterable[AnyObject]:
        """Return all objects of all namespaces. Reads get 503 while it raises an error."""
        raise NotImplementedError

    async def changes(self) -> AsyncIterator[None]:
        """Yield whenever objects may have changed; then the server calls `list`. Without this
        method it does so every `poll_seconds`, once somebody has read the resource."""
        raise NotImplementedError
        yield

    async def create(self, new: AnyObject) -> None:
        """Create an object, which is valid. What is changed in it shows at the next read. An error
        of `kapiserver.apiserver.errors` refuses it."""
        raise NotImplementedError

    async def update(self, new: AnyObject, old: AnyObject) -> None:
        """Update an object, which is valid and based on the newest one."""
        raise NotImplementedError

    async def delete(self, old: AnyObject) -> None:
        """Delete an object."""
        raise NotImplementedError

    def has(self, method: str) -> bool:
        """Report whether the subclass overrides a method."""
        return getattr(type(self), method) is not getattr(ObjectSource, method)

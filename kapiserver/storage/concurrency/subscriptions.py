"""Subscriptions: what `subscribe` returns, and the handlers that are subscribed.

Several parts deliver something to handlers that they do not know: a watch cache its events, an
informer the changes of objects, the definitions of custom resources their names. Each has a method
`subscribe(...) -> Subscription`, and most keep the handlers in `Subscribers`. So nobody appends to
a list of another object, and every subscription ends in the same way. Used on one event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Self, TypeVar

Handler = TypeVar("Handler")


class Subscription:
    """The deliveries to one handler, until `cancel` or the end of a `with` block."""

    __slots__ = ()

    def cancel(self) -> None:
        """Stop the deliveries: the handler is not called again. Idempotent."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.cancel()


class Subscribers(Generic[Handler]):
    """The handlers that are subscribed, in the order of their subscriptions.

    Handlers may subscribe and cancel while a loop over the handlers calls them: the loop leaves out
    those that are cancelled, and those that are added take part in the next loop.
    """

    __slots__ = ("_handlers",)

    def __init__(self) -> None:
        self._handlers: dict[Subscription, Handler] = {}

    def subscribe(self, handler: Handler) -> Subscription:
        """Add a handler until its subscription is cancelled."""
        subscription = _SubscriptionOf(self._handlers)
        self._handlers[subscription] = handler
        return subscription

    def __len__(self) -> int:
        return len(self._handlers)

    def __iter__(self) -> Iterator[Handler]:
        for subscription, handler in tuple(self._handlers.items()):
            if subscription in self._handlers:
                yield handler


class _SubscriptionOf(Subscription, Generic[Handler]):
    """The subscription of one of the handlers."""

    __slots__ = ("_handlers",)

    def __init__(self, handlers: dict[Subscription, Handler]) -> None:
        self._handlers = handlers

    def cancel(self) -> None:
        self._handlers.pop(self, None)

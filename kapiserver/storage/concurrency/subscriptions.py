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
        """Stop the deliveries. Idempotent."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.cancel()


class Subscribers(Generic[Handler]):
    """The handlers that are subscribed, in the order of their subscriptions.

    Handlers may subscribe and cancel while a loop over the handlers calls them. The loop calls
    those that were subscribed when it began: a handler that another one cancels may be called once
    more.
    """

    __slots__ = ("_by_subscription", "_handlers")

    def __init__(self) -> None:
        self._by_subscription: dict[Subscription, Handler] = {}
        self._handlers: tuple[Handler, ...] = ()
        """The handlers; copied at each change, because every write loops over them."""

    def subscribe(self, handler: Handler) -> Subscription:
        """Add a handler until its subscription is cancelled."""
        subscription = _SubscriptionOf(self)
        self._by_subscription[subscription] = handler
        self._handlers = tuple(self._by_subscription.values())
        return subscription

    def remove(self, subscription: Subscription) -> None:
        """Remove the handler of a subscription; called by `Subscription.cancel`. Idempotent."""
        self._by_subscription.pop(subscription, None)
        self._handlers = tuple(self._by_subscription.values())

    def __len__(self) -> int:
        return len(self._handlers)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers)


class _SubscriptionOf(Subscription, Generic[Handler]):
    """The subscription of one of the handlers."""

    __slots__ = ("_subscribers",)

    def __init__(self, subscribers: Subscribers[Handler]) -> None:
        self._subscribers = subscribers

    def cancel(self) -> None:
        self._subscribers.remove(self)

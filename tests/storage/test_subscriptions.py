"""Subscriptions: handlers are called in order, until their subscription is cancelled."""

from __future__ import annotations

from collections.abc import Callable

from kapiserver.storage.concurrency.subscriptions import Subscribers, Subscription


def call_all(subscribers: Subscribers[Callable[[], None]]) -> None:
    for handler in subscribers:
        handler()


def test_order_and_end() -> None:
    """Handlers are called in the order of their subscriptions; each subscription ends alone, also
    one of a handler that is subscribed twice. To cancel again changes nothing."""
    calls: list[str] = []
    subscribers = Subscribers[Callable[[], None]]()

    def first() -> None:
        calls.append("first")

    earlier = subscribers.subscribe(first)
    with subscribers.subscribe(lambda: calls.append("second")):
        subscribers.subscribe(first)
        call_all(subscribers)
        assert len(subscribers) == 3
    earlier.cancel()
    earlier.cancel()
    call_all(subscribers)
    assert calls == ["first", "second", "first", "first"]


def test_changes_during_a_loop() -> None:
    """A loop calls the handlers that were subscribed when it began: no handler is left out because
    another one was cancelled, and one that is added is called in the next loop."""
    calls: list[str] = []
    subscribers = Subscribers[Callable[[], None]]()
    subscriptions: list[Subscription] = []

    def change() -> None:
        calls.append("change")
        for subscription in subscriptions[:2]:
            subscription.cancel()
        subscribers.subscribe(lambda: calls.append("added"))

    handlers = (change, lambda: calls.append("cancelled"), lambda: calls.append("kept"))
    subscriptions.extend(map(subscribers.subscribe, handlers))
    call_all(subscribers)
    assert calls == ["change", "cancelled", "kept"]
    call_all(subscribers)
    assert calls == ["change", "cancelled", "kept", "kept", "added"]

"""Shuffle sharding: which queues of a priority level a flow may use.

Each flow gets a hand of a few queues, dealt by its hash as cards are from a deck. A flow that
floods its queues fills the whole hand of another one only if all cards of the hands are equal,
which is rare. Mirrors util/shufflesharding of k8s.io/apiserver, so that every server deals the same
hands.
"""

from __future__ import annotations

import hashlib


def hash_flow(schema: str, distinguisher: str) -> int:
    """Return the hash of a flow, 64 bits, by the name of its schema and its distinguisher."""
    digest = hashlib.sha256(f"{schema}\0{distinguisher}".encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest()[:8], "little")


def deal(value: int, deck_size: int, hand_size: int) -> tuple[int, ...]:
    """Return the hand of a hash value: different cards between 0 and the size of the deck. The
    hand must not be larger than the deck."""
    hand: list[int] = []
    for dealt in range(hand_size):
        value, card = divmod(value, deck_size - dealt)
        # The remainder counts the cards that are left: step over the smaller ones that are gone.
        for taken in sorted(hand):
            if card >= taken:
                card += 1
        hand.append(card)
    return tuple(hand)

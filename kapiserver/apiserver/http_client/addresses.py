"""The IP addresses of hosts, and the guard that refuses those that a client must not connect to.

A client that connects to addresses which users write into objects could be made to reach what only
the server can reach: its own loopback interface, or the metadata service of a cloud at a link-local
address. The guard judges the addresses that a name resolves to, and the client connects to just
these, so that a second answer of the name server cannot get around it. The guard of pods, services
and extension API servers is `is_global_unicast`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from kapiserver.api.addresses import Address, address_of
from kapiserver.apiserver.http_client.errors import AddressNotAllowed, UnknownHost

MAX_LOOKUPS = 16
"""Names that one client looks up at the same time."""

Guard: TypeAlias = Callable[[Address], bool]
"""Reports whether a client may connect to an address."""

_BROADCAST = ipaddress.IPv4Address("255.255.255.255")


def is_global_unicast(address: Address) -> bool:
    """Report what IsGlobalUnicast of Go's net.IP does: private addresses are global, loopback,
    link-local, multicast and unspecified ones are not."""
    mapped = getattr(address, "ipv4_mapped", None)
    plain: Address = mapped or address
    return not (
        plain.is_loopback
        or plain.is_link_local
        or plain.is_multicast
        or plain.is_unspecified
        or plain == _BROADCAST
    )


def check_address(text: str, guard: Guard) -> str:
    """Return an IP address in its canonical form. Raises AddressNotAllowed if the text is none, or
    the guard does not allow it."""
    address = address_of(text)
    if address is None or not guard(address):
        raise AddressNotAllowed("address not allowed")
    return str(address)


class Resolver:
    """Looks up names in threads of its own, so that a slow lookup delays no other work of the
    server's threads."""

    def __init__(self, guard: Guard | None = None) -> None:
        self._guard = guard
        self._lookups: ThreadPoolExecutor | None = None

    async def addresses(self, host: str) -> Sequence[str]:
        """Return the IP addresses of a host, which may be an address itself. Raises UnknownHost,
        and AddressNotAllowed if the guard refuses any."""
        addresses = [host] if _is_address(host) else await self._look_up(host)
        if self._guard is not None:
            for address in addresses:
                check_address(address, self._guard)
        return addresses

    def close(self) -> None:
        """End the threads. Idempotent; another lookup starts them again."""
        if self._lookups is not None:
            self._lookups.shutdown(wait=False, cancel_futures=True)
            self._lookups = None

    async def _look_up(self, host: str) -> list[str]:
        if self._lookups is None:
            self._lookups = ThreadPoolExecutor(MAX_LOOKUPS, thread_name_prefix="lookup")
        look_up = functools.partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        loop = asyncio.get_running_loop()
        try:
            addresses = await loop.run_in_executor(self._lookups, look_up)
        except (socket.gaierror, UnicodeError):
            raise UnknownHost(host) from None
        return list(dict.fromkeys(str(address[4][0]) for address in addresses))


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, ValueError):
            socket.inet_pton(family, host)
            return True
    return False

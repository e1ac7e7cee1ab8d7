"""The metrics of what a server loads again: configuration files, and the keys of token issuers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kapiserver.apiserver.identity import server_id_hash
from kapiserver.apiserver.serving.metrics.text import Family
from kapiserver.metrics import Reloads


def reload_families(
    prefix: str,
    text: str,
    labels: Sequence[str],
    reloads: Mapping[tuple[str, ...], Reloads],
) -> Iterator[Family]:
    """Yield the families of the reloads of a kind of file, by the values of the labels."""
    server = server_id_hash()
    yield Family(
        name=f"{prefix}_automatic_reloads_total",
        type="counter",
        text=f"Reloads of {text}, by status.",
        labels=("status", *labels, "apiserver_id_hash"),
        series=[
            ((status, *names, server), count)
            for names, reload in reloads.items()
            for status, count in reload.counts.values.items()
        ],
    )
    yield Family(
        name=f"{prefix}_automatic_reload_last_timestamp_seconds",
        type="gauge",
        text=f"When a reload of {text} last ended so, in seconds since 1970.",
        labels=("status", *labels, "apiserver_id_hash"),
        series=[
            ((status, *names, server), seconds)
            for names, reload in reloads.items()
            for status, seconds in reload.times.values.items()
        ],
    )
    yield Family(
        name=f"{prefix}_last_config_info",
        type="gauge",
        text=f"The hash of {text} in force.",
        labels=(*labels, "apiserver_id_hash", "hash"),
        series=[
            ((*names, server, reload.hash), 1) for names, reload in reloads.items() if reload.hash
        ],
    )


def key_fetch_families(fetches: Mapping[str, Reloads]) -> Iterator[Family]:
    """Yield the families of the fetches of keys, by the hash of the issuer's URL."""
    prefix, server = "apiserver_authentication_jwt_authenticator_jwks_fetch", server_id_hash()
    yield Family(
        name=f"{prefix}_last_timestamp_seconds",
        type="gauge",
        text="When the keys of an issuer were last fetched with this result.",
        labels=("result", "jwt_issuer_hash", "apiserver_id_hash"),
        series=[
            ((result, issuer, server), seconds)
            for issuer, fetch in fetches.items()
            for result, seconds in fetch.times.values.items()
        ],
    )
    yield Family(
        name=f"{prefix}_last_key_set_info",
        type="gauge",
        text="The hash of the keys of an issuer that were fetched last.",
        labels=("jwt_issuer_hash", "apiserver_id_hash", "hash"),
        series=[
            ((issuer, server, fetch.hash), 1) for issuer, fetch in fetches.items() if fetch.hash
        ],
    )

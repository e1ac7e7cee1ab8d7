"""Tests of the settings: sections, and settings by name."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from kapiserver.apiserver.config import SECTIONS, Config, StoreSettings
from kapiserver.apiserver.serving.process.workers import with_part_of_limits
from kapiserver.cli import parser
from kapiserver.storage.backends import BACKENDS, BackendSections, backend_flags
from kapiserver.storage.etcd.config import EtcdSettings


def test_each_setting_is_in_one_section() -> None:
    """No two sections have the same setting, and no section has the name of a setting, so that a
    name alone says which one is meant."""
    records = [getattr(Config(), section) for section in Config.__struct_fields__]
    count = Counter(name for record in records for name in record.__struct_fields__)
    assert count.keys() == SECTIONS.keys()
    assert set(count.values()) == {1}
    assert not count.keys() & set(Config.__struct_fields__)


def test_settings_by_name() -> None:
    """`Config.of` puts settings into their sections, those of backends included."""
    config = Config.of(storage="etcd:http://127.0.0.1:2379", event_ttl=60, etcd_username="root")
    assert config == Config(
        store=StoreSettings(storage="etcd:http://127.0.0.1:2379", event_ttl=60),
        etcd=EtcdSettings(etcd_username="root"),
    )
    assert isinstance(config, BackendSections)
    assert Config.of() == Config()


def test_replace() -> None:
    """`replace` changes the named settings, and leaves the others of their sections."""
    config = Config.of(storage="sqlite:x.db", event_ttl=60)
    changed = config.replace(event_ttl=5, workers=2)
    assert changed.settings() == config.settings() | {"event_ttl": 5, "workers": 2}
    assert config.store.event_ttl == 60
    assert replace(config, store=StoreSettings()) == Config()


@pytest.mark.parametrize("name", ["stroage", "store", "serving"])
def test_unknown_setting(name: str) -> None:
    """A name that is no setting is refused, with itself in the message."""
    with pytest.raises(TypeError, match=f"Config has no setting {name}"):
        Config.of(**{name: 1})


def test_each_flag_has_a_setting() -> None:
    """Each flag of `serve` that is no part of another setting has a setting of its name."""
    options = vars(parser().parse_args(["serve"]))
    composed = {"command", "data_dir", "etcd_servers", "rpc", "rpc_socket_dir", "rpc_storage"}
    of_one_value = {"audit_log_version", "audit_webhook_version", "storage_media_type"}
    of_one_value |= {"watch_cache", "watch_cache_sizes"}
    assert options.keys() - SECTIONS.keys() == composed | of_one_value | {"verbose"}
    assert SECTIONS.keys() - options.keys() == {"body_limit", "shutdown_timeout", "verbosity"}


def test_flags_of_backends() -> None:
    """Each setting of a backend has a flag, its section has the name of the backend, and the
    partner of a flag is a setting of the same backend."""
    assert backend_flags().keys() <= {backend.name for backend in BACKENDS}
    for backend, flags in backend_flags().items():
        settings = getattr(BackendSections(), backend).__struct_fields__
        assert tuple(flag.setting for flag in flags) == settings
        assert {flag.partner for flag in flags} <= {*settings, ""}


@pytest.mark.parametrize(
    ("workers", "limit", "parts"),
    [
        (1, 400, [400]),
        (4, 400, [100, 100, 100, 100]),
        (3, 400, [134, 133, 133]),
        (3, 2, [1, 1, 1]),
        (2, 0, [0, 0]),
    ],
)
def test_workers_divide_the_limits(workers: int, limit: int, parts: list[int]) -> None:
    """The limits of requests in flight are those of all workers; each has one request at least, and
    no limit stays none."""
    config = Config.of(workers=workers, max_requests_inflight=limit)
    divided = [with_part_of_limits(config, number).limits for number in range(workers)]
    assert [each.max_requests_inflight for each in divided] == parts
    config = Config.of(workers=workers, max_mutating_requests_inflight=limit)
    divided = [with_part_of_limits(config, number).limits for number in range(workers)]
    assert [each.max_mutating_requests_inflight for each in divided] == parts

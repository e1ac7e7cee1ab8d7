"""The audit log of one server: its policy and its backends."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from kapiserver.apiserver.audit.backend import AuditBackend, Encoder, Losses, Mode
from kapiserver.apiserver.audit.batches import BatchSettings
from kapiserver.apiserver.audit.event import AuditEvent, encode_event, legacy_line
from kapiserver.apiserver.audit.log_file import LogFile
from kapiserver.apiserver.audit.policy import AuditPolicy, read_policy
from kapiserver.apiserver.audit.truncation import truncating
from kapiserver.apiserver.audit.writer import AuditWriter
from kapiserver.apiserver.config import AuditSettings
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.metrics import Metrics
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.storage.concurrency.clock import Clock

_MEGABYTE = 1 << 20

_log = logging.getLogger(__name__)


class AuditLog(Struct, frozen=True, kw_only=True):
    """Decides what is recorded, and hands it to the backends."""

    policy: AuditPolicy
    backends: Sequence[AuditBackend]
    clock: Clock
    metrics: Metrics
    is_strict: bool
    """Whether a request fails if a backend loses the event of its receipt."""

    def start(self) -> None:
        """Begin to write. Raises OSError."""
        for backend in self.backends:
            backend.start()

    async def stop(self) -> None:
        """Write what is queued, if that does not take long."""
        await asyncio.gather(*(backend.stop() for backend in self.backends))

    def submit(
        self, event: AuditEvent, stage: str, omit: frozenset[str]
    ) -> Sequence[asyncio.Future[bool]]:
        """Hand the event of a stage to every backend, unless the policy omits that stage. Return
        the futures of those for which a request has to wait."""
        if stage in omit:
            return ()
        self.metrics.audit_levels.add(event.fields["level"])
        submitted = [backend.submit(event) for backend in self.backends]
        return [future for future in submitted if future is not None]


def make_audit_log(
    settings: AuditSettings, codecs: CodecFactory, clock: Clock, metrics: Metrics
) -> AuditLog | None:
    """Return the audit log of a configuration; None without policy or backend, which is logged if
    the other one is set. Raises BadConfiguration."""
    if settings.audit_policy_file is None:
        _log.warning(
            "no audit policy file (--audit-policy-file), no events will be recorded for %s",
            " and ".join(_configured_backends(settings)),
        )
        return None
    encode = functools.partial(encode_event, codecs=codecs)
    backends: list[AuditBackend] = []
    if settings.audit_log_path:
        backends.append(_log_backend(settings, encode, clock, metrics))
    if settings.audit_webhook_config_file is not None:
        file = settings.audit_webhook_config_file
        backends.append(_webhook_backend(settings, file, encode, clock, metrics))
    policy = read_policy(settings.audit_policy_file)
    if not backends:
        _log.warning(
            "no audit backend (--audit-log-path, --audit-webhook-config-file), no events will be "
            "recorded"
        )
        return None
    modes = (
        settings.audit_log_path and settings.audit_log_mode,
        settings.audit_webhook_config_file and settings.audit_webhook_mode,
    )
    return AuditLog(
        policy=policy,
        backends=backends,
        clock=clock,
        metrics=metrics,
        is_strict=Mode.BLOCKING_STRICT.value in modes,
    )


def _configured_backends(settings: AuditSettings) -> list[str]:
    backends = {
        "the log backend": settings.audit_log_path,
        "the webhook backend": settings.audit_webhook_config_file,
    }
    return [name for name, setting in backends.items() if setting]


def _log_backend(
    settings: AuditSettings, encode: Encoder, clock: Clock, metrics: Metrics
) -> AuditBackend:
    file = LogFile(
        settings.audit_log_path,
        now=clock.now,
        max_bytes=settings.audit_log_maxsize * _MEGABYTE,
        max_age=settings.audit_log_maxage,
        max_backups=settings.audit_log_maxbackup,
        compress=settings.audit_log_compress,
    )
    line = encode if settings.audit_log_format == "json" else legacy_line
    if settings.audit_log_truncate_enabled:
        max_event, max_batch = (
            settings.audit_log_truncate_max_event_size, settings.audit_log_truncate_max_batch_size
        )  # fmt: skip
        line = _truncating(line, "log", max_event, max_batch)
    return AuditWriter(
        file,
        line,
        mode=Mode(settings.audit_log_mode),
        batch=BatchSettings(
            buffer_size=settings.audit_log_batch_buffer_size,
            max_size=settings.audit_log_batch_max_size,
            max_wait=settings.audit_log_batch_max_wait,
            qps=settings.audit_log_batch_throttle_qps
            if settings.audit_log_batch_throttle_enable
            else 0,
            burst=settings.audit_log_batch_throttle_burst,
        ),
        clock=clock,
        losses=Losses("log", metrics),
    )


def _webhook_backend(
    settings: AuditSettings, file: Path, encode: Encoder, clock: Clock, metrics: Metrics
) -> AuditBackend:
    from kapiserver.apiserver.audit.webhook import AuditWebhook  # loads an HTTP client
    from kapiserver.apiserver.webhooks.kubeconfig import read_kubeconfig

    truncate = settings.audit_webhook_truncate_enabled
    max_batch = settings.audit_webhook_truncate_max_batch_size
    if truncate:
        max_event = settings.audit_webhook_truncate_max_event_size
        encode = _truncating(encode, "webhook", max_event, max_batch)
    throttle = settings.audit_webhook_batch_throttle_enable
    return AuditWebhook(
        read_kubeconfig(file, clock, purpose="audit webhook", metrics=metrics.client),
        encode,
        mode=Mode(settings.audit_webhook_mode),
        batch=BatchSettings(
            buffer_size=settings.audit_webhook_batch_buffer_size,
            max_size=settings.audit_webhook_batch_max_size,
            max_wait=settings.audit_webhook_batch_max_wait,
            qps=settings.audit_webhook_batch_throttle_qps if throttle else 0,
            burst=settings.audit_webhook_batch_throttle_burst,
        ),
        initial_backoff=settings.audit_webhook_initial_backoff,
        max_bytes=max_batch if truncate else 0,
        clock=clock,
        losses=Losses("webhook", metrics),
    )


def _truncating(encode: Encoder, plugin: str, max_event: int, max_batch: int) -> Encoder:
    """Return an encoder of small events. Raises BadConfiguration with kube-apiserver's words."""
    if max_batch < max_event:
        raise BadConfiguration(
            f"invalid audit truncate {plugin} max batch size {max_batch}, must be greater than or "
            f"equal to max event size ({max_event})"
        )
    return truncating(encode, max_event)

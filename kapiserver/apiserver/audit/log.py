"""The audit log of one server: its policy and its writer."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from kapiserver.apiserver.audit.event import AuditEvent, encode_event, legacy_line
from kapiserver.apiserver.audit.log_file import LogFile
from kapiserver.apiserver.audit.policy import AuditPolicy, read_policy
from kapiserver.apiserver.audit.writer import AuditWriter
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.metrics import Metrics
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.storage.clock import Clock

_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLog:
    """Decides what is recorded, and writes it."""

    policy: AuditPolicy
    writer: AuditWriter
    clock: Clock
    metrics: Metrics

    def submit(self, event: AuditEvent, stage: str, omit: frozenset[str]) -> None:
        """Write the event of a stage unless the policy omits that stage."""
        if stage not in omit:
            self.metrics.audit_levels.add(event.fields["level"])
            self.writer.submit(event)


def make_audit_log(
    config: Config, codecs: CodecFactory, clock: Clock, metrics: Metrics
) -> AuditLog | None:
    """Return the audit log of a configuration; None without policy or log. Raises
    BadConfiguration."""
    if config.audit_policy_file is None or not config.audit_log_path:
        return None
    file = LogFile(
        config.audit_log_path,
        now=clock.now,
        max_bytes=config.audit_log_maxsize * _MEGABYTE,
        max_age=config.audit_log_maxage,
        max_backups=config.audit_log_maxbackup,
        compress=config.audit_log_compress,
    )
    encode = functools.partial(encode_event, codecs=codecs)
    writer = AuditWriter(
        file,
        encode if config.audit_log_format == "json" else legacy_line,
        batch=config.audit_log_mode == "batch",
        buffer_size=config.audit_log_batch_buffer_size,
        events=metrics.audit_events,
        errors=metrics.audit_errors,
    )
    policy = read_policy(config.audit_policy_file)
    return AuditLog(policy=policy, writer=writer, clock=clock, metrics=metrics)

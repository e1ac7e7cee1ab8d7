"""Checks stored values: decodes them as the server does."""

from __future__ import annotations

from kapiserver.api.scheme import Scheme
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import CodecError, UnknownKind
from kapiserver.codecs.storage_codec import decode_from_storage
from kapiserver.storage.encryption.transformers import ENCRYPTED_PREFIX
from kapiserver.storage.kv.compaction import COMPACTION_KEY
from kapiserver.storage.objects.continue_token import SECRET

_OWN_KEYS = (SECRET, COMPACTION_KEY)


class ValueCheck:
    """Returns the problem of the value of a key, or "".

    Encrypted values and the server's own keys are not checked. JSON of an unknown kind passes: it
    may be a custom resource, whose kind another object declares.
    """

    def __init__(self) -> None:
        self._codecs = CodecFactory(Scheme())

    def __call__(self, key: str, value: bytes) -> str:
        if value.startswith(ENCRYPTED_PREFIX) or key.endswith(_OWN_KEYS):
            return ""
        try:
            decode_from_storage(self._codecs, value)
        except UnknownKind:
            return "" if value.startswith(b"{") else "the kind is unknown"
        except CodecError as error:
            return f"the value does not decode: {error}"
        return ""

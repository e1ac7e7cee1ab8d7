"""Checks stored values: decodes them as the server does."""

from __future__ import annotations

import re

from kapiserver.api.scheme import Scheme
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.errors import CodecError, UnknownKind
from kapiserver.codecs.media_types import PROTOBUF
from kapiserver.codecs.storage_codec import decode_from_storage, storage_media_type
from kapiserver.storage.encryption.transformers import ENCRYPTED_PREFIX
from kapiserver.storage.kv.compaction import COMPACTION_KEY
from kapiserver.storage.objects.continue_token import SECRET
from kapiserver.storage.wrappers.overlay_store import TOMBSTONE

_OWN_KEYS = (SECRET, COMPACTION_KEY)
_KEY_OF_CLUSTERS = re.compile(r"-clusters/(open|templates)/[^/]+$")
"""Keys of what logical clusters share: marks of open ones, and templates (decision 170)."""


class ValueCheck:
    """Returns the problem of the value of a key, or "".

    Encrypted values and the server's own keys are not checked. JSON and CBOR of an unknown kind
    pass: they may be custom resources, whose kind another object declares.
    """

    def __init__(self) -> None:
        self._codecs = CodecFactory(Scheme())

    def __call__(self, key: str, value: bytes) -> str:
        if value.startswith(ENCRYPTED_PREFIX) or key.endswith(_OWN_KEYS):
            return ""
        if value == TOMBSTONE or _KEY_OF_CLUSTERS.search(key):
            return ""
        try:
            decode_from_storage(self._codecs, value)
        except UnknownKind:
            may_be_custom = storage_media_type(self._codecs, value) is not PROTOBUF
            return "" if may_be_custom else "the kind is unknown"
        except CodecError as error:
            return f"the value does not decode: {error}"
        return ""

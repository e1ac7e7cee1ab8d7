"""Objects in every encoding, read by other libraries than the server's where there are any."""

import base64
import json

import cbor2
import yaml

from kapiserver.api.scheme import Scheme
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.recode import recode

CODECS = CodecFactory(Scheme())


def convert_through(form: str, data: bytes) -> object:
    """An object in JSON after conversion through an encoding; Protobuf drops the kinds of a
    StatefulSet's claims."""
    if form != "protobuf":
        return json.loads(data)
    encoded = recode(data, "json", form, codecs=CODECS)
    return json.loads(recode(encoded, form, "json", codecs=CODECS))


def read_encoded(form: str, data: bytes) -> object:
    """Decode with other libraries, except Protobuf, which tests/codecs compares with Google's
    decoder."""
    if form == "yaml":
        return yaml.load(data, _TimestampsAsText)
    if form == "cbor":
        return as_json_value(cbor2.loads(data))
    return json.loads(recode(data, form, "json", codecs=CODECS))


class _TimestampsAsText(yaml.SafeLoader):
    """A YAML loader that leaves timestamps as text."""

    yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in rows if not tag.endswith(":timestamp")]
        for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def as_json_value(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, cbor2.CBORTag):
        assert value.tag == 22, "bytes that JSON shows in base64"
        return base64.b64encode(value.value).decode()
    if hasattr(value, "items"):
        return {as_json_value(key): as_json_value(item) for key, item in value.items()}
    return [as_json_value(item) for item in value] if isinstance(value, list | tuple) else value

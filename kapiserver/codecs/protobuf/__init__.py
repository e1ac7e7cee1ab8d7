"""Protobuf: the serializer, and compiled decoders and encoders of messages."""

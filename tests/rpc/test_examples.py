"""The groups of `examples/rpc` are generated, and their versions convert as they should."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.rpc.dummy import registration_generated as dummy
from examples.rpc.shelf import registration_generated as shelf
from examples.rpc.shelf.v1beta1.client_generated import ShelfClient
from kapiserver.cli import main
from kapiserver.rpc.registration import ConversionError

ROOT = Path(__file__).parent.parent.parent / "examples" / "rpc"


def test_generated_files_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    """`kapiserver rpc generate --check` finds nothing to change."""
    assert main(["rpc", "generate", str(ROOT), "--check"]) == 0
    assert capsys.readouterr().out == ""


def test_dummy_in_both_versions() -> None:
    """Requests of both versions become the same internal request."""
    v1, v1alpha1 = (version.methods[0] for version in dummy.GROUP.versions)
    assert v1.to_internal(v1.request(input=7)) == v1alpha1.to_internal(v1alpha1.request(input32=7))


def test_dummy_response_beyond_32_bits() -> None:
    """A response that v1alpha1 cannot represent raises with the field's path."""
    method = dummy.GROUP.versions[1].methods[0]
    response = method.internal_response(response=2**31)
    with pytest.raises(ConversionError) as raised:
        method.from_internal(response)
    assert raised.value.path == "response32"
    assert str(raised.value).endswith("2147483648 does not fit into int32")


def test_deprecations_of_shelf() -> None:
    """The registration marks the deprecated version, call and field."""
    v1, v1beta1 = shelf.GROUP.versions
    assert (v1.deprecated, v1beta1.deprecated) == (False, True)
    assert [method.name for method in v1.methods if method.deprecated] == ["ListBooks"]
    assert v1.methods[0].deprecated_fields == {"shelf.v1.Book.author"}


def test_client_of_a_deprecated_version() -> None:
    """The client of a deprecated version warns."""
    import grpc

    with pytest.warns(DeprecationWarning, match="shelf v1beta1 is deprecated"):
        ShelfClient(grpc.insecure_channel("unix:nowhere"))  # type: ignore[arg-type]

"""ApiVersions: the first request of every client, so it must answer whatever version it is asked in."""

from __future__ import annotations

import struct

import pytest

from tests.conformance.raw import API_KEYS, Connection, decode_response

# Request header v2 with an ApiVersions version nobody has yet, and a body nobody understands.
FUTURE = struct.pack(">hhih", 18, 99, 41, 4) + b"test" + b"\0" + b"\xde\xad\xbe\xef"


def software(name: str, version: str) -> dict[str, str]:
    return {"client_software_name": name, "client_software_version": version}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_tells_the_same_table(version: int, connection: Connection) -> None:
    answer = connection.call("api_versions", version, **software("tests", "1.0"))
    assert answer.error_code == 0
    reference = connection.call("api_versions", 0)
    assert answer.api_keys == reference.api_keys or {(k.api_key, k.max_version) for k in answer.api_keys} == {
        (k.api_key, k.max_version) for k in reference.api_keys
    }


def test_a_version_from_the_future_is_answered_in_version_0(connection: Connection) -> None:
    connection.send_bytes(struct.pack(">i", len(FUTURE)) + FUTURE)
    correlation_id, answer = decode_response("api_versions", 0, connection.receive_frame())
    assert correlation_id == 41
    assert answer.error_code.name == "unsupported_version"
    (own,) = [k for k in answer.api_keys if k.api_key == API_KEYS["api_versions"]]
    assert (own.min_version, own.max_version) == (0, 4)


def test_the_connection_goes_on_after_a_version_from_the_future(connection: Connection) -> None:
    connection.send_bytes(struct.pack(">i", len(FUTURE)) + FUTURE)
    connection.receive_frame()
    assert connection.call("api_versions", 4, **software("tests", "1.0")).error_code == 0


@pytest.mark.parametrize("name", ["", "-x", "x y", "x;", "ünïcode", "."])
def test_an_invalid_software_name_is_refused(name: str, connection: Connection) -> None:
    assert connection.call("api_versions", 3, **software(name, "1.0")).error_code.name == "invalid_request"


@pytest.mark.parametrize("version", ["", " ", "1.0-", "1 0"])
def test_an_invalid_software_version_is_refused(version: str, connection: Connection) -> None:
    assert (
        connection.call("api_versions", 3, **software("tests", version)).error_code.name == "invalid_request"
    )


@pytest.mark.parametrize("name", ["a", "apache-kafka-java", "A.b-9", "9"])
def test_valid_software_names(name: str, connection: Connection) -> None:
    assert connection.call("api_versions", 3, **software(name, "4.0.0-rc1")).error_code == 0


def test_features_are_told_from_version_3_on(connection: Connection) -> None:
    answer = connection.call("api_versions", 4, **software("tests", "1.0"))
    supported = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
    finalized = {f.name: f.max_version_level for f in answer.finalized_features}
    assert "metadata.version" in supported
    assert finalized["metadata.version"] == supported["metadata.version"][1]
    assert answer.finalized_features_epoch >= 0
    assert not answer.zk_migration_ready


def test_features_that_begin_at_0_are_left_out_of_version_3(connection: Connection) -> None:
    answer = connection.call("api_versions", 3, **software("tests", "1.0"))
    assert all(feature.min_version > 0 for feature in answer.supported_features)


def test_a_null_client_id_is_fine(bootstrap: str) -> None:
    with Connection(bootstrap, client_id=None) as connection:
        assert connection.call("api_versions", 0).error_code == 0
        assert connection.call("api_versions", 3, **software("tests", "1.0")).error_code == 0

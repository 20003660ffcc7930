"""Keys of encryption: files of them, data keys that they wrap, and a reference for the format of encrypted files."""

from __future__ import annotations

import hmac
from pathlib import Path
from random import Random

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.unit.storage.encrypted_disk import KEY, AnyKeys, EncryptedVirtualDisk, data_keys
from tests.unit.storage.making import FOLDER, batch
from tidelog._speed.log.encrypted_frames import BLOCK, AesGcm
from tidelog.storage.encryption import file_header
from tidelog.storage.encryption.data_keys import DATA_KEYS, DataKeys, decode
from tidelog.storage.encryption.decrypted_cache import DecryptedCache
from tidelog.storage.encryption.encrypting_disk import EncryptingDisk
from tidelog.storage.encryption.key_files import KeyFiles
from tidelog.storage.encryption.key_service import KeyGone, KeyUnavailable
from tidelog.testing import VirtualDisk

PATH = f"{FOLDER}/{0:020d}.log"
PLAIN_KEY, CONTEXT = bytes(range(32)), b"context"


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    made = KeyFiles(str(tmp_path / "keys"))
    made.create("a")
    return made


def test_a_wrapped_key_opens_with_its_version_name_and_context_alone(files: KeyFiles) -> None:
    files.create("b")
    version, wrapped = files.wrap("a", PLAIN_KEY, CONTEXT)
    assert version == 1 and files.rotate("a") == 2
    assert files.unwrap("a", wrapped, CONTEXT) == PLAIN_KEY
    assert files.wrap("a", PLAIN_KEY, CONTEXT)[0] == 2
    for name, context in (("b", CONTEXT), ("a", b"another")):
        with pytest.raises(KeyUnavailable, match="does not open"):
            files.unwrap(name, wrapped, context)


def test_a_key_that_is_deleted_is_gone_and_a_folder_that_is_away_is_not(
    files: KeyFiles, tmp_path: Path
) -> None:
    _, wrapped = files.wrap("a", PLAIN_KEY, CONTEXT)
    (tmp_path / "keys").rename(tmp_path / "away")
    with pytest.raises(KeyUnavailable, match="is not there") as away:
        files.unwrap("a", wrapped, CONTEXT)
    assert not isinstance(away.value, KeyGone)
    (tmp_path / "away").rename(tmp_path / "keys")
    files.delete("a")
    assert files.names() == []
    with pytest.raises(KeyGone):
        files.unwrap("a", wrapped, CONTEXT)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"versions": {"1": "c2hvcnQ="}}', '{"versions": {"x": "c2hvcnQ="}}', "[]"]
)
def test_a_key_file_that_is_damaged_is_unavailable_and_not_gone(
    files: KeyFiles, tmp_path: Path, text: str
) -> None:
    (tmp_path / "keys" / "a.json").write_text(text)
    with pytest.raises(KeyUnavailable, match="not a readable key file") as found:
        files.newest_version("a")
    assert not isinstance(found.value, KeyGone)


def test_data_keys_are_kept_twice_and_neither_is_written_over_when_it_is_damaged(tmp_path: Path) -> None:
    disk = VirtualDisk(Random(1))
    kept = data_keys(str(tmp_path / "keys"), disk)
    key = kept.current(KEY)
    again = data_keys(str(tmp_path / "keys"), disk)
    assert again.find(key.id).secret() == key.secret() and again.current(KEY).id == key.id
    disk.rot(f"/data/{DATA_KEYS}", 100)
    assert data_keys(str(tmp_path / "keys"), disk).find(key.id).secret() == key.secret()
    disk.rot(f"/data/{DATA_KEYS}.copy", 100)
    damaged = disk.read_file(f"/data/{DATA_KEYS}")
    lost = data_keys(str(tmp_path / "keys"), disk)
    with pytest.raises(KeyUnavailable, match="restore that file"):
        lost.find(key.id)
    with pytest.raises(KeyUnavailable, match="can be written"):
        lost.current(KEY)
    assert disk.read_file(f"/data/{DATA_KEYS}") == damaged


def test_rotation_wraps_anew_and_deletion_forgets(tmp_path: Path) -> None:
    disk, files = VirtualDisk(Random(1)), KeyFiles(str(tmp_path / "keys"))
    kept = data_keys(str(tmp_path / "keys"), disk)
    old = kept.current(KEY)
    plain = old.secret()
    files.rotate("test")
    kept.refresh()
    assert old.version == 2 and old.secret() == plain and kept.current(KEY).id != old.id
    stored = decode(disk.read_file(f"/data/{DATA_KEYS}"))
    assert {key.version for key in stored.values()} == {2} and old.id in stored
    files.delete("test")
    kept.refresh()
    with pytest.raises(KeyUnavailable, match="there is no key"):
        old.secret()
    with pytest.raises(KeyUnavailable):
        kept.current(KEY)


def test_a_broker_without_keys_says_which_setting_it_needs() -> None:
    keys = DataKeys({}, [], Random(1).randbytes)
    with pytest.raises(KeyUnavailable, match=r"encryption\.vault\.url"):
        keys.current("vault:a")
    disk = EncryptingDisk(VirtualDisk(Random(1)), keys, lambda *_: "file:a", DecryptedCache(0))
    disk.make_folder(FOLDER)
    with pytest.raises(KeyUnavailable, match=r"encryption\.file\.keys\.dir"):
        disk.open(PATH, create=True)
    assert disk.inner.size(PATH) == 0, "nothing is written in plain instead"


def test_the_format_is_what_its_page_says() -> None:
    """Read with another implementation of AES-GCM, step by step."""
    disk = EncryptedVirtualDisk(Random(1))
    disk.make_folder(FOLDER)
    batches = [batch(0, 3), batch(3, 200, value=bytes(500)), batch(203)]
    disk.open(PATH, create=True).write(b"".join(batches), 0)
    raw = disk.inner.read_file(PATH)
    assert raw[:512] == raw[512:1024] and raw[:8] == b"TLGENC\x01\n"
    salt, topic_id = raw[24:56], raw[56:72]
    place = topic_id + bytes(4) + bytes(8) + b"log"
    file_key = hmac.digest(
        AnyKeys(Random(1)).keys[raw[8:24]].secret(), b"tidelog file 1\0" + salt + place, "sha256"
    )
    plain, at, starts = b"", 1024, []
    while at < len(raw):
        left = BLOCK - (at - 1024) % BLOCK
        if left < 104:
            at += left
            continue
        head = raw[at : at + 40]
        length = int.from_bytes(head[:4])
        assert int.from_bytes(head[4:8]) == len(plain)
        starts.append(len(plain))
        session_key = hmac.digest(file_key, b"tidelog session 1\0" + head[8:20], "sha256")
        sealed = raw[at + 40 : at + 40 + length] + head[24:40]
        plain += AESGCM(session_key).decrypt(bytes(8) + head[20:24], sealed, head[:8])
        at += 40 + length
    assert plain == b"".join(batches)
    assert {0, len(batches[0]), len(batches[0]) + len(batches[1])} <= set(starts)


def test_the_native_cipher_is_aes_gcm() -> None:
    random = Random(3)
    for size in (0, 1, 100, 5000):
        key, nonce, plain = random.randbytes(32), random.randbytes(12), random.randbytes(size)
        sealed = AesGcm(key).seal(nonce, plain, CONTEXT)
        assert sealed == AESGCM(key).encrypt(nonce, plain, CONTEXT)
        assert AesGcm(key).open(nonce, sealed, CONTEXT) == plain
        assert AesGcm(key).open(nonce, sealed, b"other") is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"{7:020d}.log", "log"),
        (f"{7:020d}.log.swap", "log"),
        (f"{7:020d}.log.abc.cleaned", "log"),
        (f"{7:020d}.txnindex.deleted", "txnindex"),
        (f"{7:020d}.snapshot.tmp", "snapshot"),
        (f"{7:020d}.123.rotten", "rotten"),
        (f"{7:020d}.index", None),
        ("leader-epoch-checkpoint", None),
    ],
)
def test_a_file_has_the_same_place_under_all_its_names(name: str, kind: str | None) -> None:
    for folder in ("orders-3", "orders-3.0123456789abcdef0123456789abcdef-future"):
        place = file_header.place_of(f"/data/{folder}/{name}")
        assert place == (None if kind is None else file_header.FilePlace("orders", 3, 7, kind))

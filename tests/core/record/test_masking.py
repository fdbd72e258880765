"""Secrets in files are overwritten in place: whole, split over two writes, encoded, and while the file grows."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from llmbx.record.masking import CHUNK, OVERLAP, PAGE, Growing, Masker, mask_folder

SECRET = 'planted/secret+with "quotes" 0123'
ENVIRON = {"MY_TOKEN": SECRET, "SHORT_TOKEN": "abc", "PLAIN": "an ordinary value", "proxy": "http://u:planted-word@h"}
TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        quote(SECRET),
        quote(SECRET, safe=""),
        SECRET.encode().hex(),
        TOKEN,
        "planted-word",
    ],
)
def test_a_secret_is_overwritten_in_every_encoding(text: str) -> None:
    data = f"before {text} after abc an ordinary value\n".encode()
    masked = Masker(ENVIRON).mask(data)
    assert masked == f"before {'*' * len(text)} after abc an ordinary value\n".encode()


@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("after", range(4))
def test_a_secret_inside_of_base64_cannot_be_decoded(before: int, after: int) -> None:
    encoded = base64.b64encode(b"x" * before + SECRET.encode() + b"y" * after)
    masked = Masker(ENVIRON).mask(b"value " + encoded + b" end")
    assert masked.count(b"*") >= len(SECRET) * 4 // 3 - 2 and masked.endswith(b" end")
    left = base64.b64decode(masked.removeprefix(b"value ").removesuffix(b" end").replace(b"*", b"A"))
    assert not any(SECRET.encode()[k : k + 3] in left for k in range(len(SECRET) - 2))


def test_a_file_keeps_its_length_its_lines_and_its_inode(tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    log.write_text(f"a\n{SECRET}\nb\n")
    before = log.stat()
    assert mask_folder(tmp_path, ENVIRON) == 1
    assert log.read_text() == f"a\n{'*' * len(SECRET)}\nb\n" and log.stat().st_ino == before.st_ino
    assert mask_folder(tmp_path, ENVIRON) == 0


@pytest.mark.parametrize("shift", [0, 1, len(SECRET) // 2, len(SECRET)])
@pytest.mark.parametrize("text", [SECRET, TOKEN])
def test_a_secret_across_the_pieces_of_a_large_file_is_found(shift: int, text: str, tmp_path: Path) -> None:
    for edge in (CHUNK, CHUNK + OVERLAP, 2 * CHUNK):
        log = tmp_path / "log.out"
        log.write_text("." * (edge - shift - 1) + " " + text + " " + "." * CHUNK)
        mask_folder(tmp_path, ENVIRON)
        assert text.encode() not in log.read_bytes() and log.read_bytes().count(b"*") == len(text)


def test_a_growing_file_is_masked_while_another_process_appends(tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    growing, whole = Growing(log, Masker(ENVIRON)), f"one {SECRET} two {TOKEN} three\n"
    assert growing.advance() == 0  # it does not exist yet
    with log.open("ab", buffering=0) as writer:
        for k in range(0, len(whole), 5):
            writer.write(whole[k : k + 5].encode())
            growing.advance()
    growing.advance(final=True)
    assert log.read_text() == f"one {'*' * len(SECRET)} two {'*' * len(TOKEN)} three\n"


def test_what_is_printed_is_masked_across_pieces() -> None:
    data = ("x" * 50_000 + f" {SECRET} {TOKEN} ").encode() * 3
    pieces = [data[k : k + 777] for k in range(0, len(data), 777)]
    assert b"".join(Masker(ENVIRON).stream(pieces)) == Masker(ENVIRON).mask(data)


def test_only_texts_of_the_folder_are_changed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside.txt", tmp_path / "run"
    folder.mkdir()
    outside.write_text(SECRET)
    (folder / "link.txt").symlink_to(outside)
    (folder / "profile.nsys-rep").write_text(SECRET)
    os.mkfifo(folder / "pipe.log")
    assert mask_folder(folder, ENVIRON) == 0
    assert outside.read_text() == SECRET and (folder / "profile.nsys-rep").read_text() == SECRET


def test_the_time_of_the_last_output_stays_when_a_run_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    log.write_text(f"a\n{SECRET}\n")
    os.utime(log, (1_000_000_000, 1_000_000_000))
    assert mask_folder(tmp_path, ENVIRON) == 1
    assert SECRET not in log.read_text() and log.stat().st_mtime == 1_000_000_000


@pytest.mark.parametrize("before", ["\x1b[32m", "\x1b[1;31m", "login\\n", "token%3D", "'", "=", "(", "\n"])
def test_a_token_of_a_known_shape_is_found_after_common_neighbours(before: str) -> None:
    shapes = [
        TOKEN, "sk_live_0123456789abcdefABCD", "xapp-1-A0123456789-0123456789", "hvs.CAESIJ0123456789abcdefghij",
        "ya29.a0AfH6SMB0123456789abcdefgh",
    ]  # fmt: skip
    for token in shapes:
        masked = Masker({}).mask(f"a {before}{token} b".encode())
        assert token.encode() not in masked and masked.startswith(b"a ") and masked.endswith(b" b")
    key = "-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQVYBGA\n-----END"
    assert b"lQVYBGA" not in Masker({}).mask(key.encode())


@pytest.mark.parametrize("name", ["debug.log.1", "worker.stderr", "trace.conf", "x.properties", "noext", "a.bak"])
def test_every_text_file_is_masked_whatever_its_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(f"a\n{SECRET}\n")
    assert mask_folder(tmp_path, ENVIRON) == 1
    assert SECRET not in (tmp_path / name).read_text()


def test_a_nul_byte_in_a_log_protects_no_secret(tmp_path: Path) -> None:
    (tmp_path / "log-run.out").write_bytes(b"step 1\0\0\0\n" + SECRET.encode() + b"\n")
    assert mask_folder(tmp_path, ENVIRON) == 1
    assert SECRET.encode() not in (tmp_path / "log-run.out").read_bytes()


def test_binary_files_and_files_with_another_name_elsewhere_are_left(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "core").write_bytes(b"\x7fELF\0" + SECRET.encode())
    (tmp_path / "cached.json").write_text(SECRET)
    os.link(tmp_path / "cached.json", folder / "tokenizer.json")
    assert mask_folder(folder, ENVIRON) == 0
    assert (tmp_path / "cached.json").read_text() == SECRET


def test_a_log_that_is_emptied_is_masked_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    log.write_text("x" * 1000 + "\n")
    growing = Growing(log, Masker(ENVIRON))
    assert growing.advance() == 0
    log.write_text(f"{SECRET}\n")
    assert growing.advance() == 1 and SECRET not in log.read_text()


def test_a_file_of_another_machine_keeps_its_last_page_until_there_is_a_next_one(tmp_path: Path) -> None:
    """On some network file systems two machines that write to one page lose what one of them wrote."""
    log = tmp_path / "log.out"
    growing = Growing(log, Masker(ENVIRON), elsewhere=True)
    across = "x" * (PAGE - 5)
    log.write_text(f"{SECRET}\n")
    assert growing.advance() == 0 and SECRET in log.read_text()
    log.write_text(text := f"{SECRET}\n{across}{SECRET}\n")
    assert growing.advance() == 1
    assert log.read_text() == text.replace(SECRET, "*" * len(SECRET), 1)
    with log.open("a") as file:
        file.write("y" * PAGE)
    assert growing.advance() == 1 and SECRET not in log.read_text()
    with log.open("a") as file:
        file.write(SECRET)
    assert growing.advance() == 0 and growing.advance(final=True) == 1
    assert SECRET not in log.read_text() and len(log.read_text()) == len(text) + PAGE + len(SECRET)

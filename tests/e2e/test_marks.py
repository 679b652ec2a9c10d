"""`--mark c2pa`: files that state that they are generated, read back by the C2PA library."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import soundfile
from workbench import Workbench

from tts_cli.audio.content_credentials import SOURCE_TYPE

pytestmark = pytest.mark.slow

c2pa = pytest.importorskip("c2pa", reason="c2pa-python (extra mark) is not installed")
ROWS = [{"id": "a", "text": "Hello there."}, {"id": "b", "text": "Good morning."}]


@pytest.fixture
def key(bench: Workbench) -> Path:
    path = bench.folder / "mark.pem"
    bench.run("mark", "key", path).expect(0)
    assert path.stat().st_mode & 0o77 == 0, "only its owner can read it"
    assert bench.run("mark", "key", path).code == 2, "a key is never replaced"
    return path


@pytest.mark.parametrize(
    ("format", "mime"), [("wav", "audio/wav"), ("flac", "audio/flac"), ("mp3", "audio/mpeg")]
)
def test_rows_are_signed(bench: Workbench, key: Path, format: str, mime: str) -> None:
    flags = ("--mark", "c2pa", "--mark-key", key, "--format", format, "--max-seconds", 1)
    bench.synth(ROWS, *flags).expect(0)
    out = bench.out().path
    with open(out / f"a.{format}", "rb") as file:
        found = json.loads(c2pa.Reader(mime, file).json())
    assert found["validation_state"] == "Valid"
    manifest = found["manifests"][found["active_manifest"]]
    assert manifest["title"] == "a"
    (action,) = (
        action
        for one in manifest["assertions"]
        if one["label"].startswith("c2pa.actions")
        for action in one["data"]["actions"]
    )
    assert action["digitalSourceType"].endswith("/trainedAlgorithmicMedia")
    assert soundfile.info(out / f"a.{format}").frames > 0
    verified = bench.run("mark", "verify", out, "--json").expect(0)
    assert [one["is_trusted"] for one in verified.json["files"]] == [False, False]
    assert "nothing to do" in bench.synth(ROWS, *flags).out


def test_a_file_that_names_an_address_is_read_without_the_network(
    bench: Workbench, key: Path
) -> None:
    """Its manifest would be at that address. A stranger's file could name any."""
    bench.synth(ROWS[:1], "--max-seconds", 1).expect(0)
    pem = key.read_bytes()
    certificates, private = pem.split(b"-----BEGIN PRIVATE", 1)
    info = c2pa.C2paSignerInfo("es256", certificates, b"-----BEGIN PRIVATE" + private, None)
    path = bench.folder / "far.wav"
    with socket.create_server(("127.0.0.1", 0)) as server:
        action = {"action": "c2pa.created", "digitalSourceType": SOURCE_TYPE}
        manifest = {"assertions": [{"label": "c2pa.actions.v2", "data": {"actions": [action]}}]}
        builder = c2pa.Builder(json.dumps(manifest))
        builder.set_no_embed()
        builder.set_remote_url(f"http://127.0.0.1:{server.getsockname()[1]}/far.c2pa")
        with open(bench.out().path / "a.wav", "rb") as source, open(path, "x+b") as target:
            builder.sign(c2pa.Signer.from_info(info), "audio/wav", source, target)
        assert b"/far.c2pa" in path.read_bytes()
        server.settimeout(0.5)
        result = bench.run("mark", "verify", path, "--json")
        with pytest.raises(TimeoutError):
            server.accept()
    assert result.code == 1


def test_what_was_changed_is_not_valid(bench: Workbench, key: Path) -> None:
    bench.synth(ROWS, "--mark", "c2pa", "--mark-key", key, "--max-seconds", 1)
    path = bench.out().path / "a.wav"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    bench.run("mark", "verify", path).expect(1, out=["NOT VALID", "0 of 1 file marked"])
    plain = bench.folder / "plain.wav"
    soundfile.write(plain, [0.0] * 100, 8_000)
    bench.run("mark", "verify", plain).expect(1, out="no credentials")


def test_a_mark_is_delivery_and_needs_no_synthesis(bench: Workbench, key: Path) -> None:
    bench.synth(ROWS, "--max-seconds", 1)
    before = {name: record["run_id"] for name, record in bench.out().records.items()}
    flags = ("--max-seconds", 1, "--mark", "c2pa", "--mark-key", key)
    bench.synth(ROWS, *flags).expect(0)
    assert {name: record["run_id"] for name, record in bench.out().records.items()} == before
    bench.run("mark", "verify", bench.out().path / "a.wav").expect(0)


def test_chapters_and_the_m4b_are_signed(bench: Workbench, key: Path) -> None:
    pytest.importorskip("av")
    book = bench.folder / "story.md"
    book.write_text("# One\n\nHello there.\n", encoding="utf-8")
    novel = bench.folder / "novel"
    flags = ("--out", novel, "--model", bench.model, "--max-seconds", 1, "--join", "m4b")
    bench.run("book", book, *flags, "--mark", "c2pa", "--mark-key", key).expect(0)
    bench.run("mark", "verify", novel / "01-one.wav", novel / "book.m4b").expect(0)
    bench.run("book", book, *flags, "--mark", "c2pa", "--mark-key", key).expect(0)
    bench.run("mark", "verify", novel / "01-one.wav").expect(0)


def test_what_cannot_be_signed(bench: Workbench, key: Path) -> None:
    bench.synth(ROWS, "--mark", "c2pa").expect(2, "tts-cli mark key")
    bench.synth(ROWS, "--mark", "c2pa", "--mark-key", key, "--format", "ogg").expect(
        2, "ogg cannot contain it"
    )
    bad = bench.folder / "bad.pem"
    for content in (b"", b"-----BEGIN PRIVATE KEY-----\nx\n", key.read_bytes()[:900]):
        bad.write_bytes(content)
        bench.synth(ROWS, "--mark", "c2pa", "--mark-key", bad).expect(2, "must have certificates")
    assert not bench.out().path.exists() or not list(bench.out().path.glob("*.wav"))

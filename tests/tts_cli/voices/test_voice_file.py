"""Voice files: what is written comes back, and nothing else is taken for a voice."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save

from models.base import ModelInfo
from tts_cli.errors import RowError, SetupError, UsageError
from tts_cli.voices.voice_file import MAX_FILE_BYTES, SUFFIX, StoredVoice, decode, encode
from tts_cli.voices.voice_store import VoiceStore, default_folder, name_problem

MakeInfo = Callable[..., ModelInfo]

ICL = StoredVoice(
    embedding=np.linspace(-1, 1, 48, dtype=np.float32),
    codes=np.arange(5 * 16, dtype=np.int16).reshape(5, 16),
    text="Größe 你好 said",
    mode="icl",
    identity="abc",
    model="qwen3_tts 0b6 base",
    sample_rate_hz=24_000,
    reference="0" * 64,
    created_by="tts-cli 0.2.0",
)
XVEC = replace(ICL, codes=None, text=None, mode="xvec")
METADATA = json.loads(encode(ICL)[8 : 8 + int.from_bytes(encode(ICL)[:8], "little")])[
    "__metadata__"
]


def with_metadata(**changes: str | None) -> bytes:
    """ICL's file with other metadata; None leaves a key out."""
    metadata = {name: value for name, value in {**METADATA, **changes}.items() if value is not None}
    data: bytes = save(load(encode(ICL)), metadata)
    return data


def with_tensors(**tensors: Any) -> bytes:
    """ICL's file with other tensors; None leaves one out."""
    found = {**load(encode(ICL)), **tensors}
    kept = {name: value for name, value in found.items() if value is not None}
    data: bytes = save(kept, METADATA)
    return data


def with_header(header: bytes, size: int | None = None, body: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header) if size is None else size) + header + body


def infinite() -> Any:
    values = ICL.embedding.copy()
    values[3] = np.inf
    return values


HOSTILE: dict[str, tuple[bytes, str]] = {
    "short": (b"voice", "is not a safetensors file"),
    "zeros": (bytes(100), "is not a safetensors file"),
    "huge-header": (with_header(b"{}", 2**63), "is not a safetensors file"),
    "header-beyond-the-file": (with_header(b"{}", 3), "is not a safetensors file"),
    "no-json": (with_header(b"{]"), "is not a voice file of tts-cli: "),
    "deep-json": (with_header(b"[" * 100_000), "is not a voice file of tts-cli: "),
    "not-utf-8": (with_header(b'{"\xff": 1}'), "is not a voice file of tts-cli: "),
    "list": (with_header(b"[]"), "is not a voice file of tts-cli: Expected `object`, got `array`"),
    "no-metadata": (save(load(encode(ICL))), "is not a voice file of tts-cli"),
    "metadata-is-a-list": (with_header(b'{"__metadata__": []}'), "is not a voice file"),
    "other-format": (with_metadata(format="pt"), "is not a voice file of tts-cli"),
    "newer-version": (with_metadata(version="2"), "has version '2'; the supported version is 1"),
    "no-identity": (with_metadata(identity=None), "missing required field `identity`"),
    "no-transcript": (with_metadata(text=None), "has no text"),
    "no-hash": (with_metadata(content=None), "missing required field `content`"),
    "number-for-text": (
        encode(ICL).replace(b'"sample_rate_hz":"24000"', b'"sample_rate_hz": 24000 '),
        "Expected `str`, got `int` - at `$.__metadata__",
    ),
    "long-name": (with_metadata(model="x" * 300), "Expected `str` of length <= 200 - at `$.model`"),
    "long-transcript": (
        with_metadata(text="x" * 20_001),
        "Expected `str` of length <= 20000 - at `$.text`",
    ),
    "other-mode": (with_metadata(mode="xvek"), "Invalid enum value 'xvek' - at `$.mode`"),
    "rate-in-words": (with_metadata(sample_rate_hz="fast"), "- at `$.sample_rate_hz`"),
    "rate-in-other-digits": (with_metadata(sample_rate_hz="²"), "- at `$.sample_rate_hz`"),
    "rate-of-zero": (with_metadata(sample_rate_hz="0"), "- at `$.sample_rate_hz`"),
    "no-codes": (with_tensors(codes=None), "contains the tensors 'embedding' instead of"),
    "codes-of-xvec": (with_metadata(mode="xvec"), "contains the tensors 'codes, embedding'"),
    "one-more-tensor": (
        with_tensors(more=np.zeros(3)),
        "contains the tensors 'codes, embedding, m",
    ),
    "wide-codes": (with_tensors(codes=np.zeros((5, 16), np.int64)), "codes that is not"),
    "flat-codes": (with_tensors(codes=np.zeros(80, np.int16)), "codes that is not"),
    "half-embedding": (with_tensors(embedding=np.zeros(48, np.float16)), "embedding that is not"),
    "square-embedding": (with_tensors(embedding=np.zeros((4, 4), np.float32)), "that is not"),
    "empty-embedding": (with_tensors(embedding=np.zeros(0, np.float32)), "embedding of 0 values"),
    "endless-embedding": (
        with_tensors(embedding=np.zeros(70_000, np.float32)),
        "has an embedding of 70000 values",
    ),
    "infinite-embedding": (with_tensors(embedding=infinite()), "values that are not numbers"),
    "no-frames": (with_tensors(codes=np.zeros((0, 16), np.int16)), "has no codes"),
    "negative-code": (with_tensors(codes=np.full((5, 16), -3, np.int16)), "has the code -3"),
    "other-code": (with_tensors(codes=np.zeros((5, 16), np.int16)), "was damaged or edited"),
    "other-transcript": (with_metadata(text="something else"), "was damaged or edited"),
    "other-checkpoint": (with_metadata(identity="abd"), "was damaged or edited"),
    "cut": (encode(ICL)[:-10], "is not a safetensors file"),
    "longer": (encode(ICL) + b"more", "is not a safetensors file"),
}


@pytest.fixture
def folder(tmp_path: Path) -> VoiceStore:
    return VoiceStore(tmp_path / "voices")


@pytest.fixture
def base(make_info: MakeInfo) -> ModelInfo:
    return make_info(type="base", needs_reference=True, can_clone=True, voices=(), identity="abc")


@pytest.mark.parametrize("voice", [ICL, XVEC], ids=["icl", "xvec"])
def test_what_is_written_comes_back(folder: VoiceStore, voice: StoredVoice) -> None:
    path = folder.write("anna", voice)
    assert path == folder.path / "anna.voice.safetensors"
    assert os.listdir(folder.path) == [path.name], "no temporary file stays"
    found = VoiceStore(folder.path).load("anna")
    assert found.facts() == voice.facts()
    assert found.digest == voice.digest
    model_voice = found.to_voice()
    assert torch.equal(model_voice.embedding, torch.from_numpy(voice.embedding))
    assert (model_voice.text, model_voice.mode) == (voice.text, voice.mode)
    assert model_voice.digest == voice.digest
    if voice.codes is None:
        assert model_voice.codes is None
    else:
        assert model_voice.codes is not None
        assert model_voice.codes.dtype == torch.int64
        assert model_voice.codes.tolist() == voice.codes.tolist()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(folder: VoiceStore, name: str) -> None:
    data, words = HOSTILE[name]
    folder.path.mkdir()
    (folder.path / f"v{SUFFIX}").write_bytes(data)
    with pytest.raises(RowError) as caught:
        folder.load("v")
    assert words in str(caught.value)
    assert str(caught.value).startswith("voice 'v': v.voice.safetensors ")
    assert len(str(caught.value)) < 300


def test_random_damage_is_always_found(folder: VoiceStore) -> None:
    data = encode(ICL)
    random = np.random.default_rng(7)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[random.integers(len(data))] ^= 1 << random.integers(8)
        try:
            found = decode(bytes(damaged))
        except RowError:
            continue
        # Only what shapes no speech may differ: the checkpoint's name for messages, the maker.
        assert found.digest == ICL.digest


def test_files_that_are_none(folder: VoiceStore, tmp_path: Path) -> None:
    folder.path.mkdir()
    outside = tmp_path / "outside"
    outside.write_bytes(encode(ICL))
    (folder.path / f"link{SUFFIX}").symlink_to(outside)
    (folder.path / f"dir{SUFFIX}").mkdir()
    os.mkfifo(folder.path / f"fifo{SUFFIX}")
    (folder.path / f"big{SUFFIX}").write_bytes(bytes(MAX_FILE_BYTES + 1))
    for name, words in (
        ("link", "is outside of the voices folder"),
        ("dir", "is a folder"),
        ("fifo", "is not a regular file"),
        ("big", "has 4,194,305 bytes; the maximum is 4,194,304"),
    ):
        with pytest.raises(RowError, match=words):
            folder.load(name)


@pytest.mark.parametrize(
    "name", ["", "..", "../anna", "a/b", "/anna", ".anna", "-anna", "a\0b", "con", "a b", "x" * 300]
)
def test_names_that_are_refused(folder: VoiceStore, name: str) -> None:
    assert name_problem(name) is not None
    with pytest.raises(UsageError, match="the voice name"):
        folder.write(name, ICL)
    with pytest.raises(RowError, match="is not in"):
        folder.load(name)
    assert not folder.path.exists()


def test_names_ignore_letter_case(folder: VoiceStore) -> None:
    folder.write("Anna", ICL)
    assert folder.load("anna").digest == ICL.digest
    with pytest.raises(UsageError, match=r"Anna\.voice\.safetensors already exists"):
        folder.write("ANNA", XVEC)
    folder.write("ANNA", XVEC, is_overwriting=True)
    assert folder.names() == ["Anna"]
    assert folder.load("anna").mode == "xvec"


def test_other_checkpoints_are_named(folder: VoiceStore, base: ModelInfo) -> None:
    folder.write("anna", ICL)
    assert folder.require("anna", base).digest == ICL.digest
    with pytest.raises(RowError) as caught:
        folder.require("anna", replace(base, identity="def", size="1b7"))
    for words in ("qwen3_tts 0b6 base, abc", "qwen3_tts 1b7 base (def)", "voices add --overwrite"):
        assert words in str(caught.value)
    with pytest.raises(RowError, match="has 16 codebooks, but the checkpoint has 8"):
        folder.require("anna", replace(base, num_codebooks=8))
    with pytest.raises(RowError, match="has 24000 Hz, but the checkpoint has 16000"):
        folder.require("anna", replace(base, sample_rate_hz=16_000))


def test_a_folder_that_is_missing_or_cannot_be_written(tmp_path: Path) -> None:
    assert VoiceStore(tmp_path / "none").names() == []
    (tmp_path / "file").write_text("")
    assert VoiceStore(tmp_path / "file").names() == []
    with pytest.raises(SetupError, match="choose another --voice-dir"):
        VoiceStore(tmp_path / "file").write("anna", ICL)


def test_the_users_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "tts-cli" / "voices"
    monkeypatch.setenv("HOME", str(tmp_path))
    for unset in ("", "relative/path"):
        monkeypatch.setenv("XDG_DATA_HOME", unset)
        assert default_folder() == tmp_path / ".local/share/tts-cli/voices"

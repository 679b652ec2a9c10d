"""Checkpoints: where they are found, what is refused, and what tells them apart."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import huggingface_hub
import huggingface_hub.constants
import pytest
import torch
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors.torch import save_file
from tiny_qwen3_tts import write_checkpoint

from models.checkpoint.files import (
    CheckpointError,
    identity,
    read_header,
    resolve,
    tensor_shapes,
    weight_files,
)
from models.checkpoint.weights import read_tensors

CPU = torch.device("cpu")
INDEX = "model.safetensors.index.json"


def write_index(folder: Path, weight_map: object) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))


def refusal(kind: type[HfHubHTTPError]) -> HfHubHTTPError:
    """What the hub's library raises for an answer of the hub, which is not needed here."""
    return kind.__new__(kind)


class TestResolve:
    """Folders and repository ids."""

    @pytest.fixture(autouse=True)
    def _offline(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    def test_the_home_folder_is_expanded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "voices").mkdir()
        monkeypatch.setenv("HOME", str(tmp_path))
        assert resolve("~/voices") == tmp_path / "voices"

    @pytest.mark.parametrize("source", ["/no/such/folder", "./voices", "voices", "a/b/c", "~/none"])
    def test_a_path_that_is_not_there_is_not_looked_up(self, source: str) -> None:
        with pytest.raises(CheckpointError, match="the checkpoint folder does not exist"):
            resolve(source)

    def test_offline_and_not_in_the_cache(self) -> None:
        with pytest.raises(CheckpointError) as caught:
            resolve("somebody/some-voice")
        message = str(caught.value)
        assert message.startswith(
            "somebody/some-voice: not a local folder, not complete in the hub cache, and"
        )
        assert (
            "HF_HUB_OFFLINE forbids access to the hub; "
            "unset it to download the checkpoint, or check the name" in message
        )

    @pytest.mark.parametrize(
        ("failure", "words"),
        [
            (
                OfflineModeIsEnabled("off"),
                "HF_HUB_OFFLINE forbids access to the hub; "
                "unset it to download the checkpoint, or check the name",
            ),
            (ConnectionError("no route to host\nmore"), "cannot be reached (no route to host); "),
            (
                refusal(RepositoryNotFoundError),
                "neither a local folder nor a hub repository; check the name, or log in with "
                "`hf auth login` if it is private",
            ),
            (refusal(GatedRepoError), "accept them there, then log in"),
            (refusal(RevisionNotFoundError), "has no revision 'v2'"),
        ],
        ids=["offline", "no network", "typo", "gated", "revision"],
    )
    def test_why_nothing_is_fetched(
        self, failure: Exception, words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All of these were "cannot be reached; check the name, the network and ..."."""

        def fail(*args: object, **settings: object) -> None:
            if isinstance(failure, HfHubHTTPError):
                raise failure
            raise LocalEntryNotFoundError("not there") from failure

        monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        with pytest.raises(CheckpointError) as caught:
            resolve("somebody/some-voice", "v2")
        assert words in str(caught.value)

    def test_offline_and_in_the_cache(self, tmp_path: Path) -> None:
        commit = "0123456789abcdef0123456789abcdef01234567"
        repository = tmp_path / "hub" / "models--somebody--some-voice"
        snapshot = repository / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(commit)
        assert resolve("somebody/some-voice") == snapshot
        with pytest.raises(
            CheckpointError, match="not a local folder, not complete in the hub cache, and"
        ):
            resolve("somebody/some-voice", revision="other")


class TestWeightFiles:
    """Single files, shards, and what an index may not name."""

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match=f"no model.safetensors and no {INDEX}$"):
            weight_files(tmp_path)

    @pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "codec.pth"])
    def test_pickled_weights_are_named_and_never_read(self, tmp_path: Path, name: str) -> None:
        class Bomb:
            def __reduce__(self) -> tuple[object, ...]:
                return (Path.touch, (tmp_path / "exploded",))

        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
        hint = " (there are pickled weights, which are never loaded)"
        with pytest.raises(CheckpointError, match=re.escape(hint)):
            read_tensors(tmp_path, CPU)
        assert not (tmp_path / "exploded").exists()

    @pytest.mark.parametrize(
        "shard",
        ["../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "..", "x.bin", "", 5, None],
    )
    def test_a_shard_is_a_plain_file_name(self, tmp_path: Path, shard: object) -> None:
        folder = tmp_path / "voice"
        folder.mkdir()
        save_file({"a": torch.zeros(2)}, tmp_path / "x.safetensors")
        write_index(folder, {"a": shard})
        with pytest.raises(CheckpointError, match="is not a plain safetensors file name"):
            weight_files(folder)

    @pytest.mark.parametrize(
        "text", ["[]", "{}", "3", '{"weight_map": 3}', '{"weight_map": {"a": []}}']
    )
    def test_an_index_that_is_none(self, tmp_path: Path, text: str) -> None:
        (tmp_path / INDEX).write_text(text)
        with pytest.raises(CheckpointError, match="not a shard index"):
            weight_files(tmp_path)

    @pytest.mark.parametrize("text", ["", "{", "[" * 99999, "9" * 5000])
    def test_an_index_that_is_no_json(self, tmp_path: Path, text: str) -> None:
        (tmp_path / INDEX).write_text(text)
        with pytest.raises(CheckpointError, match=f"{INDEX}: not readable as JSON"):
            weight_files(tmp_path)

    def test_a_missing_shard_is_named(self, tmp_path: Path) -> None:
        save_file({"a": torch.zeros(2)}, tmp_path / "m-1.safetensors")
        write_index(tmp_path, {"a": "m-1.safetensors", "b": "m-2.safetensors"})
        with pytest.raises(CheckpointError, match=r"shard m-2\.safetensors is missing"):
            weight_files(tmp_path)


class TestHeaders:
    """What the files hold, without a weight read."""

    def test_shapes_and_notes(self, tmp_path: Path) -> None:
        tensors = {"a": torch.zeros(2, 3, dtype=torch.bfloat16), "b": torch.tensor(1.0)}
        save_file(tensors, tmp_path / "x.safetensors", {"made_by": "us"})
        header = read_header(tmp_path / "x.safetensors")
        assert header.shapes == {"a": (2, 3), "b": ()}
        assert header.types == {"a": "bfloat16", "b": "float32"}
        assert header.notes == {"made_by": "us"}

    @pytest.mark.parametrize(
        ("dtype", "name"),
        [
            (torch.uint16, "U16"),
            (torch.int8, "I8"),
            (torch.int64, "I64"),
            (torch.bool, "BOOL"),
            (torch.complex64, "C64"),
            (torch.float8_e4m3fn, "F8_E4M3"),
        ],
    )
    def test_a_type_that_is_not_read_is_named(
        self, tmp_path: Path, dtype: torch.dtype, name: str
    ) -> None:
        """Quantised weights without their scales were cast and spoken as noise."""
        path = tmp_path / "x.safetensors"
        save_file({"a": torch.zeros(2, dtype=dtype)}, path)
        with pytest.raises(CheckpointError, match=f"a is stored as {name}, which is not supported"):
            read_header(path)

    def test_a_tensor_in_two_shards(self, tmp_path: Path) -> None:
        for name in ("m-1.safetensors", "m-2.safetensors"):
            save_file({"a": torch.zeros(2)}, tmp_path / name)
        write_index(tmp_path, {"a": "m-1.safetensors", "b": "m-2.safetensors"})
        with pytest.raises(CheckpointError, match=r"m-2.safetensors: a occurs in two shards"):
            tensor_shapes(tmp_path)

    def test_shards_are_joined(self, tmp_path: Path) -> None:
        save_file({"a": torch.zeros(2)}, tmp_path / "m-1.safetensors")
        save_file({"b": torch.ones(3)}, tmp_path / "m-2.safetensors")
        write_index(tmp_path, {"a": "m-1.safetensors", "b": "m-2.safetensors"})
        assert tensor_shapes(tmp_path) == {"a": (2,), "b": (3,)}

    @pytest.mark.parametrize("kept", [0, 4, 20, -1])
    def test_a_truncated_file_is_named(self, tmp_path: Path, kept: int) -> None:
        path = tmp_path / "model.safetensors"
        save_file({"a": torch.zeros(200)}, path)
        path.write_bytes(path.read_bytes()[:kept])
        with pytest.raises(CheckpointError, match=r"model\.safetensors: not a readable"):
            tensor_shapes(tmp_path)


class TestIdentity:
    """Changes with what would change the audio, and with nothing else."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return write_checkpoint(tmp_path / "voice", "voice_design")

    @staticmethod
    def of(folder: Path) -> str:
        parts = [*weight_files(folder), *weight_files(folder / "speech_tokenizer")]
        return identity(folder, parts)

    def test_the_same_files_elsewhere_are_the_same(self, folder: Path, tmp_path: Path) -> None:
        copy = write_checkpoint(tmp_path / "elsewhere" / "copy", "voice_design")
        assert self.of(folder) == self.of(folder) == self.of(copy)

    @pytest.mark.parametrize(
        "name",
        ["config.json", "generation_config.json", "merges.txt", "speech_tokenizer/config.json"],
    )
    def test_a_config_counts(self, folder: Path, name: str) -> None:
        before = self.of(folder)
        path = folder / name
        path.write_text(path.read_text() + "\n")
        assert self.of(folder) != before

    @pytest.mark.parametrize("part", ["model.safetensors", "speech_tokenizer/model.safetensors"])
    @pytest.mark.parametrize("where", [0.5, 0.999])
    def test_a_byte_of_a_weight_counts(self, folder: Path, part: str, where: float) -> None:
        before = self.of(folder)
        path = folder / part
        data = bytearray(path.read_bytes())
        data[int(where * len(data))] ^= 1
        path.write_bytes(data)
        assert self.of(folder) != before

    def test_large_files_are_sampled(self, tmp_path: Path) -> None:
        path = tmp_path / "model.safetensors"
        save_file({"a": torch.zeros(4 * 2**20, dtype=torch.float32)}, path)
        size = path.stat().st_size
        before = identity(tmp_path, [path])
        data = bytearray(path.read_bytes())
        data[32 * size // 64 + 100] ^= 1
        path.write_bytes(data)
        assert identity(tmp_path, [path]) != before

    def test_files_of_other_kinds_and_folders_do_not_count(self, folder: Path) -> None:
        before = self.of(folder)
        (folder / "README.md").write_text("hello")
        (folder / "odd.json").mkdir()  # once read as a file
        assert self.of(folder) == before

    def test_broken_weights_still_have_one(self, tmp_path: Path) -> None:
        path = tmp_path / "model.safetensors"
        path.write_bytes(b"")
        empty = identity(tmp_path, [path])
        path.write_bytes(b"\xff" * 12)
        assert identity(tmp_path, [path]) != empty

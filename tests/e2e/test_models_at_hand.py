"""`tts-cli models list` and `download`, with a hub that is a folder: tests fetch nothing."""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import tiny_fish_speech as tiny
from huggingface_hub.errors import LocalEntryNotFoundError
from workbench import Workbench

QWEN, FISH, OTHER = "org/tiny-voices", "org/tiny-fish", "org/a-picture-model"
COMMIT = "a" * 40


class FakeHub:
    """Copies what matches of a repository into the cache, as the hub's library lays it out."""

    def __init__(self, cache: Path, repositories: dict[str, Path]) -> None:
        self.cache = cache
        self.repositories = repositories
        self.asked: list[tuple[str, list[str]]] = []

    def snapshot_download(
        self, source: str, revision: str | None = None, allow_patterns: Any = None
    ) -> str:
        self.asked.append((source, allow_patterns))
        if source not in self.repositories:
            raise LocalEntryNotFoundError("not there")
        folder = self.cache / f"models--{source.replace('/', '--')}"
        (folder / "refs").mkdir(parents=True, exist_ok=True)
        (folder / "refs" / (revision or "main")).write_text(COMMIT)
        snapshot = folder / "snapshots" / COMMIT
        for path in self.repositories[source].rglob("*"):
            name = path.relative_to(self.repositories[source]).as_posix()
            if path.is_file() and any(fnmatch.fnmatch(name, one) for one in allow_patterns):
                (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, snapshot / name)
        return str(snapshot)


@pytest.fixture
def hub(
    bench: Workbench, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> FakeHub:
    picture = tmp_path_factory.mktemp("picture")
    (picture / "config.json").write_text('{"model_type": "picture"}')
    (picture / "model.safetensors").write_bytes(b"large")
    fish = tiny.write_checkpoint(tmp_path_factory.mktemp("fish"), as_pickle=True)
    (bench.model / "notes.bin").write_bytes(b"not read")
    cache = tmp_path_factory.mktemp("cache")
    found = FakeHub(cache, {QWEN: bench.model, FISH: fish, OTHER: picture})
    monkeypatch.setattr(huggingface_hub, "snapshot_download", found.snapshot_download)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    return found


def test_a_download_is_listed_and_speaks(bench: Workbench, hub: FakeHub) -> None:
    assert bench.run("models", "list").out.count("\n") == 3  # the sample voice alone
    result = bench.run("models", "download", QWEN).expect(0)
    assert result.out == f"{QWEN} is in {hub.cache}/models--org--tiny-voices/snapshots/{COMMIT}\n"
    assert [patterns == ["config.json"] for _, patterns in hub.asked] == [True, False]
    assert not (Path(result.out.split()[-1]) / "notes.bin").exists()
    listed = bench.run("models", "list", "--json").json
    assert [model["model"] for model in listed] == ["sample voice", QWEN]
    assert listed[1]["family"] == "qwen3_tts"
    assert listed[1]["licence"] is None
    assert listed[1]["bytes"] > 1000
    assert "dora" in bench.run("voices", "--model", QWEN).out
    assert bench.run("models", "download", QWEN, "--json").json["next"] is None


def test_terms_come_before_the_weights(bench: Workbench, hub: FakeHub) -> None:
    bench.run("models", "download", FISH).expect(
        2, "You must accept it before their first use; to accept it, add --accept-licence once"
    )
    assert [patterns for _, patterns in hub.asked] == [["config.json"]]
    result = bench.run("models", "download", FISH, "--accept-licence").expect(0)
    assert result.out.endswith(f"next: tts-cli models convert {FISH}\n")
    (fish,) = [one for one in bench.run("models", "list", "--json").json if one["model"] == FISH]
    assert fish["licence_accepted"] is not None


def test_what_cannot_be_fetched(bench: Workbench, hub: FakeHub) -> None:
    bench.run("models", "download", OTHER).expect(3, "model_type 'picture' is not one of qwen3_tts")
    assert len(hub.asked) == 1  # and no weight
    assert OTHER not in bench.run("models", "list").out
    assert "cannot be reached" in bench.run("models", "download", "org/nowhere").err
    result = bench.run("models", "download", bench.model)
    assert (result.code, len(hub.asked)) == (2, 2)
    assert "is already on this machine" in result.err


def test_a_revision_of_its_own(bench: Workbench, hub: FakeHub) -> None:
    bench.run("models", "download", QWEN, "--revision", "v2").expect(0)
    assert f"{QWEN} --revision v2" in bench.run("models", "list").out

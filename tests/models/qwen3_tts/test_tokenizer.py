"""The text tokenizer in the released form: true `tokenizer_config.json`, ids and size; few merges.

Released are `vocab.json` with 151,643 entries, `merges.txt` without a `#version` line, 33 added
tokens behind the vocabulary, and no `tokenizer.json`.
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import released_files

from models.checkpoint.files import CheckpointError
from models.qwen3_tts.config import Qwen3TTSConfig
from models.qwen3_tts.prompt import REFERENCE_TAIL, TEMPLATE_HEAD, TEMPLATE_TAIL
from models.qwen3_tts.tokenizer import (
    is_as_released,
    load_tokenizer,
    read_by_transformers,
    read_released,
)

pytestmark = pytest.mark.slow

VOCAB = 151643  # entries of the released vocab.json
ROWS = 151936  # of the text embedding
NEWLINE, ASSISTANT, USER = 198, 77091, 872
# Ġ stands for the space byte. The first is the released file's first as well.
MERGES = ("Ġ Ġ", "i P", "c D", "h o", "i n")
WORDS = {
    "assistant": ("s s", "a ss", "ass i", "assi s", "assis t", "assist a", "assista n"),
    "user": ("s e", "u se"),
}
LAST = {"assistant": "assistan t", "user": "use r"}

Tokenize = Callable[[str], list[int]]


def byte_letters() -> list[str]:
    """The letters of the byte-level BPE in the order of their ids."""
    units = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(byte) for byte in units] + [chr(256 + i) for i in range(256 - len(units))]


def merges() -> list[str]:
    return [*MERGES, *(merge for word in WORDS for merge in (*WORDS[word], LAST[word]))]


@functools.cache
def vocabulary() -> dict[str, int]:
    """As many entries as released; `assistant` and `user` where they are there."""
    tokens: dict[int, str] = dict(enumerate(byte_letters()))
    products = [merge.replace(" ", "") for merge in merges()]
    for i, token in enumerate(token for token in products if token not in WORDS):
        tokens[256 + i] = token
    tokens |= {ASSISTANT: "assistant", USER: "user"}
    return {tokens.get(i, f"<unused {i}>"): i for i in range(VOCAB)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small files of a released checkpoint; config.json says transformers 4.57.3."""
    folder = tmp_path_factory.mktemp("released")
    name = "Qwen3-TTS-12Hz-0.6B-CustomVoice"
    shutil.copy(released_files.RELEASED / name / "config.json", folder)
    for file in ("generation_config.json", "tokenizer_config.json"):
        shutil.copy(released_files.COMMON / file, folder)
    write_json(folder / "vocab.json", vocabulary())
    (folder / "merges.txt").write_text("".join(f"{m}\n" for m in merges()), encoding="utf-8")
    return folder


def write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values), encoding="utf-8")


@pytest.fixture(scope="module")
def tokenize(folder: Path) -> Tokenize:
    return load_tokenizer(folder, ROWS)


def ids_of(*tokens: str) -> list[int]:
    known = vocabulary()
    return [known[token] for token in tokens]


def added_ids() -> dict[str, int]:
    """The 33 added tokens, as released."""
    added = released_files.read("common/tokenizer_config.json")["added_tokens_decoder"]
    return {token["content"]: int(i) for i, token in added.items()}


def test_the_template_has_the_released_ids(folder: Path, tokenize: Tokenize) -> None:
    config = released_files.read("Qwen3-TTS-12Hz-0.6B-CustomVoice/config.json")
    start, end = config["im_start_token_id"], config["im_end_token_id"]
    head = [start, config["assistant_token_id"], NEWLINE]
    assert tokenize(TEMPLATE_HEAD) == head == [151644, 77091, 198]
    assert tokenize(TEMPLATE_TAIL) == [end, NEWLINE, *head]
    assert tokenize(TEMPLATE_HEAD + "ab" + REFERENCE_TAIL) == [
        *head,
        *ids_of("a", "b"),
        end,
        NEWLINE,
    ]
    assert tokenize("<|im_start|>user\n") == [start, USER, NEWLINE]
    text = Qwen3TTSConfig.from_folder(folder).text
    controls = [added_ids()[f"<tts_{name}>"] for name in ("pad", "text_bos", "text_eod")]
    assert [text.pad, text.bos, text.eos] == controls


def test_every_added_token_has_its_released_id(tokenize: Tokenize) -> None:
    added = added_ids()
    assert sorted(added.values()) == list(range(151643, 151676))
    # A text that spells one out gets it, as in the official template: alone, and inside words.
    for token, token_id in added.items():
        assert tokenize(token) == [token_id]
        assert tokenize(f"a{token}b") == [*ids_of("a"), token_id, *ids_of("b")]
        assert tokenize(f" {token} ") == [*ids_of("Ġ"), token_id, *ids_of("Ġ")]
    assert tokenize("<|im_end |>") == ids_of(*"<|im", "_", "e", "n", "d", "Ġ", "|", ">")


def test_mixed_case_words_are_not_split(tokenize: Tokenize) -> None:
    # Mistral's pattern makes `i` and `Phone`, `Mc` and `Donald` of them, out of reach of a merge.
    assert tokenize("iPhone") == ids_of("iP", "ho", "n", "e")
    assert tokenize("McDonald") == ids_of("M", "cD", "o", "n", "a", "l", "d")


@pytest.mark.parametrize("model_type", ["mistral", None])
def test_mistrals_pattern_is_never_applied(
    model_type: str | None, folder: Path, tokenize: Tokenize, tmp_path: Path
) -> None:
    # The conditions under which transformers puts it in; with its flag it does here.
    from transformers import Qwen2TokenizerFast

    copy = shutil.copytree(folder, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    assert config["transformers_version"] == "4.57.3"
    write_json(copy / "config.json", {**config, "model_type": model_type})
    line = "iPhone McDonald"
    patched = Qwen2TokenizerFast.from_pretrained(
        str(copy), local_files_only=True, fix_mistral_regex=True
    )
    assert len(patched) > 100_000
    assert patched(line)["input_ids"] != tokenize(line), "the condition was not reached"
    assert load_tokenizer(copy, ROWS)(line) == tokenize(line)


def test_added_tokens_under_other_ids_are_refused(folder: Path, tmp_path: Path) -> None:
    # transformers numbers them on from the vocabulary's size: cut short, it gave every marker an
    # id the model never saw, without a word.
    copy = shutil.copytree(folder, tmp_path / "copy")
    short = dict(list(vocabulary().items())[:-1])
    write_json(copy / "vocab.json", short)
    with pytest.raises(CheckpointError, match=r"<\|endoftext\|>' has the id 151643, but .*151642"):
        load_tokenizer(copy, ROWS)


TEXTS = [
    "It's late; they're HERE, aren't they? I'LL go.",
    "iPhone McDonald user assistant users Assistant",
    "12 345,678.90 -5 % 3rd \u00bd \u0661\u0662 \u2160\u2161",
    "a   b\t\tc \r\n\r\n  d\n e \u00a0f\u3000g ",
    "e\u0301 \u00e9 \u212b \ufb01 \u1e9b\u0323",  # what NFC joins, and what it leaves
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u3053\u3093 \ud55c\uad6d\uc5b4 \u0627\u0644",
    "\U0001f600\U0001f468\u200d\U0001f469 \ufffd \x00\x7f",
    "<|im_start|>user\n<tts_pad><|im_end|><|endoftext|> <|im_end |>",
    "",
    " ",
]


def test_ids_are_those_of_transformers(folder: Path) -> None:
    ours, theirs = read_released(folder), read_by_transformers(folder)
    assert is_as_released(folder)
    assert ours.get_vocab() == theirs.get_vocab()
    for text in TEXTS:
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, add_special_tokens=False).ids == expected, text


def with_settings(folder: Path, tmp_path: Path, change: dict[str, Any]) -> Path:
    """Return a copy of a tokenizer with other settings."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    settings = json.loads((copy / "tokenizer_config.json").read_text(encoding="utf-8"))
    write_json(copy / "tokenizer_config.json", {**settings, **change})
    return copy


@pytest.mark.parametrize(
    "change",
    [
        {"eos_token": "<stop>", "additional_special_tokens": ["<one>", "<stop>", "<two>"]},
        {"pad_token": None, "unk_token": None, "eos_token": None},
        {"eos_token": {"__type": "AddedToken", "content": "<stop>"}},
    ],
)
def test_tokens_that_settings_only_name_get_the_same_ids(
    change: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    copy = with_settings(folder, tmp_path, change)
    ours, theirs = read_released(copy), read_by_transformers(copy)
    assert ours.get_vocab() == theirs.get_vocab()
    text = "a<stop> <one><two>"
    expected = theirs.encode(text, add_special_tokens=False).ids
    assert ours.encode(text, add_special_tokens=False).ids == expected


@pytest.mark.parametrize(
    "change",
    [
        {"tokenizer_class": "LlamaTokenizer"},
        {"add_prefix_space": True},
        {"split_special_tokens": 1},
    ],
)
def test_other_settings_are_left_to_transformers(
    change: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    copy = with_settings(folder, tmp_path, change)
    assert not is_as_released(copy)


def test_a_tokenizer_in_one_file_is_left_to_transformers(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    read_released(copy).save(str(copy / "tokenizer.json"))
    assert not is_as_released(copy)
    assert load_tokenizer(copy, ROWS)("iPhone") == load_tokenizer(folder, ROWS)("iPhone")

"""The text tokenizer: byte-level BPE with the plain Qwen2 pre-tokenizer.

Released are `vocab.json`, `merges.txt` and added tokens in `tokenizer_config.json`. The tokenizers
library can read these alone; transformers, which takes a second to import, reads other layouts, and
the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.base import Tokenizer, library_errors
from models.checkpoint.config import Section
from models.checkpoint.files import CheckpointError, read_json
from models.family import tokenizer_of
from models.qwen3_tts.prompt import ROLE_TOKENS, TAIL_TOKENS, TEMPLATE_HEAD, TEMPLATE_TAIL

if TYPE_CHECKING:
    import tokenizers

VOCAB, MERGES, SETTINGS = "vocab.json", "merges.txt", "tokenizer_config.json"
WHOLE = "tokenizer.json"  # in which the tokenizers library stores all of it
CLASSES = ("Qwen2Tokenizer", "Qwen2TokenizerFast")
END = "<|endoftext|>"
NAMED = {"unk_token": END, "bos_token": None, "eos_token": END, "pad_token": END}  # and defaults
OTHERWISE = ("add_prefix_space", "split_special_tokens")  # settings that must be off
# Source: transformers, `Qwen2Tokenizer`; contractions, words, single digits, signs, white space.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def load_tokenizer(folder: Path, vocab_size: int) -> Tokenizer:
    """Return the tokenizer of a checkpoint; special tokens are recognised. Raises CheckpointError:
    it cannot be read, lacks the template's tokens, or has ids beyond vocab_size.
    """
    is_pair = all((folder / name).is_file() for name in (VOCAB, MERGES))
    if not is_pair and not (folder / WHOLE).is_file():
        # transformers would accept an empty vocabulary.
        raise CheckpointError(f"{folder}: its tokenizer is missing ({VOCAB} and {MERGES})")
    with library_errors(CheckpointError, f"{folder}: its tokenizer cannot be read"):
        read = read_released if is_as_released(folder) else read_by_transformers
        tokenizer = read(folder)
        ids = tokenizer.get_vocab(with_added_tokens=True)
    _check_added_tokens(folder, ids)
    largest = max(ids.values())
    tokenize = tokenizer_of(tokenizer, f"{folder}: its tokenizer")
    with library_errors(CheckpointError, f"{folder}: its tokenizer"):
        role, tail = tokenize(TEMPLATE_HEAD), tokenize(TEMPLATE_TAIL)
    if len(role) != ROLE_TOKENS or len(tail) != TAIL_TOKENS or largest >= vocab_size:
        raise CheckpointError(
            f"{folder}: its tokenizer does not fit: the chat template takes {len(role)} and "
            f"{len(tail)} "
            f"tokens instead of {ROLE_TOKENS} and {TAIL_TOKENS}, or an id ({largest}) is "
            f"not below {vocab_size}"
        )
    return tokenize


def is_as_released(folder: Path) -> bool:
    files = [(folder / name).is_file() for name in (VOCAB, MERGES, SETTINGS)]
    if not all(files) or (folder / WHOLE).is_file():
        return False
    settings = read_json(folder / SETTINGS)
    if not isinstance(settings, dict) or settings.get("tokenizer_class") not in CLASSES:
        return False
    return not any(settings.get(name) for name in OTHERWISE)


def read_released(folder: Path) -> tokenizers.Tokenizer:
    """Return the tokenizer of the released files. Raises the library's own errors."""
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
    from tokenizers import Tokenizer as Library

    tokenizer = Library(models.BPE.from_file(str(folder / VOCAB), str(folder / MERGES)))
    tokenizer.normalizer = normalizers.NFC()
    words = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated", invert=False)
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, letters])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(list(_added_tokens(read_json(folder / SETTINGS))))
    return tokenizer


def _added_tokens(settings: dict[str, Any]) -> Iterator[tokenizers.AddedToken]:
    """Yield the tokens after the vocabulary, in the order of their ids; then those that settings
    name without listing them.
    """
    from tokenizers import AddedToken

    listed = settings.get("added_tokens_decoder") or {}
    found = set()
    for _, token in sorted(listed.items(), key=lambda item: int(item[0])):
        flags = ("single_word", "lstrip", "rstrip", "special", "normalized")
        given = {name: bool(token[name]) for name in flags if name in token}
        found.add(token["content"])
        yield AddedToken(token["content"], **given)
    named = [settings.get(name, default) for name, default in NAMED.items()]
    for token in [*named, *(settings.get("additional_special_tokens") or [])]:
        content = token["content"] if isinstance(token, dict) else token
        if content and content not in found:
            found.add(content)
            yield AddedToken(content, special=True)


def read_by_transformers(folder: Path) -> tokenizers.Tokenizer:
    """Return the tokenizer as transformers reads it. Raises any error."""
    from transformers import Qwen2TokenizerFast  # type: ignore[attr-defined]  # made when asked for

    made = Qwen2TokenizerFast.from_pretrained(
        str(folder), local_files_only=True, fix_mistral_regex=False
    )
    return made.backend_tokenizer


def _check_added_tokens(folder: Path, ids: dict[str, int]) -> None:
    """Refuse added tokens with other ids than in `tokenizer_config.json`. Libraries number them
    from the size of `vocab.json` on, whatever their ids there.
    """
    path = folder / SETTINGS
    if not path.is_file():
        return
    added = Section.from_file(path).section_or_empty("added_tokens_decoder")
    for key in added.values:
        token = added.section(key).get("content", str)
        if str(ids.get(token)) != key:
            raise added.wrong(
                f"{token!r} has the id {key}, but after {folder / VOCAB} it gets "
                f"{ids.get(token)}; is the vocabulary complete?"
            )

"""Detect the encoding of a manifest: UTF-8, UTF-16 as Excel writes it, or an older one.

A mark at the start says it, and so does a text that is UTF-8 from end to end, which no other is by
chance. The rest is judged by charset-normalizer, and told with words of the file, for it is a
guess: Windows' western code page has it where nothing else fits better.
"""

from __future__ import annotations

import codecs
import io
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from tts_cli.errors import ManifestError, UsageError

log = logging.getLogger(__name__)

UTF_8 = "utf-8"
BLOCK_BYTES = 1 << 16
MAX_SAMPLE_BYTES = 1 << 16
_MARKS = (  # longest first: UTF-32 begins as UTF-16 does
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = "cp1252"
_OLD = (
    *(_WESTERN, "cp1250", "cp1251", "cp1253", "cp1254", "cp1257"),
    *("cp932", "gb18030", "big5", "cp949", "euc_jp", "koi8_r", "mac_roman", "cp850"),
)
_SLACK = 0.03  # of coherence, by which the western one may lie behind
_NUL_SHARE = 0.2  # of bytes at even, or at odd places: UTF-16 without a mark
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_NO_WORD = re.compile(r"[^\W\d_][¹³¿][^\W\d_]")  # Polish, read as another language
_MAX_WORDS = 3


@dataclass(frozen=True)
class Encoding:
    """How a manifest's bytes become text."""

    name: str = UTF_8  # as Python calls it
    reason: str = ""  # why; empty where there is nothing to tell
    words: str = ""  # some that show whether it is right; empty where it is certain


def known_encoding(name: str) -> str:
    """Python's name of an encoding of text. Raises UsageError."""
    try:
        found = codecs.lookup(name)
        "".encode(name)  # not one that turns bytes into bytes
    except (LookupError, ValueError):
        raise UsageError(
            f"--encoding {name!r}: is not an encoding",
            remedy="such as utf-8, utf-16, cp1252, cp1251, shift_jis, gb18030 or mac_roman",
        ) from None
    return found.name


def marked_encoding(start: bytes) -> Encoding | None:
    """What the first bytes of a file say, by a mark or by NULs between letters."""
    for mark, name in _MARKS:
        if start.startswith(mark):
            reason = "" if name == UTF_8 else "by its byte order mark"
            return Encoding(name, reason)
    half = len(start) // 2
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if half > 1 and start[first : 2 * half : 2].count(0) > _NUL_SHARE * half:
            return Encoding(name, "by the NULs between its letters")
    return None


def find_encoding(blocks: Iterable[bytes]) -> Encoding:
    """The encoding of a text, given whole, in blocks."""
    decode = codecs.getincrementaldecoder(UTF_8)("replace").decode
    sample = bytearray()
    is_utf8, num_bad, num_good = True, 0, 0
    rest = b""
    is_first = True
    for block in blocks:
        if is_first and (marked := marked_encoding(block)):
            return marked  # by UTF-8's mark too: then bytes that are not are mistakes
        is_first = False
        if block.isascii() and not rest and is_utf8:
            decode(block)  # ends what a block before may have left
            continue
        text = decode(block)
        bad = text.count("\ufffd")
        num_bad += bad
        if not block.isascii():
            num_good += sum(map(len, re.findall(r"[^\x00-\x7f\ufffd]+", text)))
        is_utf8 = is_utf8 and not bad
        if len(sample) < MAX_SAMPLE_BYTES:
            lines = (rest + block).split(b"\n")
            rest = lines.pop()[-MAX_SAMPLE_BYTES:]
            sample += b"\n".join(line for line in lines if not line.isascii()) + b"\n"
    num_bad += decode(b"", final=True).count("\ufffd")
    if not num_bad or num_good > num_bad:
        return Encoding()  # lines with bytes that are not are told one by one
    if not rest.isascii():
        sample += rest
    return _old_encoding(bytes(sample[:MAX_SAMPLE_BYTES]))


def _old_encoding(sample: bytes) -> Encoding:
    if _NO_TEXT.search(sample):  # then its lines are told one by one
        return Encoding()
    from charset_normalizer import from_bytes

    every = list(from_bytes(sample, cp_isolation=list(_OLD)))
    found = [match for match in every if not _NO_WORD.search(str(match))] or every
    name = found[0].encoding if found else _WESTERN
    for match in found:
        is_western = _WESTERN in match.could_be_from_charset
        if is_western and match.coherence >= found[0].coherence - _SLACK:
            name = _WESTERN
            break
    try:
        text = codecs.getincrementaldecoder(name)().decode(sample)  # the sample may end amid a sign
    except UnicodeError:
        return Encoding()  # of none that is known: its lines are told one by one
    # Whole words first: a pattern for those with such a letter would try each letter of a long one.
    telling = [word for word in re.findall(r"\w+", text) if not word.isascii()]
    words = dict.fromkeys(telling or re.findall(r"\S+", text))
    shown = ", ".join(word[:20] for word in list(words)[:_MAX_WORDS])
    return Encoding(name, "detected from its letters", shown)


def tell_encoding(found: Encoding, name: str) -> Encoding:
    """Log how a file is read, where there is anything to tell; the same again."""
    if found.words:
        log.warning(
            "%s: not UTF-8, read as %s, %s: %s; if that is wrong, give another with --encoding",
            name,
            found.name,
            found.reason,
            found.words,
        )
    elif found.name != UTF_8:
        log.info("%s: read as %s, %s", name, found.name.upper(), found.reason)
    return found


def as_utf8(file: BinaryIO, encoding: str, name: str) -> BinaryIO:
    """The same text in UTF-8. Reading raises ManifestError where it is not of that encoding.

    Args:
        name: what messages call the file.
    """
    if codecs.lookup(encoding).name == UTF_8:
        return file
    return cast(BinaryIO, io.BufferedReader(_Recoded(file, encoding, name), BLOCK_BYTES))


def blocks_of(file: BinaryIO) -> Iterator[bytes]:
    """A file's bytes to its end."""
    while block := file.read(BLOCK_BYTES):
        yield block


class _Recoded(io.RawIOBase):
    """A file's text as UTF-8."""

    def __init__(self, file: BinaryIO, encoding: str, name: str) -> None:
        self._file = file
        self._encoding = encoding
        self._name = name
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._place = 0
        self._left = b""
        self._is_at_end = False

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer, or part of it."""
        while not self._left and not self._is_at_end:
            block = self._file.read(BLOCK_BYTES)
            self._is_at_end = not block
            try:
                self._left = self._decoder.decode(block, final=not block).encode()
            except UnicodeError as error:
                start = getattr(error, "start", 0)
                raise ManifestError(
                    f"{self._name}: is not {self._encoding} (near byte {self._place + start + 1})",
                    remedy="save it as UTF-8, or give its encoding with --encoding",
                ) from None
            self._place += len(block)
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()

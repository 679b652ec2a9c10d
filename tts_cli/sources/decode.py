"""Detect the encoding of a manifest: UTF-8, UTF-16 as Excel writes it, or an older one.

A byte order mark decides, or valid UTF-8 from start to end. Otherwise charset-normalizer guesses,
with preference for Windows' western code page, and words of the file are logged for the user to
check.
"""

from __future__ import annotations

import codecs
import io
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, TextIO

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
    *(_WESTERN, "cp1250", "iso8859_2", "cp1251", "cp1253", "cp1254", "cp1257"),
    *("cp932", "gb18030", "big5", "cp949", "euc_jp", "koi8_r", "mac_roman", "cp850"),
)
_SLACK = 0.06  # by which the coherence of the western one may be lower
_NUL_SHARE = 0.2  # of bytes at even, or at odd places: UTF-16 without a mark
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")
# Signs inside of words that show a wrong encoding: of Polish, of DOS and the Mac read as Windows',
# of Hungarian and Croatian read as western, of Japanese read as Korean.
_NO_WORD = re.compile(
    r"[^\W\d_][±¹³¿‚„†‡ˆ‰§ƒ][^\W\d_]|[a-zß-ÿ][À-ÖØ-ÞŠŒŽŸˇ]|[a-z]õ\b|[가-힣][ㄱ-ㆎ][가-힣]"
    r"|[aeiou]æ[aeiou]|[◊∞░-▓]|[Łł]\d|\d[\u0370-\u04ff]\d|(?<![ｦ-ﾟ])[ｦ-ﾟ](?=[A-Za-z0-9 ])"
)
_JIS = re.compile(rb"\x1b\$[@B]|\x1b\([IJ]")  # ISO-2022-JP changes its set of characters
_ESCAPED = re.compile("[\udc80-\udcff]")  # a byte that is not UTF-8
_LINE_END = re.compile(rb"[\r\n]")
_MAX_WORDS = 3
# Signs of English texts in cp1252: after an ASCII letter, digit or mark or before one, a dash, an
# ellipsis, quotation marks, signs of money and trade, a bullet; a single sign between two letters
# can be an apostrophe alone.
_WESTERN_SIGNS = re.compile(
    rb"(?<=[A-Za-z])\x92(?=[A-Za-z])"
    rb"|(?<![\x80-\xff])[\x80\x85\x91-\x97\x99\xa0\xa2\xa3\xa7\xa9\xae\xb0\xb7\xbc-\xbe\xd7]{1,2}"
    rb"(?![\x80-\xffA-Za-z])"
    rb"|(?<![\x80-\xffA-Za-z])[\x80\x85\x91\x93\x95-\x97\xa3\xa7\xa9\xd7](?=[A-Za-z\d])"
    rb"|(?<=[A-Za-z])(?:\x85|\x96|\x97)(?=[A-Za-z])"
)


@dataclass(frozen=True)
class Encoding:
    name: str = UTF_8  # as Python calls it
    reason: str = ""  # for the log; empty: nothing to log
    words: str = ""  # examples that show whether a guess is right; empty: it is certain


def known_encoding(name: str) -> str:
    """Return Python's name of a text encoding. Raises UsageError."""
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
    """Return the encoding by a byte order mark, or by NULs between letters, in the first bytes."""
    for mark, name in _MARKS:
        if start.startswith(mark):
            reason = "" if name == UTF_8 else "by its byte order mark"
            return Encoding(name, reason)
    half = len(start) // 2
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        text = codecs.getincrementaldecoder(name)("replace").decode(start)
        is_text = "\n" in text and "".join(text.split()).isprintable()  # of few NULs: Japanese
        num_nuls = start[first : 2 * half : 2].count(0)
        if half > 1 and num_nuls and (is_text or num_nuls > _NUL_SHARE * half):
            return Encoding(name, "by the NULs between its letters")
    return None


def find_encoding(blocks: Iterable[bytes]) -> Encoding:
    """Return the encoding of a text, which is given whole in blocks."""
    decode = codecs.getincrementaldecoder(UTF_8)("surrogateescape").decode
    sample = bytearray()
    is_utf8, num_bad, num_good = True, 0, 0
    rest = b""
    is_first = True
    for block in blocks:
        if is_first and (marked := marked_encoding(block)):
            return marked  # with a mark of UTF-8, invalid bytes are errors
        is_first = False
        if _JIS.search(block):
            return Encoding("iso2022_jp_ext", "by its escape sequences")
        if block.isascii() and not rest and is_utf8:
            decode(block)  # completes a character of the block before
            continue
        text = decode(block)
        bad = len(_ESCAPED.findall(text))
        num_bad += bad
        if not block.isascii():
            num_good += sum(map(len, re.findall("[^\x00-\x7f\udc80-\udcff]+", text)))
        is_utf8 = is_utf8 and not bad
        if len(sample) < MAX_SAMPLE_BYTES:
            lines = _LINE_END.split(rest + block)
            rest = lines.pop()[-MAX_SAMPLE_BYTES:]
            sample += b"\n".join(line for line in lines if not line.isascii()) + b"\n"
    num_bad += len(decode(b"", final=True))
    if not num_bad or num_good > num_bad:
        return Encoding()  # lines with invalid bytes are reported one by one
    if not rest.isascii():
        sample += rest
    if len(sample) > MAX_SAMPLE_BYTES:  # cut where a line ends, not inside of a character
        end = sample.rfind(b"\n", 0, MAX_SAMPLE_BYTES)
        del sample[end if end > 0 else MAX_SAMPLE_BYTES :]
    return _old_encoding(bytes(sample))


def _old_encoding(sample: bytes) -> Encoding:
    if _NO_TEXT.search(sample):  # then its lines are reported one by one
        return Encoding()
    if _is_western(sample):
        return Encoding(_WESTERN, "detected from its letters", _telling_words(sample, _WESTERN))
    from charset_normalizer import from_bytes

    every = list(from_bytes(sample, cp_isolation=list(_OLD)))
    found = [match for match in every if not _NO_WORD.search(str(match))] or every
    name = found[0].encoding if found else _WESTERN
    for match in found:
        is_western = _WESTERN in match.could_be_from_charset
        if is_western and match.coherence >= found[0].coherence - _SLACK:
            name = _WESTERN
            break
    words = _telling_words(sample, name)
    # Without words, no known encoding fits, and lines are reported one by one.
    return Encoding(name, "detected from its letters", words) if words else Encoding()


def _is_western(sample: bytes) -> bool:
    """Return whether all bytes that are not ASCII are cp1252 punctuation of English texts: no
    letters, and only an apostrophe between two letters.
    """
    rest = _WESTERN_SIGNS.sub(b"", sample)
    return rest.isascii() and len(rest) < len(sample)


def _telling_words(sample: bytes, name: str) -> str:
    """Return some words that show whether an encoding is right; "" if it is wrong."""
    try:
        text = codecs.getincrementaldecoder(name)().decode(sample)  # may end amid a sign
    except UnicodeError:
        return ""
    # Whole words first: a pattern for words with such a letter would try each letter of long words.
    telling = [word for word in re.findall(r"\w+", text) if not word.isascii()]
    telling = telling or [word for word in re.findall(r"\S+", text) if not word.isascii()]
    words = dict.fromkeys(telling or re.findall(r"\S+", text))
    return ", ".join(word[:20] for word in list(words)[:_MAX_WORDS])


def tell_encoding(found: Encoding, name: str) -> Encoding:
    """Log how a file is read, unless it is plain UTF-8, and return the encoding."""
    if found.words:
        told = "%s: not UTF-8, read as %s, %s: %s; if that is wrong, give another with --encoding"
        log.warning(told, name, found.name, found.reason, found.words)
    elif found.name != UTF_8:
        log.info("%s: read as %s, %s", name, found.name.upper(), found.reason)
    return found


@contextmanager
def open_text(file: BinaryIO, encoding: str, name: str) -> Iterator[TextIO]:
    """Decode a file. In UTF-8, invalid bytes come as lone surrogates, so that their lines are
    reported one by one; in other encodings, reading raises ManifestError inside the block.
    """
    is_utf8 = codecs.lookup(encoding).name == UTF_8
    errors = "surrogateescape" if is_utf8 else "strict"
    text = io.TextIOWrapper(file, encoding, errors=errors, newline="\n")
    try:
        start = text.read(MAX_SAMPLE_BYTES)
        text.seek(0)
        if "\r" in start and "\n" not in start:
            text.reconfigure(newline="\r")  # as the first Macs wrote it
        yield text
    except UnicodeDecodeError as error:
        place = file.tell() - len(error.object) + error.start + 1
        raise ManifestError(
            f"{name}: is not {encoding} (near byte {place})",
            remedy="save it as UTF-8, or give its encoding with --encoding",
        ) from None
    finally:
        text.detach()


def blocks_of(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(BLOCK_BYTES):
        yield block


# UTF-8 that was read as cp1252: its first byte of two or three is one of few letters, and what
# follows a capital letter can be a closing quotation mark.
_HIGH = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
_MAY_BE_GARBLED = re.compile(
    rf"\ufffd|(?<![A-ZÀ-Þ])[ÂÃÅÄâ][{_HIGH}]{{1,2}}|(?:[ÐÑ][{_HIGH}]){{2,}}"
)


def garbled(text: str) -> str:
    """Return the first piece of a text that was decoded in a wrong encoding, or ""."""
    for found in _MAY_BE_GARBLED.finditer(text):
        piece = found.group()
        for length in range(len(piece), 0, -1):
            raw = b"".join(_byte_of(char) for char in piece[:length])
            if piece == "\ufffd" or (length > 1 and _is_utf8(raw)):
                return piece[:length]
    return ""


def _byte_of(char: str) -> bytes:
    """Return the byte of a character in cp1252, or in latin-1 for the five bytes cp1252 lacks."""
    try:
        return char.encode(_WESTERN)
    except UnicodeEncodeError:
        return char.encode("latin-1", "replace")


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True

"""Read tables of translated strings: gettext's .po and, in XML, strings of Android, XLIFF 1.2 and
2, .resx of .NET and .ts of Qt.

Strings without a translation are left out and counted. A file without any, such as a .pot, gives
its source texts. The id is the first kind of key that every text has and no two share.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from tts_cli.errors import ManifestError, library_errors
from tts_cli.extras import load
from tts_cli.named import counted
from tts_cli.sources.archive import read_bounded
from tts_cli.sources.decode import find_encoding
from tts_cli.sources.html import parse_xml, tag_of
from tts_cli.sources.ids import as_id, fold_id
from tts_cli.sources.item import Item, ManifestFile

log = logging.getLogger(__name__)

MAX_BYTES = 64 << 20
_KEY = re.compile(r"[A-Z][A-Z0-9]+|(?=\S*[_./:\d-])[^\W\d][\w./:-]*")  # others are texts
_CHARSET = re.compile(rb"Content-Type:[^\n]*charset=((?!CHARSET)[\w.-]{1,40})")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": " "}
_NATIVE = ("ph", "bpt", "ept", "it", "x", "bx", "ex", "sc", "ec")  # code inside of a text
_REFERENCE = re.compile(r"\s*@(?:[\w.]+:)?string/\S+\s*")  # to another string of Android
_MNEMONIC = re.compile(r"&(?=[&\w])")  # before the letter of a key, in Qt
_OUTDATED = ("unfinished", "vanished", "obsolete")


class _Entry(NamedTuple):
    line: int
    keys: tuple[str, ...]  # that may be its id, the best one first
    source: str  # as the program has it
    text: str  # the translation, "" without one
    extra: dict[str, str]


def po_items(file: BinaryIO, manifest: ManifestFile) -> Iterator[Item]:
    """Return an item per translation of a .po file, or per text of a .pot file."""
    name = manifest.name
    polib = load("strings", "polib", f"{name}: .po")
    data = read_bounded(file, MAX_BYTES, name)
    declared = _CHARSET.search(data, 0, 10_000)
    encoding = manifest.rules.encoding or (declared and declared[1].decode())
    with library_errors(name, "check it with msgfmt"):
        content = data.decode(encoding or find_encoding([data]).name, "replace")
        content = "\n" + content.removeprefix("\ufeff")  # no path of a file
        entries = [one for one in polib.pofile(content) if not one.obsolete]
    found, num_fuzzy = [], 0
    for one in entries:
        if one.fuzzy:
            num_fuzzy += 1
            continue
        extra = {"context": one.msgctxt, "comment": one.comment, "source": one.msgid}
        extra = {key: value for key, value in extra.items() if value}
        plural = one.msgstr_plural
        texts = plural or {"": one.msgstr}
        key = one.msgid if _KEY.fullmatch(one.msgid) else ""
        for form, text in texts.items():
            end = f"/{form}" if plural else ""
            keys = tuple(known and known + end for known in (one.msgctxt or "", key))
            found.append(_Entry(max(1, one.linenum - 1), keys, one.msgid, text, extra))
    if num_fuzzy:
        log.warning(
            "%s: %s marked fuzzy, not read",
            name,
            counted(num_fuzzy, "translation is", "translations are"),
        )
    yield from _items(found, name)


def xml_items(file: BinaryIO, manifest: ManifestFile) -> Iterator[Item]:
    """Return an item per string of a table in XML."""
    name = manifest.name
    root = parse_xml(read_bounded(file, MAX_BYTES, name), name)
    reader = _READERS.get(tag_of(root))
    if reader is None:
        raise ManifestError(
            f"{name}: is XML of an unknown kind",
            "string tables are Android's, XLIFF, .resx and Qt's; write others as .csv or .jsonl",
        )
    yield from _items(list(reader(root)), name)


def _items(entries: list[_Entry], name: str) -> Iterator[Item]:
    has_translation = any(one.text for one in entries)
    read = [one for one in entries if one.text or not has_translation]
    if len(read) < len(entries):
        left_out = counted(len(entries) - len(read), "text")
        log.warning("%s: %s without a translation left out", name, left_out)
    ids: list[str] = []
    for keys in zip(*(one.keys for one in read), strict=True):
        ids = list(map(as_id, keys))
        if all(ids) and len(set(map(fold_id, ids))) == len(ids):
            break
        ids = []
    for nth, one in enumerate(read):
        text = one.text if has_translation else one.source
        extra = {key: value for key, value in one.extra.items() if value != text}
        yield Item(one.line, {"id": ids[nth], "text": text} if ids else {"text": text}, extra)


def _text(element: Any) -> str:
    if element is None:
        return ""
    pieces = [element.text or ""]
    for inner in element:
        shown = inner.get("equiv-text") or inner.get("disp") or ""
        pieces += [shown if tag_of(inner) in _NATIVE and not len(inner) else _text(inner)]
        pieces.append(inner.tail or "")
    return "".join(pieces)


def _android(root: Any) -> Iterator[_Entry]:
    for one in root:
        key = one.get("name") or ""
        inner = one.iterfind("{*}item") if tag_of(one) in ("plurals", "string-array") else ()
        strings = [(key, one)] if tag_of(one) == "string" else []
        strings += [
            (f"{key}/{item.get('quantity') or nth}", item) for nth, item in enumerate(inner)
        ]
        for name, string in strings:
            text = _REFERENCE.sub("", _text(string))
            text = _ESCAPE.sub(_unescaped, re.sub(r"\s+|(?<!\\)\"", _as_android, text))
            yield _Entry(string.sourceline, (name,), "", text.strip(), {})


def _as_android(found: re.Match[str]) -> str:
    return " " if found[0].isspace() else ""  # a quotation mark only protects spaces


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2])


def _xliff(root: Any) -> Iterator[_Entry]:
    for unit in root.iter("{*}trans-unit", "{*}unit"):
        file = next(unit.iterancestors("{*}file"))
        segments = list(unit.iter("{*}segment", "{*}ignorable")) or [unit]
        source, text = (
            "".join(_text(one.find(f"{{*}}{tag}")) for one in segments)
            for tag in ("source", "target")
        )
        keys = [unit.get("resname") or unit.get("name") or "", unit.get("id") or ""]
        keys.append(f"{file.get('original') or file.get('id')}/{unit.get('id')}")
        note = _text(unit.find(".//{*}note"))
        extra = {"source": source, "note": note} if note else {"source": source}
        yield _Entry(unit.sourceline, tuple(keys), source, text, extra)


def _resx(root: Any) -> Iterator[_Entry]:
    for one in root.iterfind("{*}data"):
        key = one.get("name") or ""
        is_object = one.get("type") or one.get("mimetype")  # such as a picture
        if not is_object and not key.startswith(">>"):  # the form's designer wrote those
            comment = _text(one.find("{*}comment"))
            extra = {"comment": comment} if comment else {}
            yield _Entry(one.sourceline, (key,), "", _text(one.find("{*}value")), extra)


def _qt(root: Any) -> Iterator[_Entry]:
    for one in root.iter("{*}message"):
        translation = one.find("{*}translation")
        is_good = translation is not None and translation.get("type") not in _OUTDATED
        context = _text(one.getparent().find("{*}name"))
        source = _text(one.find("{*}source"))
        forms = list(one.iterfind("{*}translation/{*}numerusform")) or [translation]
        extra = {"context": context, "source": source}
        for nth, form in enumerate(forms):
            text = _MNEMONIC.sub("", _text(form)) if is_good else ""
            key = (one.get("id") or "") + (f"/{nth}" if one.get("id") and forms[1:] else "")
            yield _Entry(one.sourceline, (key,), source, text, extra)


_READERS = {"resources": _android, "xliff": _xliff, "root": _resx, "ts": _qt}

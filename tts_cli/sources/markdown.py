"""Read Markdown as a person would read it aloud, by markdown-it-py (CommonMark with tables).

Read: headings, paragraphs, quotations, lists without their marks, a table row by row, the text of
links and emphasis, code inside a sentence. Not read, and counted in the warnings: images with their
alternative text, code blocks, HTML, and footnotes, both the marks and what they say: a listener
cannot glance down the page. `---` and `* * *` are scene breaks. Of the front matter of static site
generators `title`, `author` and `lang` (or `language`) are taken, if they stand on a line each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tts_cli.errors import ManifestError
from tts_cli.sources.chapters import BREAK, Block, Heading, SceneBreak, Text, joined, parted

MAX_NESTING = 60  # of lists and quotations

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:[^\n]*\n){0,200}?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_FRONT_KEY = re.compile(r"\A---[ \t]*\n[A-Za-z_][\w -]{0,60}:")
_FRONT_ENTRY = re.compile(r"^([A-Za-z_][\w-]{0,60}):[ \t]+([^\s\[{|>&*!#][^\n]*?)[ \t]*$", re.M)
_NOTE = re.compile(r" {0,3}\[\^[^\]\s]{1,64}\]:")
_NOTE_MARK = re.compile(r"\[\^[^\]\s]{1,64}\]")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_LEFT_OUT = {
    "image": "an image",
    "code": "a code block",
    "html": "HTML",
    "note": "a footnote",
}


class MarkdownReader:
    """One Markdown text.

    Args:
        text: with line ends as newlines.
        name: of the file, for messages.
    """

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._left_out: Counter[str] = Counter()
        self._first: dict[str, int] = {}  # the line where something was left out first
        self.front = _front_matter(text)  # key, in small letters -> value
        self._text = self._without_notes(_without_front_matter(text))

    def blocks(self) -> Iterator[Block]:
        """The blocks of the text in order.

        Raises:
            ManifestError: lists or quotations are nested too deep.
        """
        tokens = self._parse()
        heading = row_line = 0
        row: list[str] | None = None  # the cells of a table's row
        for token in tokens:
            line = token.map[0] + 1 if token.map else 0
            if token.type == "heading_open":
                heading = int(token.tag[1:])
            elif token.type == "heading_close":
                heading = 0
            elif token.type == "hr":
                yield SceneBreak()
            elif token.type in ("fence", "code_block"):
                self._leave_out("code", line)
            elif token.type == "html_block":
                block = token.content.strip()
                if not (block.startswith("<!--") and block.endswith("-->")):
                    self._leave_out("html", line)
            elif token.type == "tr_open":
                row, row_line = [], line
            elif token.type == "tr_close" and row is not None:
                yield Text(", ".join(filter(None, row)), f"{self._name}:{row_line}")
                row = None
            elif token.type == "inline":
                text = self._spoken(token, line)
                if row is not None:
                    row.append(joined(text))
                elif heading:
                    yield Heading(joined(text), heading, f"{self._name}:{line}")
                else:
                    yield from (Text(part, f"{self._name}:{line}") for part in parted(text))

    def warnings(self) -> list[str]:
        """What was left out, once `blocks` has ended."""
        return [
            f"{self._name}:{self._first[kind]}: {_LEFT_OUT[kind]} is left out"
            + (f", and so are {times - 1} more" if times > 1 else "")
            for kind, times in self._left_out.items()
        ]

    def _parse(self) -> list[Token]:
        parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable("table")
        try:
            tokens = parser.parse(self._text)
        except RecursionError:
            raise self._too_deep() from None
        # Deeper blocks are dropped by the parser without a word.
        if any(token.level >= MAX_NESTING - 1 for token in tokens):
            raise self._too_deep()
        return tokens

    def _too_deep(self) -> ManifestError:
        return ManifestError(
            f"{self._name}: lists or quotations are nested too deep", remedy="use fewer levels"
        )

    def _spoken(self, inline: Token, line: int) -> str:
        """What is read of a paragraph."""
        pieces: list[str] = []
        for token in inline.children or ():
            if token.type in ("text", "code_inline", "text_special"):
                pieces.append(token.content)
            elif token.type == "softbreak":
                pieces.append("\n")
            elif token.type == "hardbreak":
                pieces.append(BREAK)
            elif token.type == "image":
                self._leave_out("image", line)
            elif token.type == "html_inline" and _LINE_BREAK.fullmatch(token.content):
                pieces.append(BREAK)
        return self._without_note_marks("".join(pieces), line)

    def _without_note_marks(self, text: str, line: int) -> str:
        text, times = _NOTE_MARK.subn("", text)
        if times:
            self._leave_out("note", line, times)
        return text

    def _without_notes(self, text: str) -> str:
        """The text with every footnote's own lines empty, so that other lines keep their number."""
        lines = text.split("\n")
        fence, is_note, is_blank = "", False, True
        for index, line in enumerate(lines):
            found = _FENCE.match(line)
            was_blank, is_blank = is_blank, not line.strip()
            if found and (not fence or found[1].startswith(fence)):
                fence = "" if fence else found[1]
                is_note = False
            elif not fence and _NOTE.match(line):
                is_note = True
            elif line.startswith("#") or (
                was_blank and not is_blank and not line.startswith(("    ", "\t"))
            ):
                is_note = False
            if is_note:
                lines[index] = ""
        return "\n".join(lines)

    def _leave_out(self, kind: str, line: int, times: int = 1) -> None:
        self._left_out[kind] += times
        self._first.setdefault(kind, line)


def _front_matter(text: str) -> dict[str, str]:
    """The plain entries of the front matter; an entry of several lines is none."""
    found = _FRONT_MATTER.match(text) if _FRONT_KEY.match(text) else None
    if found is None:
        return {}
    return {
        entry[1].lower(): entry[2].strip("\"'")[:200]
        for entry in _FRONT_ENTRY.finditer(found.group())
    }


def _without_front_matter(text: str) -> str:
    """The text with the front matter's lines empty."""
    found = _FRONT_MATTER.match(text) if _FRONT_KEY.match(text) else None
    if found is None:
        return text
    return "\n" * found.group().count("\n") + text[found.end() :]

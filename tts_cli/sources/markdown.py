"""Read Markdown as a person would read it aloud, by markdown-it-py (CommonMark with tables).

Images with their alternative text, code blocks, formulas, HTML, struck-out text and footnotes are
left out, and counted in the warnings. Signs of other dialects are in `data/markdown.toml`.

Front matter (YAML, TOML, Pandoc's title block) and attributes are parsed here: the parser's
extensions take a scene break at the start of a text for front matter, and `{voice=NAME}` for an
attribute.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

from tts_cli.errors import ManifestError
from tts_cli.plain import read_table
from tts_cli.sources.chapters import (
    BREAK,
    LEVEL,
    LOWERED,
    RAISED,
    Block,
    Heading,
    SceneBreak,
    Text,
    joined,
    parted,
    settle_raised,
)

_DIALECTS = Path(__file__).parent / "data" / "markdown.toml"
MAX_NESTING = 60  # of lists and quotations

_FRONT_MATTER = re.compile(
    r"\A(?:---[ \t]*\n(?=[A-Za-z_][\w -]{0,60}:)(?:[^\n]*\n){0,200}?(?:---|\.\.\.)[ \t]*(?:\n|\Z)"
    r"|\+\+\+[ \t]*\n(?:[^\n]*\n){0,200}?\+\+\+[ \t]*(?:\n|\Z)"
    r"|\{[ \t]*\n(?=[ \t]*\")(?:[^\n]*\n){0,200}?\}[ \t]*(?:\n|\Z)"
    r"|(?:%[ \t][^\n]*\n){1,3})"
)
_FRONT_ENTRY = re.compile(
    r"^(?:[ \t]+(?=\"))?\"?([A-Za-z_][\w-]{0,60})\"?(?::[ \t]|[ \t]*=)[ \t]*"
    r"([^\s\[{|>&*!#][^\n]*?),?[ \t]*$",
    re.MULTILINE,
)
_PANDOC_TITLE = ("title", "author", "date")
_NOTE_MARK = re.compile(r"\[\^[^\]\s]{1,64}\]")  # of a missing note
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_HTML_TAG = re.compile(r"<(/?)(sup|sub|s|del|strike)\b[^>]*>", re.IGNORECASE)
_IS_FORMULA = re.compile(r"[\\^_={}+<>]|\A.\Z")  # others are amounts of dollars
_INLINE_CODE = re.compile(r"\{?(?:r|python)\}?[ \t]\S.*[(\[$|].*", re.DOTALL)  # R Markdown, Quarto
_IMAGE, _BLOCK, _HTML, _NOTE = "an image", "a code block", "HTML", "a footnote"
_FORMULA, _STRUCK, _RESULT = "a formula", "text that is struck out", "the result of code"


class MarkdownReader:
    """Reads one Markdown text, whose line ends are newlines."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._counts: Counter[tuple[str, str]] = Counter()  # by kind and treatment
        self._first: dict[tuple[str, str], int] = {}  # line of the first one of a kind
        found = _FRONT_MATTER.match(text)
        matter = found.group() if found else ""
        self.front = _front_matter(matter)  # key, in small letters -> value
        self._text = "\n" * matter.count("\n") + text[len(matter) :]

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks in order. Raises ManifestError if lists are nested too deep."""
        heading = row_line = 0
        number = ""  # of the item of an ordered list, until its first paragraph
        numbers: list[int] = []  # of the next items of the open lists; 0: it has none
        row: list[str] | None = None  # the cells of a table's row
        for token in self._parse():
            line = token.map[0] + 1 if token.map else 0
            if token.type == "footnote_block_open":
                return  # the notes are last
            if token.type == "heading_open":
                heading = int(token.tag[1:])
            elif token.type == "heading_close":
                heading = 0
            elif token.type == "hr":
                yield SceneBreak()
            elif token.type in ("fence", "code_block"):
                self._leave_out(_BLOCK, line)
            elif token.type in ("math_block", "math_block_label"):
                self._leave_out(_FORMULA, line)
            elif token.type == "html_block":
                block = token.content.strip()
                if not (block.startswith("<!--") and block.endswith("-->")):
                    self._leave_out(_HTML, line)
            elif token.type in ("ordered_list_open", "bullet_list_open"):
                start = token.attrGet("start")
                numbers.append(token.tag == "ol" and (1 if start is None else int(start)))
            elif token.type in ("ordered_list_close", "bullet_list_close"):
                numbers.pop()
            elif token.type == "list_item_open":
                number = f"{numbers[-1]}. " if token.info else ""
                numbers[-1] += 1
            elif token.type == "tr_open":
                row, row_line = [], line
            elif token.type == "tr_close" and row is not None:
                yield Text(", ".join(filter(None, row)), f"{self._name}:{row_line}")
                row = None
            elif token.type == "inline":
                text = self._text_of(token, line)
                place = f"{self._name}:{line}"
                if row is not None:
                    row.append(joined(text))
                elif heading:
                    yield Heading(joined(text), heading, place)
                else:
                    yield from (Text(part, place) for part in parted(number + text if text else ""))
                    number = ""

    def warnings(self) -> list[str]:
        """Return warnings about elements left out. Only complete when `blocks` has ended."""
        return [
            f"{self._name}:{self._first[kind]}: {kind[0]} is {kind[1]}"
            + (f", and so are {times - 1} more" if times > 1 else "")
            for kind, times in self._counts.items()
        ]

    def _parse(self) -> list[Token]:
        parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING})
        parser.enable(["table", "strikethrough"]).use(footnote_plugin)
        parser.use(dollarmath_plugin, allow_space=False, allow_digits=False)
        parser.core.ruler.before("inline", "dialects", self._without_signs)
        try:
            tokens = parser.parse(self._text)
        except RecursionError:
            raise self._too_deep() from None
        # The parser silently drops deeper blocks.
        if any(token.level >= MAX_NESTING - 1 for token in tokens):
            raise self._too_deep()
        return tokens

    def _too_deep(self) -> ManifestError:
        return ManifestError(
            f"{self._name}: lists or quotations are nested too deep", remedy="use fewer levels"
        )

    def _without_signs(self, state: StateCore) -> None:
        """Replace the signs of other dialects in the text of blocks, outside code."""
        signs = read_table(_DIALECTS)["sign"]
        patterns = [re.compile(sign["pattern"], re.DOTALL) for sign in signs]
        for token in state.tokens:
            if token.type != "inline":
                continue
            line = token.map[0] + 1 if token.map else 0
            for sign, pattern in zip(signs, patterns, strict=True):
                codes = [found.span() for found in _CODE.finditer(token.content)]

                def put(
                    found: re.Match[str],
                    codes: list[tuple[int, int]] = codes,
                    sign: dict[str, str] = sign,
                    line: int = line,
                ) -> str:
                    if any(start < found.end() and found.start() < end for start, end in codes):
                        return found.group()
                    how = "read without its signs" if sign["put"] else "left out"
                    self._leave_out(sign["name"], line, how=how)
                    return found.expand(sign["put"])

                token.content = pattern.sub(put, token.content)

    def _text_of(self, inline: Token, line: int) -> str:
        pieces: list[str] = []
        num_struck = 0
        for token in inline.children or ():
            tag = _HTML_TAG.fullmatch(token.content) if token.type == "html_inline" else None
            if token.type in ("s_open", "s_close") or (tag and tag[2].lower()[:2] != "su"):
                is_end = tag[1] == "/" if tag else token.type == "s_close"
                num_struck = max(0, num_struck + (-1 if is_end else 1))
                if not is_end:
                    self._leave_out(_STRUCK, line)
            elif num_struck:
                continue
            elif token.type == "code_inline" and _INLINE_CODE.fullmatch(token.content):
                self._leave_out(_RESULT, line)
            elif token.type in ("text", "code_inline", "text_special"):
                pieces.append(token.content)
            elif token.type in ("softbreak", "hardbreak"):
                pieces.append(BREAK if token.type == "hardbreak" else "\n")
            elif token.type == "image":
                self._leave_out(_IMAGE, line)
            elif token.type == "footnote_ref":
                self._leave_out(_NOTE, line)
            elif token.type == "math_inline" and not _IS_FORMULA.search(token.content):
                pieces.append(f"${token.content}$")
            elif token.type.startswith("math_inline"):
                self._leave_out(_FORMULA, line)
            elif tag:
                pieces.append(LEVEL if tag[1] else RAISED if tag[2].lower() == "sup" else LOWERED)
            elif token.type == "html_inline" and _LINE_BREAK.fullmatch(token.content):
                pieces.append(BREAK)
        text, num_raised = settle_raised("".join(pieces))
        text, num_marks = _NOTE_MARK.subn("", text)
        self._leave_out(_NOTE, line, num_raised + num_marks)
        return text

    def _leave_out(self, what: str, line: int, times: int = 1, how: str = "left out") -> None:
        if times:
            self._counts[what, how] += times
            self._first.setdefault((what, how), line)


def _front_matter(matter: str) -> dict[str, str]:
    """Return the entries of front matter that fit on one line."""
    if matter.startswith("%"):
        lines = (line[1:].strip()[:200] for line in matter.splitlines())
        return dict(zip(_PANDOC_TITLE, lines, strict=False))
    return {
        entry[1].lower(): entry[2].strip("\"'")[:200] for entry in _FRONT_ENTRY.finditer(matter)
    }

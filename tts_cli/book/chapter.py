"""A book as a reader aloud sees it: chapters of paragraphs, with nothing of the source's markup."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tts_cli.manifest.markup import strip_markup


@dataclass(frozen=True)
class Paragraph:
    """What is read without a longer pause. `[pause 500ms]` may stand in its text; see `marks`."""

    text: str  # one line, not empty
    place: str  # where it stands in the source, as messages name it
    voice: str | None = None  # None: the run's
    is_heading: bool = False
    is_scene_end: bool = False  # a scene break follows


@dataclass(frozen=True)
class Chapter:
    """What becomes one audio file."""

    title: str  # names the file and the chapter mark; the heading to be read is a paragraph
    paragraphs: tuple[Paragraph, ...]  # at least one


@dataclass(frozen=True)
class Book:
    """A whole book."""

    chapters: tuple[Chapter, ...]
    title: str | None = None
    author: str | None = None
    language: str | None = None  # as the source gives it, such as en-GB
    warnings: tuple[str, ...] = field(default=())  # what of the source is not read

    def without_markup(self) -> Book:
        """The same without tags of style and emphasis in its texts, such as `_italics_`."""
        chapters = (
            replace(
                chapter,
                title=_stripped(chapter.title),
                paragraphs=tuple(
                    replace(one, text=_stripped(one.text)) for one in chapter.paragraphs
                ),
            )
            for chapter in self.chapters
        )
        return replace(self, chapters=tuple(chapters))


def _stripped(text: str) -> str:
    """In one line; a text of nothing but tags stays."""
    return " ".join(strip_markup(text).split()) or text

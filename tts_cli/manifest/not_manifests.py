"""What is given for a manifest by mistake: what it is, and what to do with it."""

from __future__ import annotations

import os

_AUDIO = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".m4b", ".aac", ".wma", ".aiff")
_BOOKS = (".epub", ".md", ".markdown")
_SCRIPTS = {
    **dict.fromkeys((".po", ".pot", ".xlf", ".xliff"), "a catalogue of translations"),
    ".yarn": "a script of Yarn Spinner",
    ".rpy": "a script of Ren'Py",
    ".ink": "a script of ink",
}
_ROWS = "a manifest has the rows to speak: .jsonl, .csv, .tsv, or .txt with one text a line"
_JOURNAL = "timings.jsonl"  # `output.journal` has the name too, further up
_SUFFIXES = (".jsonl", ".csv", ".tsv", ".txt")


def of_suffix(path: str) -> tuple[str, str] | None:
    """For a file whose suffix is no manifest's: what is wrong, and the remedy; None: no idea."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix in _AUDIO:
        return "is audio", f"{_ROWS}; a recording to clone stands in a row, as ref_audio"
    if suffix in _BOOKS:
        return "is a book or a text with marks", f"tts-cli book {path} --out DIR speaks it"
    if suffix in _SCRIPTS:
        return f"is {_SCRIPTS[suffix]}", "export its lines as .csv, with their keys as ids"
    if suffix in (".sub", ".sbv", ".ttml", ".dfxp", ".stl", ".smi", ".lrc"):
        return "has subtitles in a form that is not read", "save it as .srt, .vtt or .ass"
    if suffix in (".doc", ".docx", ".odt", ".pdf", ".rtf", ".html", ".htm"):
        return "is a document", "save it as plain text, and speak that by tts-cli book"
    if suffix in (".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".gguf", ".onnx"):
        return "is a checkpoint", f"name its folder by --model; {_ROWS}"
    return None


def of_folder(path: str) -> tuple[str, str]:
    """For a folder: what is wrong, and the remedy."""
    try:
        names = sorted(os.listdir(path))
    except OSError:
        names = []
    if _JOURNAL in names:
        return "is a folder of a run", "give the manifest it was made of, and the folder by --out"
    if "config.json" in names:
        return "is the folder of a checkpoint", f"name it by --model; {_ROWS}"
    found = [name for name in names if name.lower().endswith(_SUFFIXES)]
    if found:
        return "is a folder", f"give a file in it, such as {os.path.join(path, found[0])}"
    return "is a folder", f"give a manifest file; {_ROWS}"

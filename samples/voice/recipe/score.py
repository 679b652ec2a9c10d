"""Word error rate with pocketsphinx.

Two language models: `closed` is a bigram model of the test sentences, so it says whether a text is
recognisable among these; `open` is the recogniser's stock English model, which is near dictation
and depends more on the recogniser. The README has the teacher's own figures for both.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pocketsphinx
import soundfile
from numpy.typing import NDArray
from scipy.signal import resample_poly

SAMPLE_RATE_HZ = 16000  # of the recogniser
SILENCE_SAMPLES = 4800  # 0.3 s before and after, which the recogniser's noise estimate needs
PEAK = 0.7
DISCOUNT = 0.5  # absolute discount of the bigrams
START, END = "<s>", "</s>"
# Wider than the stock beams, so that the search does not lose what the small model allows.
BEAMS = {"beam": 1e-80, "wbeam": 1e-60, "pbeam": 1e-80, "maxhmmpf": 50000, "maxwpf": 60}


def words(text: str) -> list[str]:
    """Lower-case words without punctuation; the apostrophe stays."""
    return re.findall(r"[a-z']+", text.lower())


def read_sentences(path: Path) -> list[list[str]]:
    """The words of every non-empty line."""
    return [words(line) for line in path.read_text().splitlines() if line.strip()]


def write_bigram_model(sentences: Sequence[Sequence[str]], path: Path) -> None:
    """Write an ARPA bigram model: absolute discounting, unigrams half counted and half uniform."""
    vocabulary = sorted({word for sentence in sentences for word in sentence})
    unigrams = Counter(word for sentence in sentences for word in [*sentence, END])
    total = sum(unigrams.values())
    bigrams: Counter[tuple[str, str]] = Counter()
    contexts: Counter[str] = Counter()
    for sentence in sentences:
        marked = [START, *sentence, END]
        bigrams.update(pairwise(marked))
        contexts.update(marked[:-1])
    uniform = 0.5 / (len(vocabulary) + 1)
    probability = {word: 0.5 * unigrams[word] / total + uniform for word in [*vocabulary, END]}
    backoff = {}
    for context in [START, *vocabulary]:
        followers = [second for first, second in bigrams if first == context]
        unseen = 1 - sum(probability[word] for word in followers)
        backoff[context] = DISCOUNT * len(followers) / contexts[context] / unseen
    lines = [
        "\\data\\",
        f"ngram 1={len(vocabulary) + 2}",
        f"ngram 2={len(bigrams)}",
        "",
        "\\1-grams:",
    ]
    lines.append(f"-99 {START} {math.log10(backoff[START]):.4f}")
    lines.append(f"{math.log10(probability[END]):.4f} {END}")
    for word in vocabulary:
        lines.append(f"{math.log10(probability[word]):.4f} {word} {math.log10(backoff[word]):.4f}")
    lines += ["", "\\2-grams:"]
    for (first, second), count in sorted(bigrams.items()):
        log_probability = math.log10((count - DISCOUNT) / contexts[first])
        lines.append(f"{log_probability:.4f} {first} {second}")
    lines += ["", "\\end\\", ""]
    path.write_text("\n".join(lines))


def load_audio(path: Path) -> NDArray[np.int16]:
    """Mono samples at 16 kHz, peak at 0.7, with quiet noise and silence around them.

    The noise is always the same; digital silence upsets the recogniser's running mean.
    """
    samples, rate_hz = soundfile.read(path, dtype="float64")
    if samples.ndim > 1:
        samples = samples.mean(1)
    if rate_hz != SAMPLE_RATE_HZ:
        divisor = math.gcd(rate_hz, SAMPLE_RATE_HZ)
        samples = resample_poly(samples, SAMPLE_RATE_HZ // divisor, rate_hz // divisor)
    peak = np.abs(samples).max()
    if peak > 0:
        samples = samples * (PEAK / peak)
    samples = np.pad(samples, SILENCE_SAMPLES)
    samples = samples + np.random.default_rng(0).normal(0, 2e-4, len(samples))
    return (np.clip(samples, -1, 1) * 32767).astype("<i2")


def edit_distance(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Substitutions, insertions and deletions between two word lists (Levenshtein)."""
    row = list(range(len(hypothesis) + 1))
    for index, word in enumerate(reference, 1):
        diagonal, row[0] = row[0], index
        for column, heard in enumerate(hypothesis, 1):
            best = min(row[column] + 1, row[column - 1] + 1, diagonal + (word != heard))
            diagonal, row[column] = row[column], best
    return row[-1]


def write_dictionary(language_model: Path, source: Path) -> Path:
    """Write the part of a dictionary that a model's words need, beside the model.

    The recogniser would hear the same with all of it, but takes seconds to read that.
    """
    unigrams = language_model.read_text().partition("\\1-grams:")[2].partition("\\2-grams:")[0]
    vocabulary = {fields[1] for line in unigrams.splitlines() if (fields := line.split())}
    with source.open(encoding="utf-8") as lines:
        kept = [line for line in lines if line.split()[0].partition("(")[0] in vocabulary]
    path = language_model.with_suffix(".dict")
    path.write_text("".join(kept))
    return path


def make_decoder(language_model: Path | None) -> pocketsphinx.Decoder:
    """Recogniser with a written bigram model, or with the stock English model for None."""
    folder = Path(pocketsphinx.get_model_path()) / "en-us"
    settings: dict[str, object] = {
        "hmm": str(folder / "en-us"),
        "dict": str(folder / "cmudict-en-us.dict"),
        "loglevel": "FATAL",
        "samprate": SAMPLE_RATE_HZ,
    }
    if language_model is None:
        settings["lm"] = str(folder / "en-us.lm.bin")
    else:
        dictionary = write_dictionary(language_model, Path(str(settings["dict"])))
        settings.update(lm=str(language_model), dict=str(dictionary), lw=6.5, **BEAMS)
    return pocketsphinx.Decoder(**settings)


def recognise(paths: Iterable[Path], language_model: Path | None) -> list[list[str]]:
    """The words heard in each file.

    One fresh recogniser takes the files in order: it adapts a little from file to file, and a fixed
    order keeps the result the same from run to run.
    """
    decoder = make_decoder(language_model)
    heard = []
    for path in paths:
        decoder.start_utt()
        decoder.process_raw(load_audio(path).tobytes(), no_search=False, full_utt=True)
        decoder.end_utt()
        hypothesis = decoder.hyp()
        heard.append(words(re.sub(r"\(\d+\)", "", hypothesis.hypstr)) if hypothesis else [])
    return heard


def word_error_rate(
    references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]
) -> float:
    """Errors of all sentences in percent of all reference words; above 100 is possible."""
    pairs = zip(references, hypotheses, strict=True)
    errors = sum(edit_distance(reference, hypothesis) for reference, hypothesis in pairs)
    return 100 * errors / sum(len(reference) for reference in references)


def shifted_error_rate(
    references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]
) -> float:
    """The control: each hypothesis against the next sentence. About 100, or scoring is blind."""
    return word_error_rate([*references[1:], *references[:1]], hypotheses)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", type=Path, help="one reference text a line")
    parser.add_argument("folders", type=Path, nargs="+", help="folders with 000.wav, 001.wav, ...")
    parser.add_argument(
        "--models", default="closed", help="closed, open or closed,open (closed)", metavar="LIST"
    )
    parser.add_argument(
        "--every",
        type=int,
        default=1,
        help="score only every Nth sentence and file (1)",
        metavar="N",
    )
    args = parser.parse_args()
    sentences = read_sentences(args.sentences)
    chosen = range(0, len(sentences), args.every)
    references = [sentences[index] for index in chosen]
    with tempfile.TemporaryDirectory() as scratch:
        closed = Path(scratch) / "closed.arpa"
        write_bigram_model(sentences, closed)
        for folder in args.folders:
            for name in args.models.split(","):
                paths = [folder / f"{index:03d}.wav" for index in chosen]
                heard = recognise(paths, {"closed": closed, "open": None}[name])
                errors = [edit_distance(*pair) for pair in zip(references, heard, strict=True)]
                half = [len(reference) / 2 for reference in references]
                result = {
                    "folder": folder.name,
                    "model": name,
                    "wer_percent": round(word_error_rate(references, heard), 1),
                    "shifted_percent": round(shifted_error_rate(references, heard), 1),
                    "exact": errors.count(0),
                    "over_half": sum(
                        error > limit for error, limit in zip(errors, half, strict=True)
                    ),
                    "sentences": len(references),
                }
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()

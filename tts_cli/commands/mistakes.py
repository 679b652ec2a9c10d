"""Command lines as other tools have them, or as one guesses: what this one calls it.

click names an option that looks alike, which for `--output` is `--layout` first. Here stands what
is meant by names that are common elsewhere.
"""

from __future__ import annotations

import os

import click

_FLAGS = {
    "--out": "--output --output-dir --output-folder --output-path --out-dir --outdir --out-path "
    "--save-dir --save-path --dest --target -O",
    "--voice": "--speaker --speaker-id --speaker-name --spk --voice-id --voice-name",
    "--language": "--lang --language-code --lang-code --locale -l",
    "--model": "--model-name --model-path --model-id --model-dir --model-name-or-path --checkpoint "
    "--ckpt --ckpt-path --weights -m",
    "--max-batch": "--batch --batch-size --batchsize --max-batch-size --bs -b",
    "--sample-rate": "--sr --sampling-rate --samplerate --rate-hz",
    "--format": "--output-format --audio-format --ext --extension",
    "--manifest-format": "--input-format",
    "--max-seconds": "--max-length --max-len --max-duration --max-tokens --max-new-tokens "
    "--max-audio-length",
    "--temperature": "--temp -t",
    "--overwrite": "--force --force-overwrite --redo -f -y",
    "--lexicon": "--dictionary --dict --pronunciations",
    "--save-codes": "--save-tokens",
    "--dry-run": "--check --plan -n",
    "--limit": "--max-rows --num-rows --max-samples --head",
}
_STYLE = "style is said in the rows' field instruct, where the checkpoint takes one"
_WORDS = {
    "a rerun of the same command resumes by itself": "--resume --continue --skip-existing "
    "--no-overwrite",
    "the manifest stands by itself: tts-cli {command} MANIFEST": "--input --input-file --manifest "
    "--file --text-file --input-dir --csv --jsonl -i",
    "tts-cli say TEXT speaks one text; a manifest has one a row": "--text --sentence --prompt",
    _STYLE: "--instruct --instructions --style --emotion --description --speed --rate --pitch "
    "--speaking-rate",
    "recordings stand in the rows, as ref_audio and ref_text": "--ref-audio --reference "
    "--reference-audio --speaker-wav --prompt-audio --audio-prompt --ref-text --prompt-text "
    "--clone",
    "use --device cuda, or cuda:N": "--gpu --cuda --use-cuda --gpus --use-gpu --gpu-id",
    "use --device cpu": "--cpu --use-cpu --no-cuda",
    "use --dtype bfloat16 or float32; float16 overflows in these models": "--fp16 --half --bf16 "
    "--float16 --bfloat16 --precision --fp32",
    "a run takes one device; --shard I/N gives each of N runs a part": "--workers --num-workers "
    "--jobs -j --parallel --num-gpus --tensor-parallel-size --processes",
    "rows without a voice share one by themselves, and `tts-cli voices add NAME --from DIR --take "
    "ID` makes one of a row": "--anchor",
    "the variable OMP_NUM_THREADS says how many": "--threads --num-threads --cpu-threads",
    "`tts-cli voices` lists what there is": "--list --list-voices --list-speakers --speakers",
}
_COMMANDS = {
    "synth": "tts speak generate synthesize synthesise run batch infer inference convert-text",
    "voices": "list speakers list-voices list-speakers voice",
    "validate": "lint verify check-manifest",
    "profile": "bench benchmark",
    "doctor": "info env diagnose status",
    "models": "download convert model",
    "merge": "join combine concat cat",
    "export": "dataset to-dataset publish",
    "lexicon": "normalize normalise dict dictionary",
    "book": "audiobook epub",
    "--help": "help usage",
    "--version": "version",
}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: meaning for meaning, names in table.items() for name in names.split()}


def command_meant(name: str) -> str | None:
    """What is said of an argument that stands in the place of a command; None: no idea."""
    if meant := _by_name(_COMMANDS).get(name.lower()):
        return f"use tts-cli {meant}" if meant.startswith("-") else f"did you mean '{meant}'?"
    if os.path.isfile(name):
        return f"to speak a manifest: tts-cli synth {name} --out DIR"
    return None


def explain(error: click.ClickException) -> click.ClickException:
    """What is said of a command line, in place of click's error about an unknown option."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    ctx, given = error.ctx, error.option_name
    if ctx.parent is None:
        if error.possibilities:  # of the few options of the program itself
            return error
        advice = "options stand behind the command, as in tts-cli synth MANIFEST --out DIR"
        return click.UsageError(f"No such option '{given}': {advice}.", ctx)
    name = given.replace("_", "-")
    known = {opt for param in ctx.command.params for opt in param.opts}
    flag = name if name in known else _by_name(_FLAGS).get(name)
    words = _by_name(_WORDS).get(name)
    if flag in known:
        advice = f"here it is called {flag}"
    elif words is not None and "MANIFEST" in " ".join(ctx.command.collect_usage_pieces(ctx)):
        advice = words.format(command=ctx.info_name)
    elif words is not None and "voices" in words:
        advice = words
    else:
        return error
    return click.UsageError(f"No such option '{given}': {advice}.", ctx)

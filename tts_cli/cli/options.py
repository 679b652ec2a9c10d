"""The flags that commands share, in groups. Defaults and help come from `RunConfig`.

A command takes its groups' values as keyword arguments and hands them to `RunConfig.from_options`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from models.sampling import SETTINGS
from tts_cli.cli import complete
from tts_cli.cli.command import Invocation, SectionedOption
from tts_cli.config import (
    DTYPES,
    EXTRAS,
    FREE_VOICES,
    IDS,
    KERNELS,
    LAYOUTS,
    MANIFEST_FORMATS,
    PICKS,
    PROGRESS,
    SAMPLING_FLAGS,
    SUBTITLES,
    SUBTYPES,
    WORDLESS,
    Scope,
    describe_field,
    flag,
)

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

LOGGERS = ("tts_cli", "models", "kernels")
# Of words given for a choice that others take: what is meant here, and why.
_CHOICE_HINTS = {
    **dict.fromkeys(("fp16", "float16", "half"), "bfloat16 is meant? float16 overflows here."),
    **dict.fromkeys(("bf16",), "bfloat16 is meant?"),
    **dict.fromkeys(("fp32", "float"), "float32 is meant?"),
    **dict.fromkeys(("pcm16", "pcm_s16le", "int16", "16"), "PCM_16 is meant?"),
    **dict.fromkeys(("pcm24", "pcm_s24le", "int24", "24"), "PCM_24 is meant?"),
    **dict.fromkeys(("pcm32", "pcm_32", "float32", "32"), "FLOAT is the widest."),
    **dict.fromkeys(("opus", "vorbis"), "ogg is Vorbis."),
}
_LOCAL = ("verbose", "quiet", "debug")  # may stand before a subcommand
WARNINGS_LOGGER = "py.warnings"  # where Python sends the warnings of libraries


def parse_shard(value: str) -> tuple[int, int]:
    """`I/N` as a pair of whole numbers."""
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not of the form I/N, such as 1/4")
    return int(match[1]), int(match[2])


def parse_pad(value: str) -> tuple[float, float]:
    """`S` or `S,S` as seconds in front and behind."""
    match = re.fullmatch(r"([0-9]{1,4}(?:\.[0-9]{1,6})?)(?:,([0-9]{1,4}(?:\.[0-9]{1,6})?))?", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not of the form S or S,S, such as 0.5 or 0.5,1")
    return float(match[1]), float(match[2] or match[1])


def config_option(name: str, *short: str, **settings: Any) -> Decorator[Any]:
    """A click option for one field of `RunConfig`; `short` are other names of its flag."""
    default, text, unset = describe_field(name)
    if default is not False:
        settings.setdefault("show_default", unset or True)
    if not settings.get("required"):  # click takes a default of None for a value
        settings["default"] = default
    settings.setdefault("cls", SectionedOption)
    return click.option(flag(name), *short, name, help=text, is_flag=default is False, **settings)


class FolderPath(click.Path):
    """A path that is not empty, which `--out "$UNSET"` would turn into the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("is empty", param, ctx)
        return super().convert(value, param, ctx)


def group(section: str, *options: Decorator[Any]) -> Decorator[Any]:
    """Options under one heading of a help."""

    def apply(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
            function.__click_params__[-1].section = section
        return function

    return apply


class _AnyCase(click.Choice):  # type: ignore[type-arg]  # click 8.1 takes no type
    """Words in any letter case; messages show them as they are written everywhere else."""

    def __init__(self, values: tuple[str, ...]) -> None:
        super().__init__(values, case_sensitive=False)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        message = f"{value!r} is not one of {', '.join(map(repr, self.choices))}."
        hint = _CHOICE_HINTS.get(str(value).casefold())
        return f"{message} {hint}" if hint and hint.split()[0] in self.choices else message


def _choice(values: tuple[str, ...]) -> click.Choice[str]:
    return _AnyCase(values)


def refuse_misplaced(ctx: click.Context) -> None:
    """Refuse options of a group in front of its subcommand, where they would be lost."""
    for param in ctx.command.params:
        is_given = ctx.get_parameter_source(str(param.name)) == ParameterSource.COMMANDLINE
        if is_given and param.name not in _LOCAL:
            ctx.fail(f"put {param.opts[0]} behind '{ctx.invoked_subcommand}'")


def _set_levels(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Set the level of our loggers as soon as -v, -q or --debug is read."""
    if not value:
        return value
    is_quiet = param.name == "quiet"
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING if is_quiet else logging.DEBUG)
    if param.name == "debug":
        logging.getLogger(WARNINGS_LOGGER).setLevel(logging.WARNING)
        logging.getLogger().setLevel(logging.INFO)  # of libraries
        ctx.ensure_object(Invocation).is_debug = True
    return value


manifests_argument = click.argument(
    "manifests",
    metavar="MANIFEST...",
    nargs=-1,
    required=True,
    type=click.Path(allow_dash=True),
)

model_options = group(
    "Model",
    config_option("model", metavar="PATH|REPO"),
    config_option("revision", metavar="REV"),
    config_option("accept_licence"),
)

cloning_model_options = group(
    "Model",
    config_option("model", metavar="PATH|REPO", show_default="none: name one that clones"),
    config_option("revision", metavar="REV"),
    config_option("accept_licence"),
)

device_options = group(
    "Device",
    config_option("device", metavar="DEVICE", shell_complete=complete.devices),
    config_option("dtype", type=_choice(DTYPES)),
    config_option("max_batch", type=int, metavar="N"),
    config_option("no_graphs"),
    config_option("kernels", type=_choice(KERNELS)),
    config_option("kernel_cache", type=click.Path(path_type=Path, file_okay=False), metavar="DIR"),
)

worker_options = group(
    "Device",
    config_option("workers", metavar="N|all"),
    config_option("ray_address", metavar="HOST:PORT|auto"),
)

reproducible_option = group("Device", config_option("reproducible"))

row_options = group(
    "Rows of the manifest",
    config_option("manifest_format", type=_choice(MANIFEST_FORMATS)),
    config_option("map", metavar="COLUMN=field,..."),
    config_option("columns", metavar="NAME,..."),
    config_option("extra", type=_choice(EXTRAS)),
    config_option("sheet", metavar="NAME"),
    config_option("encoding", metavar="NAME"),
    config_option(
        "cast", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE.toml"
    ),
    config_option("speaker_prefix"),
    config_option("ids", type=_choice(IDS)),
    config_option("limit", type=int, metavar="N"),
    config_option("shard", type=parse_shard, metavar="I/N"),
    config_option("skip_invalid"),
    config_option("wordless", type=_choice(WORDLESS)),
)


def voices_option(scope: Scope | None = None) -> Decorator[Any]:
    """The folder of voice files; `scope`: see `SectionedOption`."""
    return config_option("voices", type=click.Path(path_type=Path), metavar="DIR", scope=scope)


def cloning_options(made_scope: Scope | None = None) -> Decorator[Any]:
    """Whose voice rows have; `made_scope`: of --made-voices, see `SectionedOption`."""
    return group(
        "Cloning",
        voices_option(),
        config_option(
            "ref_root", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR"
        ),
        config_option("ref_silence", type=float, metavar="SECONDS"),
        config_option("free_voice", type=_choice(FREE_VOICES)),
        config_option("clone_model", metavar="PATH|REPO"),
        config_option("voice_text", metavar="TEXT"),
        config_option(
            "made_voices", type=FolderPath(path_type=Path), metavar="DIR", scope=made_scope
        ),
        config_option("many_voices"),
    )


reference_options = cloning_options()

text_options = group(
    "Text",
    config_option("language", metavar="NAME", shell_complete=complete.languages),
    config_option("normalize", metavar="auto|off|LANGUAGE", shell_complete=complete.normalizers),
    config_option(
        "lexicon", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE.tsv"
    ),
    config_option("strip_markup"),
)

_speech_options = group(
    "Speech, where rows do not say otherwise",
    config_option("voice", metavar="NAME", shell_complete=complete.voices),
    config_option("layout", type=_choice(LAYOUTS)),
    config_option("seed", type=int, metavar="N"),
    config_option("max_seconds", type=float, metavar="S"),
    config_option("split", metavar="auto|CHARS|off"),
    config_option("pause_paragraph", type=float, metavar="S"),
    config_option("pause_sentence", type=float, metavar="S"),
    config_option("pause_clause", type=float, metavar="S"),
)

_draw_options = group(
    "Sampling, where rows do not say otherwise",
    *(
        config_option(name, type=SETTINGS[name].kind, metavar=SETTINGS[name].metavar)
        for name in SAMPLING_FLAGS
    ),
)


def sampling_options(function: Any) -> Any:
    """How rows are spoken."""
    return text_options(_speech_options(_draw_options(function)))


_delivery_options = (
    config_option("format", type=_choice(tuple(SUBTYPES))),
    config_option("subtype", type=_choice(SUBTYPES["wav"]), metavar="|".join(SUBTYPES["wav"])),
    config_option("sample_rate", type=int, metavar="HZ"),
    config_option("loudness", metavar="LUFS|ebu|acx|podcast"),
    config_option("highpass", type=float, metavar="HZ"),
    config_option("trim"),
    config_option("pad", type=parse_pad, metavar="S[,S]"),
)
delivery_options = group("Output", *_delivery_options)

encode_options = group(
    "Output",
    config_option(
        "out", type=FolderPath(path_type=Path), metavar="DIR", show_default="beside the old files"
    ),
    *_delivery_options,
    config_option("take_over"),
)


def output_options(is_out_required: bool = False) -> Decorator[Any]:
    """Where and how audio is written; `synth` requires --out."""
    return group(
        "Output",
        config_option(
            "out",
            "-o",
            type=FolderPath(path_type=Path),
            metavar="DIR",
            required=is_out_required,
            show_default=False,
        ),
        *_delivery_options,
        config_option("save_codes"),
        config_option("subtitles", metavar=",".join(SUBTITLES)),
    )


_again_options = group(
    "Running again",
    config_option("dry_run"),
    config_option("voices_only"),
    config_option("only", multiple=True, metavar="ID,...", shell_complete=complete.ids),
    config_option("overwrite"),
    config_option("takes", type=int, metavar="N"),
    config_option("retry_failed"),
    config_option("verify_files"),
    config_option("prune"),
    config_option("take_over"),
)

_failure_options = group(
    "Speech that goes wrong",
    config_option("retries", type=int, metavar="N"),
    config_option("accept_truncated"),
    config_option("max_failures", metavar="N|P%"),
)

_check_options = (
    group(
        "Recogniser",
        config_option("asr", metavar="pocketsphinx|PATH|REPO"),
        config_option("batch", type=int, metavar="N"),
    ),
    group("Voice", config_option("drift")),
    group("Takes", config_option("pick", type=_choice(PICKS))),
)


def check_options(function: Any) -> Any:
    """What is listened to, and what follows."""
    for options in reversed(_check_options):
        function = options(function)
    return function


_progress_option = group("Messages", config_option("progress", type=_choice(PROGRESS)))


def run_options(function: Any) -> Any:
    """How a run goes on when it is repeated, when rows fail, and what it shows meanwhile."""
    return _again_options(_failure_options(_progress_option(function)))


common_options = group(
    "Messages",
    config_option("json"),
    click.option(
        "-v",
        "--verbose",
        cls=SectionedOption,
        count=True,
        callback=_set_levels,
        help="Also tell settings, sizes, why a path is taken, each retry and each row.",
    ),
    click.option(
        "-q",
        "--quiet",
        cls=SectionedOption,
        count=True,
        callback=_set_levels,
        help="Warnings and errors only: no progress, no summary.",
    ),
    config_option("debug", callback=_set_levels),
)

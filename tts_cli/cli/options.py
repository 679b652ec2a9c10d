"""Build the options and commands of the command line from the facts of settings.

A command lists its topics, receives their values as keyword arguments and passes them to
`RunConfig.from_options`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tts_cli.config import SETTINGS, RunConfig
from tts_cli.errors import UsageError
from tts_cli.named import printable
from tts_cli.setting import Scope, SettingFacts, Topic, flag

log = logging.getLogger(__name__)

UNNAMED = "Options"
MAX_SHORT_OPTIONS = 24  # -h shows every option of a command that has at most as many
SHORT_HEADING = "Common options (--help-all shows every option)"
_WHOLE = f"{__name__}.whole"  # key in a context's meta: whether help shows every option
PREFIX = "TTS_CLI"  # start of the names of variables
FOLDER = "folder"  # origin of a value from the last run of the output folder
PLACES = f"{__name__}.places"  # key in a context's meta: file and line by setting
F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[F], F]

LOGGERS = ("tts_cli", "models", "kernels")
# Hints for values that other tools accept.
_CHOICE_HINTS = {
    **dict.fromkeys(
        ("fp16", "float16", "half"), "Use bfloat16; float16 overflows in these models."
    ),
    "bf16": "Use bfloat16.",
    **dict.fromkeys(("fp32", "float"), "Use float32."),
    **dict.fromkeys(("pcm16", "pcm_s16le", "int16", "16"), "Use PCM_16."),
    **dict.fromkeys(("pcm24", "pcm_s24le", "int24", "24"), "Use PCM_24."),
    **dict.fromkeys(("pcm32", "pcm_32", "float32", "32"), "Use FLOAT, the widest format."),
    "vorbis": "Use ogg for Vorbis.",
}
_LOCAL = ("verbose", "quiet", "debug")  # allowed before a subcommand
WARNINGS_LOGGER = "py.warnings"  # Python's logger for warnings of libraries


@dataclass
class Invocation:
    args: list[str] = field(default_factory=list)  # without the program's name
    origins: dict[str, str] = field(default_factory=dict)  # by setting: flag, variable or file
    is_debug: bool = False


class SectionedOption(click.Option):
    """An option with a heading, whose value may come from a variable, `TTS_CLI_SYNTH_VOICE` or
    `TTS_CLI_VOICE`.

    Args:
        scope: files that may set it; None: the scope of the setting of its name, or no file.
        section: heading in the help, set by `group`.
        is_common: whether the short help shows it.
        others: its flags in other tools, in addition to those of its setting.
    """

    def __init__(
        self,
        *args: Any,
        scope: Scope | None = None,
        section: str = UNNAMED,
        is_common: bool = True,
        others: str = "",
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.scope, self.section, self.is_common = scope, section, is_common
        settings_of = (SETTINGS.get(opt.lstrip("-").replace("-", "_")) for opt in self.opts)
        self.others = " ".join([others, *(one.others for one in settings_of if one)])

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return names and help, without parentheses around a default described in words."""
        record = super().get_help_record(ctx)
        if record is None or not isinstance(self.show_default, str):
            return record
        return record[0], record[1].replace(f"({self.show_default})", self.show_default)

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the value of the command's variable, or of the one for all commands."""
        found = super().resolve_envvar_value(ctx)
        if found is None and self.allow_from_autoenv and ctx.auto_envvar_prefix is not None:
            found = os.environ.get(shared_variable(str(self.name))) or None
        return found

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return the flag, and its variable if that gave the value."""
        hint = super().get_error_hint(ctx)
        if ctx and ctx.get_parameter_source(str(self.name)) == ParameterSource.ENVIRONMENT:
            hint += f" (from {variable_of(ctx, self)})"
        return hint


class SectionedCommand(click.Command):
    """A command whose help has headings, and that logs values which did not come from flags."""

    def invoke(self, ctx: click.Context) -> Any:
        log_origins(ctx)
        apply_preset(ctx)
        return super().invoke(ctx)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's options, -h, and --help-all if -h leaves options out."""
        params = super().get_params(ctx)
        return [*params, _HELP_ALL] if len(params) > MAX_SHORT_OPTIONS else params

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        params = self.get_params(ctx)
        is_whole = _HELP_ALL not in params or ctx.meta.get(_WHOLE, False)
        for param in params:
            record = param.get_help_record(ctx)
            if isinstance(param, click.Argument) or record is None:
                continue
            if is_whole:
                sections.setdefault(getattr(param, "section", UNNAMED), []).append(record)
            elif getattr(param, "is_common", True):
                sections.setdefault(SHORT_HEADING, []).append(_shortened(param, record))
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


def _shortened(param: click.Parameter, record: tuple[str, str]) -> tuple[str, str]:
    """Return a line of help with only the first sentence of an option's help."""
    names, text = record
    whole = getattr(param, "help", None) or text
    return names, text.replace(whole, re.split(r"(?<=\.)\s", whole, maxsplit=1)[0])


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_WHOLE] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    allow_from_autoenv=False,
    callback=_show_all,
    help="Show every option and exit.",
)


def shared_variable(name: str) -> str:
    """Return the variable that sets a flag in every command."""
    return f"{PREFIX}_{name.upper()}"


def variable_of(ctx: click.Context, param: click.Parameter) -> str:
    own = f"{ctx.auto_envvar_prefix}_{str(param.name).upper()}"
    return own if os.environ.get(own) else shared_variable(str(param.name))


def origins(ctx: click.Context) -> dict[str, str]:
    """Return where each value that is not built in comes from: flag, variable, or file and line."""
    found: dict[str, str] = {}
    places = ctx.meta.get(PLACES, {})
    for param in ctx.command.params:
        name = str(param.name)
        source = ctx.get_parameter_source(name)
        if not isinstance(param, click.Option) or source is None:
            continue
        if source == ParameterSource.COMMANDLINE:
            found[name] = "flag"
        elif source == ParameterSource.ENVIRONMENT:
            found[name] = variable_of(ctx, param)
        elif source == ParameterSource.DEFAULT_MAP:
            found[name] = places.get(name, "file")
    return found


def apply_preset(ctx: click.Context) -> None:
    """Use the settings of --preset, except those of a stronger or the same origin. Raises
    UsageError if another setting contradicts it.
    """
    name = ctx.params.get("preset")
    if name is None or "loudness" not in ctx.params:
        return
    from tts_cli.audio.presets import preset_of

    preset, found, replaced = preset_of(name), origins(ctx), set()
    for setting, value in preset.settings.items():
        if setting in ("bitrate", "subtype") and ctx.params["format"] != preset.settings["format"]:
            continue
        if _strength(found.get(setting)) >= max(1, _strength(found.get("preset"))):
            if not preset.accepts(setting, ctx.params[setting]):
                is_remembered = found.get("preset") == FOLDER
                raise UsageError(
                    f"{flag(setting)} {ctx.params[setting]} contradicts --preset {name}, which "
                    f"needs {value}",
                    f"leave out {flag(setting)}, or "
                    + ("add --forget preset" if is_remembered else "--preset"),
                )
        elif setting in ctx.params:
            ctx.params[setting] = value
            ctx.set_parameter_source(setting, ParameterSource.DEFAULT)
            replaced.add(setting)
    if "chosen" in ctx.params:
        ctx.params["chosen"] -= replaced


def _strength(origin: str | None) -> int:
    """Return the rank of an origin: flags and variables, the folder, files, built-in values."""
    if origin == "flag" or (origin or "").startswith(f"{PREFIX}_"):
        return 3
    return 2 if origin == FOLDER else int(origin is not None)


def log_origins(ctx: click.Context) -> None:
    """Check the values of variables, and log every value that does not come from a flag.

    Raises UsageError for an invalid value, or one that a project's file may not set.
    """
    for name, place in ctx.meta.get(PLACES, {}).items():
        if ctx.get_parameter_source(name) == ParameterSource.DEFAULT:
            raise UsageError(
                f"{place}: a project file cannot set {name} for a command that writes there",
                f"give {flag(name)} on the command line",
            )
    values: dict[str, list[str]] = {}  # by file, or the environment
    found = ctx.ensure_object(Invocation).origins = origins(ctx)
    for name, origin in found.items():
        if origin in ("flag", FOLDER):
            continue
        param = next(param for param in ctx.command.params if param.name == name)
        assert isinstance(param, click.Option)
        if origin.startswith(f"{PREFIX}_"):
            try:
                checked_value(ctx, param, ctx.params[name])
            except UsageError as error:
                raise UsageError(f"{origin}: {error}") from None
            values.setdefault("the environment", []).append(f"{origin} {ctx.params[name]}")
        else:
            file = origin.rpartition(":")[0] or origin
            values.setdefault(file, []).append(f"{name} {ctx.params[name]}")
    for source, found_there in values.items():
        log.info("settings from %s: %s", source, ", ".join(found_there))


def checked_value(ctx: click.Context, param: click.Option, value: Any) -> Any:
    """Return a value as the flag converts it. Raises UsageError if the flag would not accept it."""
    try:
        value = param.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise UsageError(error.message.rstrip(".")) from None
    if param.name in SETTINGS:
        RunConfig.from_options({param.name: value})
    return value


class NamedPath(click.Path):
    """A path that is not empty and no flag: `--out "$UNSET"` must not mean the working folder, and
    `--out --prune` lacks the folder.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("is empty", param, ctx)
        if len(str(value)) > 1 and str(value)[0] == "-":
            self.fail(f"{value!r} looks like a flag; write ./{value} for such a name", param, ctx)
        found: Any = super().convert(value, param, ctx)
        # `./-w`, which a Path shortens: commands that are advised contain it.
        return type(found)(os.path.abspath(found)) if str(found)[:1] == "-" else found


class AnyCase(click.Choice):  # type: ignore[type-arg]  # click 8.1 takes no type
    """A choice in any letter case, whose messages show the values as they are documented."""

    def __init__(self, values: tuple[str, ...]) -> None:
        super().__init__(values, case_sensitive=False)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        message = f"{value!r} is not one of {', '.join(map(repr, self.choices))}."
        hint = _CHOICE_HINTS.get(str(value).casefold(), "")
        is_apt = any(word in self.choices for word in re.findall(r"\w+", hint))
        return f"{message} {hint}" if is_apt else message


def refuse_misplaced(ctx: click.Context) -> None:
    """Reject options of a group before its subcommand, where they would have no effect."""
    for param in ctx.command.params:
        is_given = ctx.get_parameter_source(str(param.name)) == ParameterSource.COMMANDLINE
        if is_given and param.name not in _LOCAL:
            ctx.fail(f"put {param.opts[0]} after '{ctx.invoked_subcommand}'")


def help_of_group(ctx: click.Context) -> int:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    else:
        refuse_misplaced(ctx)
    return 0


# Commands whose output is their purpose: audio, lists and measurements.
_SHOWING = ("say", "pick", "voices", "list", "show", "test", "doctor", "profile")


def _set_levels(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Set the level of our loggers as soon as -v, -q or --debug is parsed.

    -q also silences stdout, except for JSON and for commands whose output is their purpose.
    """
    if not value:
        return value
    is_quiet, root = param.name == "quiet", ctx.find_root()
    if is_quiet and ctx.command.name not in _SHOWING and not _is_json(ctx):
        nowhere = root.with_resource(Path(os.devnull).open("w"))  # noqa: SIM115
        root.with_resource(redirect_stdout(nowhere))
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING if is_quiet else logging.DEBUG)
    if param.name == "debug":
        logging.getLogger(WARNINGS_LOGGER).setLevel(logging.WARNING)
        logging.getLogger().setLevel(logging.INFO)  # of libraries
        ctx.ensure_object(Invocation).is_debug = True
    return value


def _is_json(ctx: click.Context) -> bool:
    if "--json" in ctx.find_root().ensure_object(Invocation).args:
        return True
    param = next(one for one in ctx.command.params if one.name == "json")
    return bool(param.type_cast_value(ctx, param.value_from_envvar(ctx)))


manifests_argument = click.argument(
    "manifests", metavar="MANIFEST...", nargs=-1, required=True, type=click.Path(allow_dash=True)
)


def group(heading: str, *options: Decorator[Any]) -> Decorator[Any]:
    def apply(function: Any) -> Any:
        for option in reversed(options):
            before = len(getattr(function, "__click_params__", ()))
            function = option(function)
            for param in function.__click_params__[before:]:
                param.section = heading
        return function

    return apply


def settings(
    *wanted: Topic | str, without: Collection[str] = (), **changes: Mapping[str, Any]
) -> Decorator[Any]:
    """Add the flags of settings, given as topics or as single names, under their headings.

    Args:
        without: settings of the topics that the command does not have.
        changes: per setting, arguments of click that differ here, and `short`, a one-letter flag.
    """
    names = [
        name
        for one in wanted
        for name, facts in SETTINGS.items()
        if one in (name, facts.topic) and name not in without
    ]

    def apply(function: Any) -> Any:
        for name in reversed(names):
            function = _option(name, **changes.get(name, {}))(function)
        return function

    return apply


def _option(name: str, *, short: str = "", **changes: Any) -> Decorator[Any]:
    one = SETTINGS[name]
    given: dict[str, Any] = {"cls": SectionedOption, "section": one.topic.heading}
    given |= {"help": one.help, "default": one.default, "is_common": one.is_common}
    if one.kind is bool:
        given["is_flag"] = True
    else:
        given |= {"type": _type_of(one), "metavar": one.metavar or _METAVARS.get(one.kind)}
        given |= {"show_default": one.unset or True, "multiple": one.default == ()}
        given |= {} if one.bare is None else {"is_flag": False, "flag_value": one.bare}
    if changes.get("required"):  # click would treat a default of None as a value
        del given["default"]
    return click.option(
        flag(name),
        *([short] if short else []),
        name,
        shell_complete=_complete if one.is_completed else None,
        **given | changes,
    )


_METAVARS: dict[type, str] = {int: "N", float: "S", Path: "DIR"}


def _type_of(one: SettingFacts) -> Any:
    if one.choices is not None:
        return AnyCase(one.choices)
    if one.kind is Path:
        is_file = one.metavar is not None  # the others are folders
        exists = one.exists or is_file
        return NamedPath(
            path_type=Path, exists=exists, dir_okay=not is_file, file_okay=is_file or not exists
        )
    if one.parse is not None:
        return _parser(one.parse)
    return str if one.kind is tuple else one.kind


def _complete(ctx: click.Context, param: click.Parameter, start: str) -> list[str]:
    from tts_cli.app.offers import completions

    found = completions(str(param.name), ctx.params, start)
    return [value for value in found if value == printable(value)]


def _parser(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return parsed


OUT = {"short": "-o", "show_default": False}
REQUIRED_OUT = {**OUT, "required": True}
LINK = (
    click.option(
        "--link",
        cls=SectionedOption,
        scope=Scope.ANY,
        is_flag=True,
        help="Hard-link the files instead of copying them: they need no space, but editing one "
        "changes it in both folders.",
    ),
    click.option("--copy", is_flag=True, hidden=True),  # from 0.4; it is the default now
)
NAME_BY = click.option(
    "--name-by",
    cls=SectionedOption,
    scope=Scope.ONE_RUN,
    metavar="PATTERN",
    help="Names of the files, such as {character}/{n:04}_{id}. Fields: id, n (place in the "
    "manifest), character, voice, language, take, and columns kept by --extra keep.",
)
APPROVED = click.option(
    "--approved",
    cls=SectionedOption,
    scope=Scope.ANY,
    is_flag=True,
    help="Only rows that were approved in `tts-cli review`.",
)
SPEAKING = (Topic.TEXT, Topic.SPEECH, Topic.SAMPLING, Topic.CLONING)  # how rows sound


common_options = group(
    Topic.MESSAGES.heading,
    settings("json"),
    click.option(
        "-v",
        "--verbose",
        cls=SectionedOption,
        count=True,
        callback=_set_levels,
        help="Also print settings, sizes, reasons, each retry and each row.",
    ),
    click.option(
        "-q",
        "--quiet",
        cls=SectionedOption,
        count=True,
        callback=_set_levels,
        help="Print only warnings and errors.",
    ),
    settings("debug", debug={"callback": _set_levels}),
)

"""`tts-cli config`: show every setting of a command, its value, and the origin of the value."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from tts_cli.cli.options import common_options, help_of_group, variable_of
from tts_cli.cli.screen import echo_json, show_table
from tts_cli.cli.settings_files import load_settings, settings_files, user_file
from tts_cli.config import SETTINGS, RunConfig
from tts_cli.setting import SAMPLING_FLAGS

_CHECKPOINT = "checkpoint"
_BUILT_IN = "built-in"


@click.group("config", invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Show the settings, and where each one comes from.

    \b
    Example:
      tts-cli config show synth

    A setting comes from the first of these that has it: the row of the manifest, the table of its
    character in the cast, the flag, the environment (TTS_CLI_SYNTH_VOICE for one command,
    TTS_CLI_VOICE for all), the output folder's last run, tts-cli.toml in the working folder or the
    nearest folder above it, tts-cli/tts-cli.toml in $XDG_CONFIG_HOME or ~/.config, the checkpoint's
    generation_config.json, the built-in default.
    """
    return help_of_group(ctx)


@command.command("show")
@click.argument("name", metavar="[COMMAND]", default="synth")
@common_options
@click.pass_context
def show_command(ctx: click.Context, /, name: str, **options: Any) -> int:
    """Show the settings of COMMAND, by default synth.

    \b
    Examples:
      tts-cli config show
      tts-cli config show validate --json
    """
    config = RunConfig.from_options(options)
    found = _settings(ctx, name)
    if config.json:
        files = [str(path) for path, _ in settings_files()]
        facts = {"command": name, "files": files, "settings": found}
        echo_json(facts)
        return 0
    rows = [[key, _shown(entry["value"]), entry["origin"]] for key, entry in found.items()]
    files = [str(path) for path, _ in reversed(settings_files())]
    listed = ", ".join(files) or f"none, such as {user_file()}"
    title = f"{name}; files: {listed}"
    show_table(title, ["setting", "value", "from"], rows)
    return 0


def _settings(ctx: click.Context, name: str) -> dict[str, dict[str, Any]]:
    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    target = root.command.get_command(root, name)
    if target is None:
        names = ", ".join(root.command.list_commands(root))
        raise click.UsageError(f"no such command {name!r}; the commands are {names}", ctx)
    settings = load_settings(root, (name,), target)
    root.default_map = {name: settings.values}
    at = click.Context(target, parent=root, info_name=name)
    found: dict[str, dict[str, Any]] = {}
    for param in target.params:
        key = str(param.name)
        if not isinstance(param, click.Option) or param.hidden:
            continue
        value, source = param.consume_value(at, {})
        if source == ParameterSource.ENVIRONMENT:
            origin = variable_of(at, param)
        elif source == ParameterSource.DEFAULT_MAP:
            origin = settings.places[key]
        else:
            value, origin = SETTINGS[key].default if key in SETTINGS else None, _BUILT_IN
        found[key] = {"value": value, "origin": origin}
    from tts_cli.app.offers import checkpoint_settings

    for key, value in checkpoint_settings(found.get("model", {}).get("value")).items():
        one = found.get(key, {})
        if one.get("origin") == _BUILT_IN and (key in SAMPLING_FLAGS or one["value"] is None):
            found[key] = {"value": value, "origin": _CHECKPOINT}
    return found


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)

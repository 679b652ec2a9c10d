"""`tts-cli completion`: print the script with which a shell completes commands and values."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import get_completion_class

from tts_cli.cli.options import common_options

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_TTS_CLI_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@common_options
@click.pass_context
def command(ctx: click.Context, /, shell: str, **options: Any) -> int:
    """Print the completion script for your shell: commands, flags, voices, languages and ids.

    \b
    For this shell, and for new ones:
      eval "$(tts-cli completion bash)"
      echo 'eval "$(tts-cli completion bash)"' >> ~/.bashrc
      echo 'eval "$(tts-cli completion zsh)"' >> ~/.zshrc
      tts-cli completion fish > ~/.config/fish/completions/tts-cli.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    root = ctx.find_root().command
    click.echo(found(root, {}, "tts-cli", VARIABLE).source())
    return 0

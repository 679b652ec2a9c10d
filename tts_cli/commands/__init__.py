"""One file per command of the group in `tts_cli.main`."""

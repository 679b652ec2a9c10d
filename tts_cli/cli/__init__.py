"""The command line: what a user types and reads, one file per command of `tts_cli.main`."""

"""The command line: what a user types and reads, one file a command of `tts_cli.main`."""

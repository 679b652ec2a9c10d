"""What a user types and reads: one file a command of the group in `tts_cli.main`."""

"""What a run leaves behind: audio files, journal, `run.json`, the folder's lock."""

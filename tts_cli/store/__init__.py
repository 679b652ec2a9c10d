"""The output folder, all that is on disk: audio, journal, takes, reports, the lock."""

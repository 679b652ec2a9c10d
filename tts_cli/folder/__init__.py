"""Everything on disk that a run leaves behind: audio, journal, takes, reports, the lock."""

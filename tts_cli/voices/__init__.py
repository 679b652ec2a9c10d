"""Voices to clone: recordings, voice files, and their encoding."""

"""Command line for batch text-to-speech: manifests in, audio files and a timing log out."""

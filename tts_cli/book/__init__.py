"""Chapters of a book, made of the audio of its rows."""

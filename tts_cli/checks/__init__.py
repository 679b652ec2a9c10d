"""Listening by machine: which takes are suspect, and the page to listen with."""

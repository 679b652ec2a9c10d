"""Recognizers, which never get the text, and aligners, which do."""

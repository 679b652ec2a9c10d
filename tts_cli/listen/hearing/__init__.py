"""Recognisers, and what they heard held against the text. None of them is ever shown the text."""

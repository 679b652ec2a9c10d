"""Listening by machine: what samples say without a model."""

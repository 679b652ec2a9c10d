"""Slots: the rows that a model synthesizes together, their buffers, sampling, prefill and frame."""

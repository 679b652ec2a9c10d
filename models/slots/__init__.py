"""Slots: the rows a model speaks at once, their buffers, sampling, prefill and frame."""

"""Rows through slots to audio: scheduler, loop, and the vocoder's queue beside it."""

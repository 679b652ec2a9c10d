"""Attention, and the QK norm, RoPE and cache store before it."""

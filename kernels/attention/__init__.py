"""Attention and what stands in front of it: QK norm, RoPE, the cache's store."""

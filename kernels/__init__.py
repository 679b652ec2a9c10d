"""Fused operations with a Triton body and a PyTorch reference; a folder each kind."""

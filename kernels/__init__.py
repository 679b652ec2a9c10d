"""Fused operations with a Triton body and a PyTorch reference, one operation a file."""

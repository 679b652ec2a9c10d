"""Timings of single operations (`python -m kernels.bench`) and of decoder steps."""

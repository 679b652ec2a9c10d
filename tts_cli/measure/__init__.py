"""Latencies of stages, peaks of the device, and rows to measure with."""

"""What `samples/benchmark.py table` measures, each part on its own."""

"""Data sets for training, made of what was spoken."""

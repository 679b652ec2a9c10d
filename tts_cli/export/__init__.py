"""Data sets for training, made of output folders."""

"""The plan of a run: which rows of a manifest it speaks, and as what."""

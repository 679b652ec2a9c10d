"""The plan of a run: which rows of a manifest are synthesized, and how."""

"""A whole decoder step of one slot as one launch."""

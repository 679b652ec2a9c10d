"""A whole decoder step of one or two rows as one launch."""

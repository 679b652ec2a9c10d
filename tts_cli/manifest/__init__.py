"""Rows as users write them: files, columns, ids, casts, seeds."""

"""Care for texts, with no knowledge of rows: words, numbers, and where a text may be cut."""

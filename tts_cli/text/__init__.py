"""Care for text, with no knowledge of rows: splitting, and what carries over from part to part."""

"""Where a text may be cut: after paragraphs, sentences, clauses and words."""

"""Books as people have them: Markdown, EPUB and plain text, read into chapters and rows."""

"""Books in Markdown, EPUB or plain text: reading them, and making chapters of what was spoken."""

"""Every input format, read into rows or into a book; knows no model and no output folder."""

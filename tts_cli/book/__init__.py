"""Making chapters of what was synthesized."""

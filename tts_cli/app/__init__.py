"""The undertakings of commands and library: each ties rooms together."""

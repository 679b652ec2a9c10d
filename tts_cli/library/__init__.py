"""The library: a model that stays loaded, for programs."""

"""The library: a model kept ready to speak, for programs."""

"""The library: a model kept ready to speak, which the commands stand on too."""

"""The parts of a vocoder that all families share: layers, network, and the layout of rows."""

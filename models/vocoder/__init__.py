"""The vocoder that both families share: layers, network, and how rows are laid out in it."""

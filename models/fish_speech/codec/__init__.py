"""Fish Speech's codec: vocoder and encoder, their config, weights and conversion."""

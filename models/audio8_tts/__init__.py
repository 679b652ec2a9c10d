"""Audio8-TTS 0.6B: a dual-AR model with biases on q, k and v."""

"""Qwen3-TTS 12 Hz: config, prompt, talker, code predictor, vocoder and the model that joins them."""

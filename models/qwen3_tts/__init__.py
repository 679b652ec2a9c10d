"""Qwen3-TTS 12 Hz: prompt, talker, code predictor, vocoder and the model that joins them."""

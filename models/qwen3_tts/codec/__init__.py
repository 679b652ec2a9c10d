"""The speech tokenizer of Qwen3-TTS: vocoder and speech encoder, configs and weights."""

"""Fish Speech S2 Pro: prompt, talker, code predictor, codec and the model that joins them."""

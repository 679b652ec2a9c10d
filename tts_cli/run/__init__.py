"""One run: what is to be done, the model it needs, consent, and the speaking itself."""

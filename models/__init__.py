"""Speech models: the shared parts and one folder per family."""

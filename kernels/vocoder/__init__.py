"""Operations of the vocoder's residual units and their activations."""

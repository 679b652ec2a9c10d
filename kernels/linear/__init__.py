"""Linear layers and the norms and activations that are joined with them."""

"""What families with a slow and a fast autoregressive network and a causal DAC have in common."""

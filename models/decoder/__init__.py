"""The transformer that talkers and code predictors are made of, and its KV cache."""

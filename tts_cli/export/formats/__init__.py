"""Layouts of data sets, as their loaders read them."""

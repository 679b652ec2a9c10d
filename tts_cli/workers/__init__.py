"""Processes that speak the rows of one run through Ray; one of them, the driver, has the folder."""

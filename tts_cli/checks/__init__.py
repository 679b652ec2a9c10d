"""Checks of takes: which ones are suspect, and the page of `report`."""

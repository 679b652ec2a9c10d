"""Files made of what a folder keeps, without speaking."""

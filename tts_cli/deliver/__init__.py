"""From spoken parts to what is handed over."""

"""Workers: processes that synthesize rows of one run through Ray. The driver owns the folder."""

"""Files of a checkpoint: finding, reading, strict sections, random stand-ins."""

"""Which rows of a manifest a run speaks, and as what: read, judged, held against the folder."""

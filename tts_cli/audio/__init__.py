"""From samples to bytes: joining, filters, levels, formats, tags, subtitles."""

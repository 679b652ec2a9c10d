"""How long something is, as messages show it."""

from __future__ import annotations


def shown_duration(seconds: float) -> str:
    """Seconds in the units that people would use."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"

"""The licence of the released weights.

Source: the LICENSE of fish-speech and of the S2 Pro repository, as of 2026-03-07.
"""

from __future__ import annotations

from models.base import Licence

LICENCE = Licence(
    name="Fish Audio Research License",
    terms="The weights may be used for research and other non-commercial purposes only; commercial "
    "use needs a separate written licence of Fish Audio. Anyone who passes them or a product with "
    "them on must add the licence, its notice and the words 'Built with Fish Audio'. They may not "
    "be used to make or improve other foundational generative models. The whole text is in the "
    "checkpoint's LICENSE.md.",
)

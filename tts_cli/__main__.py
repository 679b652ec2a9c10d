"""`python -m tts_cli` is the same as `tts-cli`."""

import sys

from tts_cli.main import main

sys.exit(main())

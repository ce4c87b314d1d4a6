"""``python -m keyhole`` is ``keyhole``."""

import sys

from keyhole.cli import main

sys.exit(main())

"""``python -m keyhole`` is the command line."""

import sys

from keyhole.cli import main

sys.exit(main())

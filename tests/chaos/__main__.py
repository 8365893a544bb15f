"""`python -m tests.chaos`: see `command`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # what all tests share

from .command import main

sys.exit(main())

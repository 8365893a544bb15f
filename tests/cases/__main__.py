"""`python -m tests.cases`: see `comparing`."""

import sys

from .comparing import main

sys.exit(main())

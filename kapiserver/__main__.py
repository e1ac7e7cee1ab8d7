"""`python -m kapiserver`: the command line."""

import sys

from kapiserver.cli import main

sys.exit(main())

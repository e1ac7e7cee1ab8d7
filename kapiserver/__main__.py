"""`python -m kapiserver`: the command line."""

import sys

from kapiserver.cli import main

if __name__ == "__main__":
    sys.exit(main())

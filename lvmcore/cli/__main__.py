"""Run the command line: ``python -m lvmcore.cli``."""

import sys

from lvmcore.cli import main

if __name__ == "__main__":
    sys.exit(main())

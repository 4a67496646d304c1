"""``python -m defray``: the command line."""

import sys

from defray.cli import main

if __name__ == "__main__":
    sys.exit(main())

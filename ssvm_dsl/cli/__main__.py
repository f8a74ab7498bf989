"""``python -m ssvm_dsl.cli`` is the ``ssvm`` command."""

import sys

from ssvm_dsl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

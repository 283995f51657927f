"""``python -m fedsched`` is the command line."""

import sys

# The interpreter puts the present folder first, where a file named like a dependency would be run
# in its place.
if not sys.flags.safe_path:
    sys.path.append(sys.path.pop(0))

from fedsched.cli import main

main()

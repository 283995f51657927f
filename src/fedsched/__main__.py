"""``python -m fedsched`` is the command line."""

from fedsched.cli import main

main()

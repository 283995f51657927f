"""``python -m supply``."""

import argparse
import sys
from pathlib import Path

import supply
from supply import lock, pages


def main() -> None:
    """One of three tasks."""
    parser = argparse.ArgumentParser(
        description=supply.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    tasks.add_parser("lock").add_argument("--index", required=True, help="its simple interface")
    tasks.add_parser("verify").add_argument("report", type=Path, help="of pip install --report")
    tasks.add_parser("pages")
    given = parser.parse_args()
    if given.task == "lock":
        lock.write(given.index)
    elif given.task == "pages":
        pages.write()
    elif wrong := lock.differing(given.report):
        sys.exit("\n".join([*wrong, "Install again from an index that you trust."]))


if __name__ == "__main__":
    main()

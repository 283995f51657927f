"""What long trials have done, line by line in a file: they go on where they were stopped."""

import json


class Ledger:
    """Rows of what was tried, each for a piece of the work; a piece that went wrong is no row."""

    def __init__(self, path=None):
        self._path, self.rows = path, []
        if path is not None and path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            self.rows = [json.loads(line) for line in lines]

    def has(self, **piece):
        """Whether the piece of these values is done."""
        return any(piece.items() <= row.items() for row in self.rows)

    def add(self, **row):
        """Note a piece that is done."""
        self.rows.append(row)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

"""Values by name in a file that has a line for each as soon as it is known."""

import json
from pathlib import Path


class Notes:
    """A measurement that is stopped loses nothing that it has finished."""

    def __init__(self, path: Path | None):
        self.path, self.known = path, {}
        if path is not None and path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            self.known = dict(json.loads(line) for line in lines)

    def get(self, name, make, *arguments, **options):
        """The value of a name: that of a function of these arguments, if it is not known."""
        if name not in self.known:
            self.known[name] = make(*arguments, **options)
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, self.known[name]]) + "\n")
        return self.known[name]

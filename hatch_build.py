"""Compiles the kernel into the wheel, or beside its source for an editable install."""

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelHook(BuildHookInterface):
    """One wheel for Python 3.11 and every later one: the extension keeps to the stable ABI."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say what the wheel is for."""
        del version
        package = Path(self.root, "src", "fedsched", "solve")
        built = runpy.run_path(str(package / "kernel" / "build.py"))["build"](package)
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{system}"
        build_data["artifacts"].append(str(built.relative_to(self.root)))

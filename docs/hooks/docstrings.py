"""Turns what docstrings say in Sphinx's roles into what the site shows: MathML and code.

Browsers draw MathML themselves, so formulas need neither a network nor a script.
"""

import re
from typing import Any

from griffe import Extension, Object
from latex2mathml.converter import convert

_BLOCK = re.compile(r"^([ \t]*)\.\. math::[ \t]*((?:.*\S.*\n?)+)", re.MULTILINE)
_INLINE = re.compile(r":math:`([^`]+)`")
_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)  # the section that is shown as code
_ROLE = re.compile(r":(?:class|meth|func|mod|attr|data|obj):`~?([^`]+)`")


class Roles(Extension):
    """Formulas as MathML, names as code."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite one docstring."""
        del kwargs
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)

    def on_package(self, *, pkg: Object, **kwargs: Any) -> None:
        """The package itself counts as no object."""
        self.on_object(obj=pkg, **kwargs)


def rewritten(text: str) -> str:
    """A docstring without roles.

    Example:
        >>> rewritten("See :class:`Pricing`.")
        'See `Pricing`.'
    """
    text = _BLOCK.sub(lambda block: f"{block[1]}{_mathml(block[2], 'block')}\n", text)
    text = _EXAMPLE.sub("Examples:", text)
    text = _INLINE.sub(lambda role: _mathml(role[1], "inline"), text)
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


def _mathml(latex: str, display: str) -> str:
    return convert(" ".join(latex.split()), display=display)

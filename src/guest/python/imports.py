# SPDX-License-Identifier: Apache-2.0
"""Modules that lie beside driver.py; the code inside does not get to see them."""

import builtins

# Ours, as in driver.py: not what a cell makes of them, and parts of the same program.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
__name__ = "__main__"

import importlib
import os
import sys
from typing import Any

from stream import _importers, _modules, clean

OWN = ("_snp", "display", "errors", "imports", "notebook", "openfiles", "state", "state_ambient", "state_classes",
       "state_load", "state_modules", "state_names", "state_objects", "state_same", "state_stream", "state_texts",
       "state_views", "stdio", "stream", "templates")


class Own:
    """Modules of ours that may be missing; None: sandboxes work, with less."""

    state: Any = None  # saves and restores variables
    state_error = ""  # why not
    notebook: Any = None  # habits of notebooks; else they are syntax errors


ours = Own()


def load_own(name: str) -> Any:
    """A module that lies beside us; the code inside does not get to see it."""
    here = os.path.dirname(os.path.abspath(__file__))
    hidden = {own: _modules.pop(own) for own in OWN if own in _modules}
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(here)
        _importers.pop(here, None)
        for own in OWN:
            _modules.pop(own, None)
        _modules.update(hidden)


def load_state() -> None:
    """Before anything of others is loaded. Without it sandboxes work, but are not saved."""
    try:
        ours.notebook = load_own("notebook")
    except Exception:
        pass
    try:
        ours.state = load_own("state")
    except Exception as error:
        text = "this interpreter cannot save variables: {!r}".format(error)
        ours.state_error = clean(text, 300)

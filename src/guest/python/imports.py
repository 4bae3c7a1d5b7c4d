# SPDX-License-Identifier: Apache-2.0
"""Imports of modules beside driver.py, which are hidden from the code inside."""

import builtins

# A private copy, as in driver.py: cells cannot change it. This module is a part of the same program.
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
    """Our optional modules; None: sandboxes work without them."""

    state: Any = None  # saves and restores variables
    state_error = ""  # reason if missing
    notebook: Any = None  # notebook syntax; else it is a syntax error


ours = Own()


def load_own(name: str) -> Any:
    """Import a module from our folder, hidden from the code inside."""
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
    """Before any foreign module is loaded. Without it sandboxes work, but cannot be saved."""
    try:
        ours.notebook = load_own("notebook")
    except Exception:
        pass
    try:
        ours.state = load_own("state")
    except Exception as error:
        text = "this interpreter cannot save variables: {!r}".format(error)
        ours.state_error = clean(text, 300)

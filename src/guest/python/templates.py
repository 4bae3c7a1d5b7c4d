# SPDX-License-Identifier: Apache-2.0
"""The modules that a template imports before it is forked."""

import builtins

# A private copy, as in driver.py: cells cannot change it. This module is a part of the same program.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
__name__ = "__main__"

import gc
import importlib
import os
import sys
import threading
from io import BytesIO, StringIO
from time import sleep
from typing import List, Optional

from imports import load_state, ours
from stream import _modules


# --- templates ------------------------------------------------------------------------


class PreloadError(Exception):
    """A template cannot be made; the text names the module."""


BASE = """
    json re math collections itertools functools datetime random statistics csv io os sys
    asyncio dataclasses typing decimal fractions hashlib subprocess threading traceback ast
    inspect pathlib tempfile sqlite3 unittest string textwrap copy operator heapq bisect time
    uuid base64 enum contextlib abc types struct glob shutil argparse logging pickle queue
    socket ssl secrets urllib.parse zlib gzip zipfile html xml.etree.ElementTree
    concurrent.futures concurrent.futures.thread concurrent.futures.process multiprocessing
    multiprocessing.connection multiprocessing.context multiprocessing.pool
    multiprocessing.popen_fork multiprocessing.queues multiprocessing.reduction
    multiprocessing.synchronize multiprocessing.util linecache tokenize codecs pprint calendar
    locale signal platform encodings.ascii encodings.latin_1 encodings.utf_8 encodings.utf_16
    encodings.cp1252 encodings.idna encodings.unicode_escape _strptime
""".split()

# Optional: missing in some versions of Python, or in some builds, such as those of images.
BASE_EXTRA = """
    array cmath configparser difflib doctest email.message fnmatch getpass graphlib hmac
    html.parser http.client importlib.metadata importlib.resources importlib.util ipaddress
    keyword lzma bz2 mimetypes multiprocessing.heap multiprocessing.managers
    multiprocessing.resource_tracker multiprocessing.shared_memory multiprocessing.sharedctypes
    numbers selectors shlex stat tarfile timeit tomllib unittest.mock urllib.request warnings
    weakref xml.dom.minidom xml.etree.cElementTree zoneinfo encodings.cp437 encodings.utf_8_sig
    encodings.utf_32 encodings.raw_unicode_escape encodings.hex_codec encodings.base64_codec
""".split()

ONE_THREAD = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def load(names: List[str]) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise PreloadError("cannot load {}: {}".format(name, error)) from error
        check_threads("module {} leaves".format(name))


def load_if_there(names: List[str]) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            pass


def load_base() -> None:
    load_if_there(BASE + BASE_EXTRA)
    use_fork()


def use_one_thread() -> None:
    """Keep NumPy's BLAS and similar libraries from starting threads while they are loaded."""
    for name in ONE_THREAD:
        os.environ[name] = "1"


def load_added(site: str, names: List[str]) -> None:
    """Load a user's template: any interpreter, which may lack modules of ours."""
    use_one_thread()
    load_if_there(BASE + BASE_EXTRA)
    use_fork()
    if names:
        activate(site)
        load(names)


def activate(site_path: str) -> None:
    """Activate a virtual environment, like an interpreter started from it.

    Runs code of its packages (.pth files, sitecustomize).
    """
    import site

    sys.executable = os.path.join(site_path, "bin", "python")
    sys.prefix = sys.exec_prefix = site_path
    _modules.pop("sysconfig", None)  # it has cached the prefix
    site.main()


def use_fork() -> None:
    """Start processes by fork, as before 3.14: functions of a cell exist only in this process."""
    import multiprocessing
    import multiprocessing.context as context

    default = context._default_context
    if hasattr(default, "_default_context"):
        default._default_context = multiprocessing.get_context("fork")


def load_data() -> None:
    use_one_thread()
    load_base()
    load(["numpy", "pandas"])
    import pandas

    frame = pandas.read_csv(StringIO("when,kind,x\n2020-01-01,a,1\n2020-01-02,b,2.5\n"))
    frame["when"] = pandas.to_datetime(frame["when"])
    summary = frame.groupby("kind").agg({"x": ["mean", "sum"]})
    warm = (repr(frame), frame._repr_html_(), repr(summary), repr(frame.describe()))
    frame.merge(frame, on="kind").sort_values("x_x").to_csv(StringIO())
    del warm


def load_plot() -> None:
    os.environ["MPLBACKEND"] = "Agg"
    load_data()
    load(["matplotlib"])
    import matplotlib

    matplotlib.use("Agg")
    load(["matplotlib.pyplot"])
    import matplotlib.pyplot as pyplot

    figure, axes = pyplot.subplots()
    axes.plot([1, 2, 3], label="x")
    axes.set_title("$x$")
    axes.legend()
    figure.savefig(BytesIO(), format="png", bbox_inches="tight")
    pyplot.close("all")
    # Its fonts keep files open, which are closed in a sandbox.
    from matplotlib import font_manager, mathtext

    for cached in (
        getattr(font_manager, "_get_font", None),
        getattr(mathtext.MathTextParser, "_parse_cached", None),
    ):
        clear = getattr(cached, "cache_clear", None)
        if clear is not None:
            clear()


# Standard streams, control socket, filter.
LAST_GIVEN_FD = 4

TEMPLATES = {"base": load_base, "data": load_data, "plot": load_plot}


def check_threads(what: str) -> None:
    """A process with threads cannot be forked safely."""
    threads = [thread.name for thread in threading.enumerate()]
    if len(threads) > 1:
        names = ", ".join(threads[1:])
        raise PreloadError("{} threads running: {}".format(what, names))
    tasks = task_names()
    if len(tasks) > 1:
        names = ", ".join(tasks[1:])
        raise PreloadError("{} threads running outside Python: {}".format(what, names))


def preload(template: str, site: Optional[str], names: List[str]) -> None:
    """Load a template's modules; the process can then be forked."""
    load_state()
    try:
        if site is None:
            TEMPLATES[template]()
        else:
            load_added(site, names)
    except PreloadError:
        raise
    except Exception as error:
        raise PreloadError("template {}: {!r}".format(template, error)) from error
    check_threads("template {} has".format(template))
    if ours.state is not None:
        ours.state.note_modules(_modules)
    if "ssl" in _modules:
        # Its generator is made at the first use. Made here it is shared by all forks; OpenSSL reseeds it in each, and
        # renew_randomness adds to it.
        _modules["ssl"].RAND_bytes(1)
    gc.collect()
    files = open_files()
    if files:
        text = "template {} keeps files open, which sandboxes would miss: {}"
        raise PreloadError(text.format(template, ", ".join(files)))
    gc.freeze()


# Files there that modules read while they are loaded.
ETC = ["/etc/localtime", "/etc/matplotlibrc", "/etc/mime.types", "/etc/ssl/openssl.cnf", "/etc/timezone"]


def loaded_files() -> bytes:
    """The files behind an image of this process, "PATH\0"...: a change makes it stale."""
    here = os.path.dirname(os.path.abspath(__file__))
    paths = {os.path.join(here, name) for name in os.listdir(here)}
    paths.update(sys.path, ETC)
    for module in list(_modules.values()):
        paths.add(getattr(module, "__file__", None) or "")
        try:
            paths.update(getattr(module, "__path__", None) or ())
        except Exception:  # of any type: packages can put any object there
            pass
    names = sorted(path for path in paths if isinstance(path, str) and path.startswith("/"))
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def open_files() -> List[str]:
    """Open regular files of this process, except inherited ones; empty without /proc."""
    names = []
    try:
        for number in os.listdir("/proc/self/fd"):
            if int(number) > LAST_GIVEN_FD:
                try:
                    name = os.readlink("/proc/self/fd/" + number)
                except OSError:
                    continue  # the listing itself
                if name.startswith("/") and not name.startswith(("/proc", "/dev", "/memfd:")):
                    names.append(name)
    except OSError:
        pass
    return names


def task_names() -> List[str]:
    """The kernel's names of our threads; empty without /proc."""
    try:
        names = []
        for task in os.listdir("/proc/self/task"):
            with open("/proc/self/task/{}/comm".format(task)) as comm:
                names.append(comm.read().strip())
        return names
    except OSError:
        return []


def other_threads() -> List[str]:
    """Names of the other threads: Python's, else the kernel's."""
    names = [thread.name for thread in threading.enumerate()][1:]
    tasks: List[str] = []
    for pause in (0.001, 0.005, 0.02, 0.05):  # an ended thread may still be listed briefly
        tasks = names or task_names()[1:]
        if names or not tasks:
            break
        sleep(pause)
    return tasks

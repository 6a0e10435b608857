# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libdlo-client.so.0 (and libdlo-client-cuda.so.0), once a process.

Looked for, in this order: the file that $DLO_LIBRARY names; beside this package; in the build/
folder of the source tree that this package lies in; where the dynamic linker looks. A library that
was found and cannot be used is an error that says why: no other one is tried after it.
"""
import ctypes
import os
import threading

from dlo import _abi

CORE = "libdlo-client.so.0"
CUDA = "libdlo-client-cuda.so.0"

_lock = threading.Lock()
_loaded = {}  # soname: the library, or the LibraryError


class LibraryError(Exception):
    """The C library cannot be used; the text says where it was looked for and what is wrong."""


def _candidates(soname, variable):
    here = os.path.dirname(os.path.abspath(__file__))
    named = os.environ.get(variable)
    if named:
        yield named, f"${variable}"
        return
    yield os.path.join(here, soname), "beside the package"
    if os.path.basename(os.path.dirname(here)) == "python":  # SOURCE/client/python/dlo
        yield os.path.join(here, "..", "..", "..", "build", soname), "in the source tree's build folder"
    yield soname, "where the dynamic linker looks"


def _find(soname, variable):
    looked = []
    for path, where in _candidates(soname, variable):
        if os.sep in path and not os.path.exists(path):
            looked.append(f"{path} ({where}): no such file")
            continue
        try:
            return ctypes.CDLL(path), os.path.normpath(path)
        except OSError as e:
            looked.append(f"{path} ({where}): {e}")
    raise LibraryError(
        f"{soname} was not found. Install it (make install), or name the file with ${variable}. "
        f"Looked at: {'; '.join(looked)}")


def _load(soname, variable, prototypes):
    with _lock:
        if soname not in _loaded:
            try:
                library, path = _find(soname, variable)
                _abi.bind(library, prototypes)
                library.dlo_path = path
                _loaded[soname] = library
            except LibraryError as e:
                _loaded[soname] = e
            except AttributeError as e:
                _loaded[soname] = LibraryError(f"{path} is of another version: {e}")
        if isinstance(_loaded[soname], LibraryError):
            raise _loaded[soname]
        return _loaded[soname]


def load():
    """The core library as a ctypes.CDLL with prototypes; its path is `.dlo_path`. Raises LibraryError,
    the same each time. Calls release the interpreter's lock. Any thread."""
    return _load(CORE, "DLO_LIBRARY", _abi.PROTOTYPES)


def load_cuda(prototypes):
    """The CUDA library, which needs the core library first. Raises LibraryError."""
    load()
    return _load(CUDA, "DLO_LIBRARY_CUDA", prototypes)


def _after_fork():
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_after_fork)

# SPDX-License-Identifier: Apache-2.0
"""Calls a function with a module as soon as that module has been imported."""
import importlib.machinery
import sys


class _Finder:
    def __init__(self):
        self.waiting = {}  # module: function

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            self.waiting.pop(name)(module)

        spec.loader.exec_module = exec_module
        return spec


_finder = _Finder()


def when_imported(name, function):
    """Calls function(module) now, or after the import. function must not raise: the import would
    fail. A second function for the same module replaces the first."""
    if name in sys.modules:
        function(sys.modules[name])
        return
    _finder.waiting[name] = function
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)

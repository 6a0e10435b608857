# SPDX-License-Identifier: Apache-2.0
"""On PYTHONPATH by `python3 -m dlo run` and `record`: starts what they ask for in every Python process
of the program, then runs the sitecustomize that was there before."""
import os
import sys


def _start():
    from dlo import empty_cache, record, settings

    try:
        record.start()
        if settings.get("DLO_WRAP_EMPTY_CACHE"):
            empty_cache.install()
    except settings.SettingError as e:
        print(f"dlo: {e}", file=sys.stderr)


def _run_former():
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in sys.path:
        path = os.path.join(folder or ".", "sitecustomize.py")
        if os.path.abspath(folder or ".") != here and os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                exec(compile(f.read(), path, "exec"), {"__name__": "sitecustomize", "__file__": path})
            return


_start()
_run_former()

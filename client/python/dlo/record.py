# SPDX-License-Identifier: Apache-2.0
"""Records what a program's releases cost, before anything is changed: one trace line a boundary.

A boundary is a call of torch.cuda.empty_cache, or of release_if_needed in vLLM-Omni. The file is a
trace as `dlo-ctl replay` and `python3 -m dlo report` read it (docs/user-guide.md has the keys). Nothing
is asked and no answer is given: the program does what it did.
"""
import functools
import os
import sys
import threading
import time

from dlo import engage, imports, settings
from dlo.doors import Doors, is_out_of_memory
from dlo.registration import worker_name

HEADER = "# dlo-trace 1\n"
BYTES_MAX = 64 << 20  # of a file: about 300,000 boundaries


def _text(value):
    return "-" if value is None else str(int(value))


class Recorder:
    """Writes to path, or to path.PID where another process of the program has that one. Threads: any.
    Fork: the child records to a file of its own. A disk that is full ends the recording, never the
    program."""

    def __init__(self, path):
        self.path = path
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self):
        self.file, self.is_over, self.bytes = None, False, 0
        self.lock = threading.Lock()
        self.inside = threading.local()
        self.emptied_before = False

    def _open(self):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(self.path, flags, 0o644)
        except FileExistsError:
            return os.open(f"{self.path}.{os.getpid()}", flags, 0o644)

    def _write(self, line):
        with self.lock:
            if self.is_over:
                return
            try:
                if self.file is None:
                    self.file = self._open()
                    line = f"{HEADER}open s=1 name={worker_name()} pid={os.getpid()}\n{line}"
                self.bytes += len(line)
                self.is_over = self.bytes > BYTES_MAX
                os.write(self.file, line.encode())
            except (OSError, settings.SettingError) as e:
                self.is_over = True
                engage.refuse("record", f"{self.path}: {e}")

    def boundary(self, device, component, call):
        """Runs the host's call and writes what was before it and what it took. Calls inside it are part
        of it."""
        if getattr(self.inside, "depth", 0):
            return call()
        doors = Doors(device)
        reserved, allocated = doors.read_allocator()
        free, total = doors.read_memory()
        inactive, retries = _fragments(device)
        force = " force=oom_retry" if is_out_of_memory(sys.exc_info()[1]) else ""
        from_empty = f" from_empty={_text(reserved)}" if self.emptied_before else ""
        self.inside.depth, self.inside.us = 1, None
        try:
            return call()
        finally:
            self.inside.depth = 0
            now = f"{time.monotonic():.6f}"
            line = (f"ask s=1 reserved={_text(reserved)} allocated={_text(allocated)} "
                    f"free={_text(free)} total={_text(total)}{force} component={component}{from_empty} "
                    f"inactive={_text(inactive)} retries={_text(retries)} t={now}\n")
            self.emptied_before = self.inside.us is not None
            if self.emptied_before:
                after = doors.read_allocator()
                if None not in after:
                    line += (f"released s=1 reserved={after[0]} allocated={after[1]} "
                             f"us={self.inside.us} t={now}\n")
            self._write(line)

    def emptying(self, call):
        """Runs torch's own empty_cache and keeps how long it took."""
        started = time.monotonic_ns()
        try:
            return call()
        finally:
            self.inside.us = (time.monotonic_ns() - started) // 1000


def _fragments(device):
    """(inactive split bytes, allocation retries), None where torch does not tell."""
    try:
        import torch

        stats = torch.cuda.memory_stats_as_nested_dict(device)
        return stats["inactive_split_bytes"]["all"]["current"], stats["num_alloc_retries"]
    except Exception:
        return None, None


_recorder = None


def _wrap_torch(torch):
    original = torch.cuda.empty_cache
    recorder = _recorder

    @functools.wraps(original)
    def empty_cache():
        def call():
            return recorder.emptying(original)

        if getattr(recorder.inside, "depth", 0):
            return call()
        if not torch.cuda.is_initialized():
            return original()
        return recorder.boundary(torch.device("cuda", torch.cuda.current_device()), "empty_cache", call)

    torch.cuda.empty_cache = empty_cache


def _wrap_cache(module):
    cls, recorder = getattr(module, "BoundedAllocatorCache", None), _recorder
    original = getattr(cls, "release_if_needed", None)
    if not original:
        return

    @functools.wraps(original)
    def release_if_needed(self, *, force=False):
        return recorder.boundary(self.device, "forced" if force else "component",
                                 lambda: original(self, force=force))

    cls.release_if_needed = release_if_needed


def start(path=None):
    """Records from here on, to path or $DLO_RECORD. Starting twice is fine. Returns whether it
    records."""
    global _recorder
    path = path or settings.get("DLO_RECORD")
    if not path or _recorder:
        return bool(_recorder)
    _recorder = Recorder(path)
    imports.when_imported("torch", _wrap_torch)
    for name in settings.get("DLO_VLLM_OMNI_MODULES"):
        imports.when_imported(name, _wrap_cache)
    return True

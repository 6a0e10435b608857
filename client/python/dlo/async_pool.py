# SPDX-License-Identifier: Apache-2.0
"""torch's cudaMallocAsync backend: its cache is the driver's default memory pool of the device.

torch tells the driver to keep everything. Here, as in the pool adapter of libdlo-client-cuda, the
pool's release threshold is what is used plus the cap after each answer, so that the cap holds between
boundaries and without a daemon; where dlo does not decide, and at the end, it is what it was before.
The driver is reached by ctypes, by versioned names; no call needs a current context, and none is made
in the child of a fork.
"""
import ctypes
import os
import weakref

RELEASE_THRESHOLD, RESERVED_CURRENT, USED_CURRENT = 4, 5, 7
THRESHOLD_MAX = 2**64 - 1


class PoolError(Exception):
    """The driver or the pool cannot be used."""


def _driver():
    path = os.environ.get("DLO_LIBCUDA") or "libcuda.so.1"
    try:
        return ctypes.CDLL(path)
    except OSError as e:
        raise PoolError(str(e)) from None


def _call(driver, name, *arguments):
    result = getattr(driver, name)(*arguments)
    if result:
        raise PoolError(f"{name} answered {result}")


def _set(driver, pool, attribute, value):
    _call(driver, "cuMemPoolSetAttribute", pool, ctypes.c_uint(attribute),
          ctypes.byref(ctypes.c_uint64(value)))


def _restore(driver, pool, pid, threshold):
    if os.getpid() == pid:
        try:
            _set(driver, pool, RELEASE_THRESHOLD, threshold)
        except PoolError:
            pass  # the context is gone, and the pool with it


class AsyncPool:
    """The default pool of a device, by its ordinal in this process. Raises PoolError."""

    def __init__(self, ordinal):
        self._driver = _driver()
        self._pid = os.getpid()
        self._pool = ctypes.c_void_p()
        device = ctypes.c_int()
        _call(self._driver, "cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal))
        _call(self._driver, "cuDeviceGetDefaultMemPool", ctypes.byref(self._pool), device)
        self._before = self._get(RELEASE_THRESHOLD)
        weakref.finalize(self, _restore, self._driver, self._pool, self._pid, self._before)

    def _get(self, attribute):
        if os.getpid() != self._pid:
            raise PoolError("no CUDA in the child of a fork")
        value = ctypes.c_uint64()
        _call(self._driver, "cuMemPoolGetAttribute", self._pool, ctypes.c_uint(attribute),
              ctypes.byref(value))
        return value.value

    def read(self):
        """(reserved, allocated) in bytes."""
        return self._get(RESERVED_CURRENT), self._get(USED_CURRENT)

    def keep(self, cap):
        """The driver keeps what is used plus so many bytes; None: as before we came."""
        threshold = self._before
        if cap is not None:
            threshold = min(self._get(USED_CURRENT) + cap, THRESHOLD_MAX)
        _set(self._driver, self._pool, RELEASE_THRESHOLD, threshold)

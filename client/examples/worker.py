# SPDX-License-Identifier: Apache-2.0
"""A Python worker with an allocator of its own: the driver's default memory pool, by ctypes. It runs two
components a request and asks at each boundary whether to trim the pool. (A program on torch needs less:
dlo.AllocatorCache reads and empties torch's cache by itself.)

    python3 worker.py [REQUESTS]
"""
import ctypes
import sys
import time

import dlo
from dlo.async_pool import AsyncPool

MIB = 1 << 20
COMPONENTS = {"text_encoder": 96 * MIB, "transformer": 160 * MIB}  # bytes that each maps


class Gpu:
    """As much of the driver as this worker needs."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.pool = ctypes.c_void_p()
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuDeviceGetDefaultMemPool", ctypes.byref(self.pool), 0)

    def call(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        if result:
            sys.exit(f"worker: {name} answered {result}")

    def memory(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def run(self, count):
        """Weights and activations come and go; the pool keeps what was freed."""
        address = ctypes.c_ulonglong()
        self.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(count), None)
        self.call("cuMemFreeAsync", address, None)
        self.call("cuCtxSynchronize")

    def trim(self):
        self.call("cuMemPoolTrimTo", self.pool, ctypes.c_size_t(0))


def boundary(client, gpu, pool, component):
    """Asks, obeys, and tells what that gave back. True where the pool was trimmed."""
    reserved, allocated = pool.read()
    free, total = gpu.memory()
    answer = client.ask(reserved=reserved, allocated=allocated, free=free, total=total,
                        component=component)
    print(f"{component}: {answer.decision}, {answer.reason}, cached {answer.cached // MIB} MiB")
    if answer.cap is not None:
        pool.keep(answer.cap)  # what the driver keeps by itself until the next boundary
    if answer.decision == "retain":
        return False
    started = time.monotonic_ns()
    gpu.trim()
    client.released(*pool.read(), (time.monotonic_ns() - started) // 1000)
    return True


def main():
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    gpu, trimmed = Gpu(), 0
    pool = AsyncPool(0)
    with dlo.Client(name="example-py") as client:
        pool.keep(client.cap(gpu.memory()[1]))
        for name, count in COMPONENTS.items():
            client.attach(name, count)
        for request in range(-2, requests):  # two dummy requests before the users'
            if request == -2:
                client.warmup_begin()
            for name, count in COMPONENTS.items():
                gpu.run(count)
                trimmed += boundary(client, gpu, pool, name)
            if request == -1:
                client.warmup_end()
    print(f"trimmed {trimmed} times")


if __name__ == "__main__":
    main()

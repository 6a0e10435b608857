#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The host plugins over stand-ins: vLLM-Omni with and without a ledger, torch.cuda.empty_cache, and the
driver's pool of the cudaMallocAsync backend."""
import os

from lib.harness import ROOT, Daemon, SimGpu, folder
from lib.python import PACKAGE, STUB, Program, Setup, run
from lib.runner import check_equal, check_in, main, test

OMNI = os.path.join(ROOT, "tests", "python", "omni")
RESIDENCY = "vllm_omni.diffusion.offloader.module_residency"
CODE = Setup(f"""
import importlib
from dlo import vllm_omni as plugin
def residency():
    return importlib.import_module("{RESIDENCY}")
def original_calls():
    return state.calls["original"]
""")


def omni(kind):
    """PYTHONPATH with vLLM-Omni of that kind."""
    return os.pathsep.join([PACKAGE, STUB, os.path.join(OMNI, "common"), os.path.join(OMNI, kind)])


def only_row(daemon):
    [row] = daemon.status()["sessions"]
    return row


# ---- vLLM-Omni ----

@test
def a_class_is_patched_in_place_on_import():
    for kind in ("learned", "fixed"):
        with Daemon() as d:
            _, err = run(CODE + f"""
                del sys.modules["torch"]
                plugin.register()
                plugin.register()
                assert "torch" not in sys.modules and "{RESIDENCY}" not in sys.modules
                import torch
                state = torch.state
                m = residency()
                cache = m.BoundedAllocatorCache(torch.device("cuda", 0), min_free_fraction=0.0)
                stager = m.PinnedModuleStager(100, cache)
                equal((cache._staged_bytes, stager.staged_bytes), (100, 100))
                holding(30)
                equal(cache.release_if_needed(), True)
                holding(37)
                equal(cache.release_if_needed(), False)
                equal((cache.observed_cached_peak, cache.budget_bytes), (37, 46))
                equal(original_calls(), 0)
                stager.set_cache_retention(cache)  # the same one: nothing
                equal(cache._staged_bytes, 100)
                stager.set_cache_retention(None)
                equal((cache._staged_bytes, cache.observed_cached_peak), (0, 0))
            """, d, PYTHONPATH=omni(kind))
            check_in("host vllm-omni", err)


@test
def names_bound_before_and_older_objects_are_patched_too():
    with Daemon() as d, Program(CODE + """
            from unittest import mock
            m = residency()
            Cache = m.BoundedAllocatorCache
            spec = mock.Mock(spec=Cache)
            older = Cache(torch.device("cuda", 0))
            older.grow_retention_budget(70)
            holding(30)
            older.release_if_needed()
            equal(original_calls(), 1)
            plugin.register()
            assert Cache is m.BoundedAllocatorCache and isinstance(older, Cache)
            equal((older._staged_bytes, older.observed_cached_peak), (70, 30))
            holding(37)
            equal(older.release_if_needed(), False)
            equal(original_calls(), 1)
            step("registered")
            import copy
            other = copy.copy(older)
            equal((other._staged_bytes, other.observed_cached_peak), (70, 37))
            other.grow_retention_budget(1)
            equal(older._staged_bytes, 70)
        """, d, PYTHONPATH=omni("learned")) as p:
        check_equal(p.line(), "registered")
        check_equal((only_row(d)["staged"], only_row(d)["peak"]), (70, 37))
        p.go()
        p.finish()


@test
def in_shadow_the_class_decides_as_it_did():
    code = CODE + """
        plugin.register()
        m = residency()
        cache = m.BoundedAllocatorCache(torch.device("cuda", 0))
        stager = m.PinnedModuleStager(100, cache)
        for cached in (30, 37, 20, 90, 101, 112, 5):
            holding(cached)
            print(cache.release_if_needed(), state.calls["empty_cache"], original_calls())
        holding(7)
        print(cache.release_if_needed(force=True), state.calls["empty_cache"], original_calls())
    """
    for kind in ("learned", "fixed"):
        with Daemon() as d:
            plain, _ = run(code, d, PYTHONPATH=omni(kind), DLO_MODE="off")
            shadow, _ = run(code, d, PYTHONPATH=omni(kind), DLO_MODE="shadow")
            check_equal(shadow, plain)
        with Daemon(mode="shadow") as d:
            shadow, _ = run(code, d, PYTHONPATH=omni(kind))
            check_equal(shadow, plain)


@test
def off_leaves_everything_as_it_is():
    for env in ({"DLO_MODE": "off", "DLO_SOCKET": "/nonexistent/s"}, {}):
        _, err = run(CODE + """
            plugin.register()
            m = residency()
            assert "_dlo_patched" not in vars(m.BoundedAllocatorCache)
            m.BoundedAllocatorCache(torch.device("cuda", 0)).release_if_needed()
            equal(original_calls(), 1)
        """, PYTHONPATH=omni("learned"), **env)
        check_equal(err, "")


@test
def what_it_does_not_know_it_leaves_alone_and_says_so():
    with folder() as path:
        where = os.path.join(path, *RESIDENCY.split(".")[:-1])
        os.makedirs(where)
        for body in ("class BoundedAllocatorCache: pass\nclass PinnedModuleStager: pass\n",
                     "class BoundedAllocatorCache:\n    def __init__(self, budget): pass\n", ""):
            with open(os.path.join(where, "module_residency.py"), "w", encoding="utf-8") as f:
                f.write(body)
            _, err = run(CODE + """
                plugin.register()
                m = residency()
                assert not hasattr(getattr(m, "BoundedAllocatorCache", None), "_dlo_patched")
            """, PYTHONPATH=os.pathsep.join([PACKAGE, STUB, path]), DLO_MODE="on",
                         DLO_SOCKET="/nonexistent/s")
            check_equal(err.count("\n"), 1, err)
            check_in("NOT engaged in host vllm-omni", err)
    _, err = run(CODE + "plugin.register()\nresidency()", PYTHONPATH=omni("learned"), DLO_MODE="on",
                 DLO_LIBRARY="/nonexistent/lib.so")
    check_in("NOT engaged in host vllm-omni", err)


@test
def requests_are_bracketed():
    with Daemon() as d, Program(CODE + """
            plugin.register()
            from vllm_omni.diffusion.worker.diffusion_worker import DiffusionWorker
            cache = residency().BoundedAllocatorCache(torch.device("cuda", 0))
            holding(0)
            cache.release_if_needed()
            worker = DiffusionWorker()
            equal(worker.execute_model(lambda: step("busy")), "")
            step("idle")
            equal(worker.execute_model_batch([lambda: step("busy"), lambda: 2]), ["", 2])
            step("idle")

            def fail():
                raise KeyError("the host's own")

            try:
                worker.execute_model(fail)
            except KeyError as e:
                equal(e.args, ("the host's own",))
            step("idle")
        """, d, PYTHONPATH=omni("fixed")) as p:
        for expected in ("busy", "idle", "busy", "idle", "idle"):
            check_equal(p.line(), expected)
            check_equal(only_row(d)["busy"], expected == "busy")
            p.go()
        p.finish()


@test
def a_forced_release_tells_why():
    code = CODE + """
        plugin.register()
        cache = residency().BoundedAllocatorCache(torch.device("cuda", 0))
        holding(0)
        cache.release_if_needed()
        equal(cache.release_if_needed(force=True), os.environ["DLO_STAGE_END"] == "force")
        try:
            raise ValueError("a component")
        except ValueError:
            equal(cache.release_if_needed(force=True), True)
        try:
            raise torch.OutOfMemoryError("first")
        except torch.OutOfMemoryError:
            cache.release_if_needed(force=True)
            try:
                raise torch.OutOfMemoryError("second")
            except torch.OutOfMemoryError:
                cache.release_if_needed(force=True)
        step("done")
    """
    for stage_end, expected in (("force", (1, 2, 1)), ("advise", (0, 2, 1))):
        with Daemon() as d, Program(code, d, PYTHONPATH=omni("learned"), DLO_STAGE_END=stage_end) as p:
            check_equal(p.line(), "done")
            forced = only_row(d)["forced"]
            check_equal((forced["stage_end"], forced["failure"], forced["oom_retry"]), expected)
            p.go()
            p.finish()


@test
def a_collected_stager_is_detached():
    for kind in ("learned", "fixed"):
        with Daemon() as d:
            run(CODE + """
                import gc
                plugin.register()
                m = residency()
                cache = m.BoundedAllocatorCache(torch.device("cuda", 0))
                stagers = [m.PinnedModuleStager(n, cache) for n in (100, 20)]
                holding(30)
                cache.release_if_needed()
                stagers.pop()
                gc.collect()
                holding(0)
                cache.release_if_needed()
                equal((cache._staged_bytes, cache.observed_cached_peak), (100, 30))
                stagers[0].set_cache_retention(None)
                equal((cache._staged_bytes, cache.observed_cached_peak), (0, 0))
                stagers.pop()
                gc.collect()
                cache.grow_retention_budget(3)
                equal(cache._staged_bytes, 3)
            """, d, PYTHONPATH=omni(kind))


# ---- any torch program ----

WRAPPER = Setup("""
from dlo import empty_cache
equal(empty_cache.install(), True)
equal(empty_cache.install(), True)
def calls():
    return state.calls["empty_cache"]
""")


@test
def a_torch_program_is_asked_for_at_its_own_calls():
    with Daemon() as d, Program(WRAPPER + """
            holding(30)
            torch.cuda.empty_cache()
            equal(calls(), 1)
            holding(37)
            torch.cuda.empty_cache()
            equal(calls(), 1)  # kept
            try:
                raise torch.OutOfMemoryError("CUDA out of memory")
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
            equal(calls(), 2)
            step("asked")
            empty_cache.uninstall()
            holding(0)
            torch.cuda.empty_cache()
            equal(calls(), 3)
        """, d) as p:
        check_equal(p.line(), "asked")
        row = only_row(d)
        check_equal((row["retained"], row["serving_releases"], row["forced"]["oom_retry"]), (1, 1, 1))
        p.go()
        p.finish()


@test
def a_wrapped_program_goes_on_without_a_daemon_and_in_shadow():
    run(WRAPPER + """
        state.is_initialized = False
        torch.cuda.empty_cache()
        equal(calls(), 1)  # nothing to ask for
        state.is_initialized = True
        holding(30)
        torch.cuda.empty_cache()
        holding(37)
        torch.cuda.empty_cache()
        equal(calls(), 2)
    """, DLO_SOCKET="/nonexistent/s")
    run(WRAPPER + """
        for n in (1, 2, 3):
            holding(30)
            torch.cuda.empty_cache()
            equal(calls(), n)
    """, DLO_SOCKET="/nonexistent/s", DLO_MODE="shadow")
    run("""
        from dlo import empty_cache
        before = torch.cuda.empty_cache
        equal(empty_cache.install(), False)
        assert torch.cuda.empty_cache is before
    """)
    _, err = run("""
        from dlo import empty_cache
        equal(empty_cache.install(), False)
    """, DLO_SOCKET="/nonexistent/s", DLO_LIBRARY="/nonexistent/lib.so")
    check_in("NOT engaged in host torch.cuda.empty_cache", err)


@test
def the_drivers_pool_of_cudamallocasync_keeps_the_cap():
    with folder() as at:
        sim = SimGpu(at, "1Gi")
        with Daemon() as d:
            run("""
                import ctypes
                cu = ctypes.CDLL("libcuda.so.1")
                context, pool, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
                equal(cu.cuInit(0), 0)
                equal(cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), 0)
                equal(cu.cuCtxSetCurrent(context), 0)
                equal(cu.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0), 0)
                before = ctypes.c_uint64(2**64 - 1)  # as torch sets it
                equal(cu.cuMemPoolSetAttribute(pool, 4, ctypes.byref(before)), 0)

                def attribute(number):
                    value = ctypes.c_uint64()
                    equal(cu.cuMemPoolGetAttribute(pool, number, ctypes.byref(value)), 0)
                    return value.value

                def fill(mib):
                    address = ctypes.c_ulonglong()
                    equal(cu.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(mib << 20), stream), 0)
                    equal(cu.cuMemFreeAsync(address, stream), 0)
                    equal(cu.cuCtxSynchronize(), 0)

                def mem_get_info(device=None):
                    free, total = ctypes.c_size_t(), ctypes.c_size_t()
                    equal(cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), 0)
                    return free.value, total.value

                torch.cuda.get_allocator_backend = lambda: "cudaMallocAsync"
                torch.cuda.mem_get_info = mem_get_info
                state.on_empty = lambda: equal(cu.cuMemPoolTrimTo(pool, ctypes.c_size_t(0)), 0)
                cache = new_cache()
                fill(96)
                equal(cache.release_if_needed(), True)
                equal(attribute(5), 0)
                cap = mem_get_info()[1] // 4
                equal(attribute(4), cap)
                fill(96)
                equal(cache.release_if_needed(), False)
                equal(attribute(5), 96 << 20)
                equal(attribute(4), cap)
                del cache
                equal(attribute(4), 2**64 - 1)  # as it was
                os.environ["DLO_MODE"] = "shadow"
                cache = new_cache()
                equal(cache.release_if_needed(), True)
                equal(attribute(4), 2**64 - 1)
            """, d, **sim.env)


if __name__ == "__main__":
    main()

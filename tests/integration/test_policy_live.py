#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules through a real daemon: R1 to R13 and R30 as a worker sees them."""
from lib import wire
from lib.harness import Daemon, GB, SimGpu, folder, wait_for, worker
from lib.runner import check, check_equal, check_in, main, test

TOTAL = 400


def ask(p, cached, free=80, **more):
    return p.ask(cached + 10, 10, free, TOTAL, **more)


# ---- R3 to R8 ----

@test
def a_session_decides_first_and_learns_then():
    with Daemon() as d, d.worker() as p:
        check_equal(ask(p, 30)[:2], ("release", "cached_over_budget"))
        decision, reason, a = ask(p, 30)
        check_equal((decision, reason, a["budget"], a["peak"], a["learned"], a["n"]),
                    ("retain", "within_budget", 37, 30, 37, 2))
        check_equal((a["floor"], a["cap"], a["cached"], a.get("age_ns", 0)), (20, 100, 30, 0))
        check_equal(ask(p, 30, free=19)[:2], ("release", "low_free_memory"))
        check_equal(ask(p, 30, free=20)[:2], ("retain", "within_budget"))
        check_equal(ask(p, 37)[:2], ("retain", "within_budget"))
        check_equal(ask(p, 47)[1], "cached_over_budget")


@test
def the_last_detach_resets_the_peak():
    with Daemon() as d, d.worker() as p:
        p.ok("attach", id="a", bytes=5)
        p.ok("attach", id="b", bytes=7)
        ask(p, 30)
        check_equal(p.ok("detach", id="a")["peak"], 30)
        check_equal(p.ok("detach", id="b").get("peak", 0), 0)
        check_equal(ask(p, 1)[:2], ("release", "cached_over_budget"))


@test
def a_forced_release_reads_nothing_and_learns_nothing():
    with Daemon() as d, d.worker() as p:
        for cause, number in wire.FORCE.items():
            decision, reason, a = ask(p, 90, force=number)
            check_equal((decision, reason, a.get("peak", 0)), ("release", "forced", 0), cause)
            check(not any(k in a for k in ("cached", "free", "total", "floor", "cap", "budget")), a)
        [row] = d.status()["sessions"]
        check_equal(row["forced"], {cause: 1 for cause in wire.FORCE})


@test
def stage_end_is_advised_where_the_hello_says_so():
    with Daemon() as d, d.worker(stage_end=wire.STAGE_END["advise"]) as p:
        check_equal(ask(p, 0, force=wire.FORCE["stage_end"])[:2], ("retain", "within_budget"))
        check_equal(ask(p, 0, force=wire.FORCE["failure"])[1], "forced")


@test
def missing_telemetry_releases_under_every_policy():
    with Daemon(allow_never="true") as d:
        for policy in ("learned", "fixed", "always", "never"):
            with d.worker(policy=wire.POLICY[policy]) as p:
                for fields in ({}, {"reserved": 40, "allocated": 10, "free": 80},
                               {"reserved": 40, "allocated": 10, "total": 400},
                               {"reserved": 40, "free": 80, "total": 400}):
                    answer = p.ok("ask", **fields)
                    check_equal((answer["decision"], answer["reason"], answer.get("peak", 0)),
                                (2, wire.REASON["telemetry_unavailable"], 0), (policy, fields))


@test
def releasable_replaces_cached_where_it_is_smaller():
    with Daemon() as d, d.worker() as p:
        check_equal(p.ask(50, 10, 80, TOTAL, releasable=25)[2]["cached"], 25)
        check_equal(p.ask(50, 10, 80, TOTAL, releasable=99)[2]["cached"], 40)


@test
def what_a_release_proved_is_counted():
    with Daemon() as d, d.worker() as p:
        ask(p, 30)
        p.ok("released", reserved=12, allocated=10, us=1500)
        [row] = d.status()["sessions"]
        check_equal(row["residue"], 2)
        check_equal(row["proof"], {
            "releases": 1, "empty": 0, "released_bytes": 28, "release_us": 1500,
            "last": {"cached": 30, "freed": 28, "sampled": None, "residue": 2, "us": 1500,
                     "age_ns": row["proof"]["last"]["age_ns"]}})


@test
def a_session_that_releases_all_the_time_is_shown_and_told_once():
    with Daemon() as d, d.worker("heavy") as p:
        for _ in range(7):
            ask(p, 101)  # over the cap of 100
        check_equal(d.status()["sessions"][0]["habit"], None)
        for _ in range(5):
            ask(p, 101)
        row = d.status()["sessions"][0]
        check_equal((row["habit"], row["cure"]), ("inert", "cap"))
        check_in("inert: it releases at every boundary; what would cure it: cap", d.ctl("status").stdout)
        check_equal(len(d.log_lines("inert (R27)", "raise cap_fraction")), 1)
        ask(p, 5)
        check_equal(d.status()["sessions"][0]["habit"], None)
    with Daemon() as d, d.worker("requests", features=1) as p:
        for _ in range(8):
            p.ok("busy", phase=1)
            ask(p, 101)
            ask(p, 5)
            p.ok("busy", phase=2)
        row = d.status()["sessions"][0]
        check_equal((row["habit"], row["cure"]), ("flapping", "cap"))


# ---- R11a, R11c ----

@test
def policies_are_chosen_in_the_hello():
    with Daemon() as d:
        for policy, wanted in (("fixed", ("retain", "within_budget")),
                               ("always", ("release", "policy_always")),
                               ("learned", ("release", "cached_over_budget"))):
            with d.worker(policy=wire.POLICY[policy]) as p:
                check_equal(ask(p, 30)[:2], wanted, policy)
        with d.worker(min_free=0.5) as p:
            check_equal(ask(p, 0, free=199)[1], "low_free_memory")


@test
def never_must_be_allowed():
    with Daemon() as d, d.peer() as p:
        check_equal(p.error("hello", min_version=1, max_version=1, policy=wire.POLICY["never"]),
                    "policy_not_allowed")
        check(p.is_closed())
        check_equal(d.status()["sessions"], [])
        [line] = d.log_lines("level=warning", "policy_not_allowed")
        check_in("pid=", line)
    with Daemon(allow_never="true") as d, d.worker(policy=wire.POLICY["never"]) as p:
        decision, reason, a = ask(p, 390)
        check_equal((decision, reason, a["budget"]), ("retain", "policy_never", 2**64 - 1))


@test
def demand_is_not_built_yet():
    with Daemon() as d, d.peer() as p:
        check_equal(p.error("hello", min_version=1, max_version=1, policy=wire.POLICY["demand"]),
                    "unsupported")


@test
def a_peak_is_clamped_to_the_device():
    with folder() as at:
        sim = SimGpu(at, "16Gi")
        with Daemon(sim, at=at) as d:
            d.wait_log("device GPU-")
            with d.worker() as p:
                check_equal(p.ok("set_peak", peak=2**63)["peak"], 16 << 30)
                check_equal(p.ok("set_peak", peak=5 * GB)["peak"], 5 * GB)
                p.ok("resume", state={"peak": 2**63})
                check_equal(d.status()["sessions"][0]["peak"], 16 << 30)
            with d.worker("resumed", state={"peak": 2**64 - 1, "n": 4}) as p:
                [row] = [r for r in d.status()["sessions"] if r["name"] == "resumed"]
                check_equal((row["peak"], row["decisions"]), (16 << 30, 4))
    with Daemon() as d, d.worker() as p:
        check_equal(p.ok("set_peak", peak=2**63)["peak"], 2**63)


# ---- R12, R13 ----

@test
def releases_are_counted_in_and_outside_of_warm_up():
    with Daemon() as d, d.worker() as p:
        p.ok("warmup", phase=wire.PHASE["begin"])
        check(ask(p, 30, component="dit")[2]["warmup"])
        ask(p, 30)
        check_equal(p.error("warmup", phase=wire.PHASE["begin"]), "bad_state")
        p.ok("warmup", phase=wire.PHASE["end"])
        check_equal(p.error("warmup", phase=wire.PHASE["end"]), "bad_state")
        ask(p, 30)
        check_equal(d.log_lines("R13"), [])
        ask(p, 60, component="vae")
        ask(p, 60)
        ask(p, 99, free=5)  # over the budget too: one more peak
        [row] = d.status()["sessions"]
        check_equal((row["cold_start_releases"], row["serving_releases"], row["uncovered"],
                     row["retained"]), (1, 2, 2, 3))
        first, second = d.log_lines("level=notice", "R13")
        check_in("did not cover this request: peak 30 B -> 60 B", first)
        check_in("component vae", first)
        check_in("peak 60 B -> 99 B", second)


@test
def an_r3_reset_forgets_that_a_window_ended():
    with Daemon() as d, d.worker() as p:
        p.ok("attach", id="a", bytes=1)
        p.ok("warmup", phase=1)
        p.ok("warmup", phase=2)
        p.ok("detach", id="a")
        ask(p, 30)
        check_equal(d.status()["sessions"][0]["uncovered"], 0)


@test
def brackets_do_not_nest():
    with Daemon() as d, d.worker(features=1) as p:
        p.ok("busy", phase=1)
        check_equal(p.error("busy", phase=1), "bad_state")
        check_equal(d.status()["sessions"][0]["busy"], True)
        p.ok("busy", phase=2)
        check_equal(p.error("busy", phase=2), "bad_state")


# ---- R9, R11b ----

@test
def the_own_pair_decides_and_the_sample_only_without_one():
    with folder() as at:
        sim = SimGpu(at, "16Gi")
        with Daemon(sim, at=at) as d, sim.hold("4Gi"), d.worker() as p:
            decision, reason, a = p.ask(0, 0, 80, 400)
            check_equal((a["free"], a["total"], a.get("age_ns", 0)), (80, 400, 0))
            _, _, a = p.ask(0, 0)
            check_equal(a["total"], 16 << 30)
            check(0 < a["free"] <= 12 << 30, a)
            check(a["age_ns"] <= 50_000_000 or not a, a)
            check_equal(p.ask(0, 0, free=1)[2]["total"], 16 << 30)  # half a pair is none


@test
def all_who_wait_share_one_sample():
    with folder() as at:
        sim = SimGpu(at, "16Gi")
        with Daemon(sim, at=at, sample_interval="60s", sample_timeout="240ms",
                    sample_max_age="200ms") as d:
            peers = [d.worker(f"w{i}") for i in range(8)]
            wait_for(lambda: d.status()["device"]["free"], what="a first sample")
            wait_for(lambda: d.status()["device"]["sample_age_seconds"] > 0.25, what="it is old")
            sim.fault("nvmlDeviceGetMemoryInfo_v2", "slow=40")
            before = sim.calls("nvmlDeviceGetMemoryInfo_v2")
            for p in peers:
                p.send("ask", reserved=0, allocated=0)
            for p in peers:
                check_equal(p.recv()[2]["reason"], wire.REASON["within_budget"])
            calls = sim.calls("nvmlDeviceGetMemoryInfo_v2") - before
            check(1 <= calls <= 2, f"{calls} samples for 8 asks")
            check_equal(peers[0].ask(0, 0)[1], "within_budget")  # fresh: no further one
            check(sim.calls("nvmlDeviceGetMemoryInfo_v2") - before == calls)
            for p in peers:
                p.close()


@test
def without_a_probe_an_ask_without_a_pair_has_no_telemetry():
    with Daemon() as d, d.worker() as p:
        check_equal(p.ask(40, 10)[:2], ("release", "telemetry_unavailable"))
        check_equal(d.status()["device"]["free"], None)


# ---- R30 ----

@test
def shadow_computes_counts_and_keeps():
    with Daemon(mode="shadow") as d, d.worker() as p:
        decision, reason, a = ask(p, 30)
        check_equal((decision, reason, a["would"], a["peak"]),
                    ("keep", "cached_over_budget", wire.DECISION["release"], 30))
        check_equal(ask(p, 30)[2]["would"], wire.DECISION["retain"])
        [row] = d.status()["sessions"]
        check_equal((row["serving_releases"], row["retained"]), (1, 1))
        check_equal(row["last"]["would"], "retain")
    with Daemon() as d, d.worker(mode=wire.MODE["shadow"]) as p:
        check_equal(ask(p, 30)[0], "keep")
        with d.worker() as q:
            check_equal(ask(q, 30)[0], "release")


@test
def off_registers_nobody_and_starts_no_probe():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, at=at, mode="off") as d, d.peer() as p:
            check_equal(p.hello()["mode"], wire.MODE["off"])
            check_equal(d.status()["sessions"], [])
            wait_for(lambda: sim.openers() == [], what="nobody has the device open")


@test
def a_session_comes_back_with_its_state():
    with Daemon() as d:
        with d.worker() as p:
            ask(p, 30)
        state = {"peak": 30, "n": 1, "counts": {"serving_releases": 1}, "warmup_ended": True}
        p = worker(d.socket, "again", state=state)
        _, reason, a = ask(p, 30)
        check_equal((reason, a["n"], a["budget"]), ("within_budget", 2, 37))
        [row] = d.status()["sessions"]
        check_equal((row["serving_releases"], row["retained"], row["warmup_ended"]), (1, 1, True))
        check_equal(len(d.log_lines("resumed", "name=again")), 1)
        p.close()


main()

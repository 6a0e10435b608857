#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever a daemon wrote down plays back without a difference, also what is odd about its settings,
its quotas, its limits, or the daemons before it and beside it."""
import os
import resource

from lib import wire
from lib.harness import Daemon, SimGpu, check_replays, folder, slow, wait_for
from lib.runner import check, check_equal, check_in, main, test


def recorded(d, path):
    """Writes what the ring holds to a file that replay reads."""
    with open(path, "w", encoding="utf-8") as f:
        f.write(d.ctl("events").stdout)
    return path


@test
def a_refused_stager_plays_back_as_refused():
    for quota in ("max_stagers_session", "max_stagers_uid", "max_stagers"):
        with folder() as at, Daemon(**{quota: 2}) as d, d.worker() as p:
            for i in range(5):
                p.call("attach", id=f"s{i}", bytes=10)
            p.ask(40, 10, 80, 400)
            check_replays(recorded(d, os.path.join(at, "j")))
    with folder() as at, Daemon(max_stagers_session=10000) as d, d.worker() as p:
        for i in range(4200):
            p.ok("attach", id=f"s{i}", bytes=10)
        p.ask(40, 10, 80, 400)
        p.ok("resume", state={})
        p.ask(40, 10, 80, 400)
        check_replays(recorded(d, os.path.join(at, "j")))


@test
def a_negative_zero_plays_back():
    with folder() as at, Daemon(min_free="-0.0") as d, d.worker(min_free=-0.0) as p:
        p.ask(40, 10, 0, 400)
        check_replays(recorded(d, os.path.join(at, "j")))


@test
def a_permission_that_a_reload_took_back_plays_back():
    with folder() as at, Daemon(config="allow_never = true\n") as d, \
            d.worker(policy=wire.POLICY["never"]) as p:
        p.ask(40, 10, 80, 400)
        d.write_config("allow_never = false\n")
        d.reload()
        p.ok("resume", state={"peak": 5, "n": 9})
        check_equal(p.ask(40, 10, 80, 400)[1], "policy_never")
        text = d.ctl("events").stdout
        check_in("accepted=1", text)
        check_replays(recorded(d, os.path.join(at, "j")))


@test
def a_piece_that_lacks_a_part_of_the_state_plays_back():
    with folder() as at, Daemon(journal_ring="64K", max_stagers_session=2000) as d, d.worker("many") as p:
        for i in range(2000):
            p.ok("attach", id=f"{i:050}", bytes=10)
        for _ in range(400):
            p.ask(40, 10, 80, 400)
        p.ok("detach", id=f"{1999:050}")
        p.ok("attach", id="more", bytes=7)
        p.ask(50, 10, 80, 400)
        check_in("cut=", d.ctl("events").stdout)
        check_replays(recorded(d, os.path.join(at, "j")))
        for i in range(1999):
            p.ok("detach", id=f"{i:050}")
        p.ok("detach", id="more")
        check_equal(p.ask(40, 10, 80, 400)[2]["peak"], 30)
        check_replays(recorded(d, os.path.join(at, "j")))
    with folder() as at, Daemon(journal_ring="16K") as d:
        peers = [d.worker(f"w{i}") for i in range(250)]
        for _ in range(5):
            for p in peers:
                p.ask(40, 10, 80, 400)
        check_replays(recorded(d, os.path.join(at, "j")))
        for p in peers:
            p.close()


@test
def a_small_file_keeps_as_much_history_as_state():
    with folder() as at:
        path = os.path.join(at, "j")
        with Daemon(journal_file=path, journal_file_max=0) as d, d.worker() as p:
            for i in range(300):
                p.ok("attach", id=f"s{i}", bytes=10)
            for _ in range(400):
                p.ask(40, 10, 80, 400)
        asks = 0
        for name in (path, path + ".1"):
            with open(name, encoding="utf-8") as f:
                asks += sum(line.startswith("ask ") for line in f)
            check_replays(name)
        check(asks >= 20, "asks in both files:", asks)


@test
def a_limit_of_file_sizes_costs_lines_and_not_the_daemon():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))

    with folder() as at:
        d = Daemon(at=at, journal_file=os.path.join(at, "j"), log_level="debug")
        d.spawn(preexec_fn=limit)
        d.wait_ready()
        with d.worker() as p:
            for _ in range(300):
                p.ask(40, 10, 80, 400)
            check_equal(d.status()["sessions"][0]["decisions"], 300)
        check_equal(d.stop(), 0)


@test
def a_second_run_starts_without_the_samples_of_the_first():
    with folder() as at:
        sim = SimGpu(at)
        path = os.path.join(at, "j")
        with Daemon(sim, at=at, journal_file=path) as d, d.worker() as p:
            wait_for(lambda: d.status()["device"]["free"] is not None, what="a sample")
            p.ask(40, 10)
        with Daemon(at=at, journal_file=path) as d, d.worker() as p:
            check_equal(p.ask(40, 10)[1], "telemetry_unavailable")
            p.ok("set_peak", peak=2**60)
            p.ask(40, 10, 80, 400)
        check_replays(path)


@test
def a_total_that_differs_from_that_of_the_identity_plays_back():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim) as d, d.worker() as p:
            first = wait_for(lambda: d.status()["device"]["total"], what="a sample")
            sim.set(f"total={first // 2}")
            wait_for(lambda: d.status()["device"]["total"] == first // 2, what="a smaller total")
            p.ok("set_peak", peak=2**60)
            p.ask(40, 10, 80, 400)
            check_replays(recorded(d, os.path.join(at, "j")))


@test
def a_shorter_sample_interval_counts_from_the_reload_on():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, config="gpu = 0\nsample_interval = 1h\n") as d, d.worker():
            first = wait_for(lambda: d.status()["device"]["free"], what="the first sample")
            sim.set("foreign=512Mi")
            d.write_config("gpu = 0\nsample_interval = 250ms\n")
            d.reload()
            wait_for(lambda: d.status()["device"]["free"] < first, what="another sample")


@test
def a_half_line_at_the_end_of_a_file_is_cut_off():
    with folder() as at:
        path = os.path.join(at, "j")
        for cut in (1, 7, 20):
            with Daemon(journal_file=path) as d, d.worker() as p:
                p.ask(40, 10, 80, 400)
            os.truncate(path, os.path.getsize(path) - cut)
        with Daemon(journal_file=path) as d, d.worker() as p:
            p.ask(40, 10, 80, 400)
        check_replays(path)


@test
def a_file_that_is_no_journal_is_left_alone():
    with folder() as at:
        path = os.path.join(at, "precious")
        for content in ("precious\n", "# dlo-trac", "#\n" * 4000):
            with open(path, "w", encoding="utf-8") as f:
                f.write(content)
            with Daemon(journal_file=path) as d, d.worker() as p:
                p.ask(40, 10, 80, 400)
                check_in("is no journal", d.log())
            with open(path, encoding="utf-8") as f:
                check_equal(f.read(), content)
            check_equal(os.listdir(at), ["precious"])


@test
def decisions_that_shared_a_sample_play_back():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, journal_ring="32K", sample_max_age="10ms") as d:
            peers = [d.worker(f"w{i}") for i in range(60)]
            for n in range(20):
                if n == 10:
                    sim.fault("nvmlDeviceGetMemoryInfo_v2", "hang")  # from here on none comes
                for p in peers:
                    p.send("ask", reserved=40 + n, allocated=10)
                for p in peers:
                    p.recv(timeout=slow(10))
                check_replays(recorded(d, os.path.join(at, "j")))
                if n == 11:
                    break
            for p in peers:
                p.close()


@test
def two_daemons_do_not_write_one_file():
    with folder() as at:
        path = os.path.join(at, "j")
        with Daemon(journal_file=path) as first, first.worker() as p:
            with Daemon(journal_file=path) as second, second.worker() as q:
                check_in("another daemon writes it", second.log())
                for peer in (p, q, p, q):
                    peer.ask(40, 10, 80, 400)
        check_replays(path)


if __name__ == "__main__":
    main()

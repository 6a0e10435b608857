#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Start, stop and reload: sockets stale and live, folders that cannot be trusted, a socket from the
service manager, signals, settings (R11, threats T5 to T7)."""
import os
import shutil
import socket
import stat
import subprocess
import sys

from lib.harness import DLOD, IS_ROOT, IS_VALGRIND, Closed, Daemon, Peer, SimGpu, folder, run_dlod, wait_for
from lib.runner import check, check_equal, check_in, main, skip_unless, test


# ---- the socket ----

@test
def a_stale_socket_is_replaced():
    with folder() as at:
        with Daemon(at=at) as d:
            d.kill()
            check(os.path.exists(d.socket), "the socket of a killed daemon stays")
        with Daemon(at=at) as d, d.worker() as p:
            check(p.session > 0)
        check(not os.path.exists(d.socket), "a stopped daemon takes its socket away")


@test
def a_link_at_the_path_is_replaced_and_not_followed():
    with folder() as at:
        path, target = os.path.join(at, "dlod.sock"), os.path.join(at, "target")
        os.symlink(target, path)
        with Daemon(at=at) as d, d.worker():
            check(stat.S_ISSOCK(os.lstat(path).st_mode), "no socket")
            check(not os.path.lexists(target), "the link was followed")


@test
def a_socket_path_that_is_no_socket_is_refused():
    with folder() as at:
        path = os.path.join(at, "precious")
        with open(path, "w", encoding="utf-8") as f:
            f.write("precious")
        done = run_dlod("--telemetry", "worker", "--socket", path)
        check_equal(done.returncode, 1, done.stderr)
        check_in("is there and is not a socket", done.stderr)
        with open(path, encoding="utf-8") as f:
            check_equal(f.read(), "precious")
        check("precious.new" not in os.listdir(at))


@test
def a_live_socket_is_refused_and_its_owner_named():
    with Daemon() as d:
        done = run_dlod("--telemetry", "worker", "--socket", d.socket)
        check_equal(done.returncode, 1, "exit status")
        check_in(f"pid {d.pid}", done.stderr)
        check_in("stop it first", done.stderr)
        with d.worker() as p:
            check(p.session > 0)


@test
def a_folder_that_others_may_write_to_is_refused():
    for mode in (0o777, 0o775, 0o757):
        with folder(mode) as at:
            done = run_dlod("--telemetry", "worker", "--socket", os.path.join(at, "s.sock"))
            check_equal(done.returncode, 1, "exit status")
            check_in(at, done.stderr)
            check_in("not be writable by group or others", done.stderr)
            check_equal([x for x in os.listdir(at) if x.endswith(".sock")], [])


@test
def a_folder_of_somebody_else_is_refused():
    skip_unless(os.geteuid() == 0, "needs root, to give a folder away")
    with folder() as at:
        os.chown(at, 1234, 1234)
        done = run_dlod("--telemetry", "worker", "--socket", os.path.join(at, "s.sock"))
        check_equal(done.returncode, 1, "exit status")
        check_in("uid 1234", done.stderr)


@test
def the_socket_has_the_mode_that_is_set():
    for mode in ("0600", "0666"):
        with Daemon(socket_mode=mode) as d:
            check_equal(oct(os.stat(d.socket).st_mode & 0o777), oct(int(mode, 8)), "mode")


@test
def an_unknown_group_and_a_long_path_are_named():
    with folder() as at:
        path = os.path.join(at, "s.sock")
        done = run_dlod("--telemetry", "worker", "--socket", path, "--socket-group", "nobody-here")
        check_equal(done.returncode, 1, "exit status")
        check_in("nobody-here", done.stderr)
        done = run_dlod("--telemetry", "worker", "--socket", os.path.join(at, "x" * 200))
        check(done.returncode in (1, 2), "exit status", done.returncode)
        check_in("socket", done.stderr)


# ---- a socket from the service manager ----

ACTIVATE = """
import os, socket, sys
kind = getattr(socket, sys.argv[1])
s = socket.socket(socket.AF_UNIX, kind)
s.bind(sys.argv[2])
if sys.argv[3] == "listen":
    s.listen(16)
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[4], sys.argv[4:])
"""


def spawn_activated(d, kind="SOCK_SEQPACKET", listen="listen"):
    """Starts dlod as a service manager would: the socket is descriptor 3."""
    with open(d.log_path, "ab") as log:
        d.process = subprocess.Popen(
            [sys.executable, "-c", ACTIVATE, kind, d.socket, listen, DLOD, *d.args[2:]],
            env=d.env, stderr=log, stdin=subprocess.DEVNULL, close_fds=True)
    return d


@test
def a_socket_of_the_service_manager_is_served_and_stays():
    with folder() as at:
        d = Daemon(at=at)
        spawn_activated(d)
        d.wait_ready()
        with d.worker() as p:
            check_equal(p.ask(40, 10, 80, 400)[0], "release")
        d.wait_log("from the service manager")
        check_equal(d.stop(), 0, "exit status")
        check(os.path.exists(d.socket), "the manager's socket was removed")
        check_equal([x for x in os.listdir(at) if x.endswith(".lock")], [])


@test
def a_descriptor_that_is_no_such_socket_is_refused():
    for kind, listen in (("SOCK_STREAM", "listen"), ("SOCK_DGRAM", ""), ("SOCK_SEQPACKET", "")):
        with folder() as at:
            d = Daemon(at=at)
            spawn_activated(d, kind, listen)
            check_equal(d.wait(), 1, "exit status")
            check_in("is not a listening SEQPACKET", d.log())


# ---- signals ----

@test
def sigterm_says_goodbye_and_leaves_nothing():
    with folder() as at:
        with Daemon(at=at) as d:
            workers = [d.worker(f"w{i}") for i in range(3)] + [d.observer(), d.peer()]
            check_equal(d.stop(2), 0, "exit status")
            for p in workers:
                check_equal(p.recv_error()[:2], (0, "shutdown"))
                check(p.is_closed())
        left = [x for x in os.listdir(at) if not x.startswith("log")]
        check_equal(left, ["dlod.sock.lock"])


@test
def sigint_stops_too():
    with Daemon() as d:
        d.signal(2)
        check_equal(d.wait(2), 0, "exit status")


@test
def a_daemon_that_cannot_start_says_why():
    for options, words in (([], "gpu"), (["--telemetry", "worker", "--no-such-key", "1"], "no-such"),
                           (["--set", "marginn=2"], "marginn"), (["--margin", "0.5"], "margin"),
                           (["--cap-fraction", "1.5"], "cap_fraction"), (["--min-free", "nan"], "nan"),
                           (["--journal-ring", "99999999999999999999"], "journal_ring"),
                           (["--max-sessions", "-1"], "max_sessions"),
                           (["--gpu", "minor:-1"], "gpu"), (["--gpu", "minor:../../x"], "gpu"),
                           (["--gpu", "GPU-x"], "gpu"), (["--gpu", "MIG-../../a"], "gpu"),
                           (["--gpu", "99999999999"], "gpu"),
                           (["--telemetry", "worker", "--sample-max-age", "0"], "sample_max_age")):
        done = run_dlod(*options)
        check_equal(done.returncode, 2, ("exit status", options))
        check_in(words.replace("-", "_"), done.stderr.replace("-", "_"))


@test
def a_driver_that_comes_late_is_found():
    skip_unless(IS_ROOT, "needs root, to be another user with a runtime folder of its own")
    with folder(0o777, base="/tmp") as at:
        sim = SimGpu(at)
        os.rename(sim.path, sim.path + ".later")
        os.chmod(sim.path + ".later", 0o666)
        run_at = os.path.join(at, "run")
        os.mkdir(run_at)
        os.chown(run_at, 1000, 1000)
        d = Daemon(sim, at=at, socket=None, env={"XDG_RUNTIME_DIR": run_at, "TMPDIR": run_at})
        d.spawn(user=1000, group=1000, extra_groups=[])
        try:
            wait_for(lambda: d.log_lines("no_driver") or d.log_lines("no_device"), 20, "a failure")
            os.rename(sim.path + ".later", sim.path)
            wait_for(lambda: d.log_lines("serving on", "gpu3.sock"), 20, "a socket")
        finally:
            check_equal(d.stop(), 0)


@test
def a_program_that_was_removed_still_has_its_probe():
    skip_unless(not IS_VALGRIND, "valgrind runs the program by its path")
    with folder() as at:
        program = shutil.copy(DLOD, os.path.join(at, "dlod"))
        d = Daemon(SimGpu(at), at=at)
        d.process = subprocess.Popen([program, *d.args], env=d.env, stderr=subprocess.DEVNULL)
        d.wait_ready()
        wait_for(lambda: d.status()["device"]["uuid"], what="the device")
        os.unlink(program)
        with d.worker():
            wait_for(lambda: d.status()["device"]["free"], what="a sample")
        check_equal(d.stop(), 0)


@test
def a_start_without_standard_files_is_none_the_worse():
    skip_unless(not IS_VALGRIND, "valgrind itself needs them")
    def close_all():
        for fd in (0, 1, 2):
            os.close(fd)

    for closing in (close_all, lambda: os.close(2)):
        with folder() as at:
            d = Daemon(at=at, log_level="debug")
            d.process = subprocess.Popen([DLOD, *d.args], preexec_fn=closing)
            d.wait_ready()
            with d.worker() as p:
                p.ask(40, 10, 80, 400)
            check_equal(d.stop(), 0)
            check(not os.path.exists(d.socket))


# ---- reload (R11) ----

BASE = "[dlod]\ntelemetry = worker\n"


def ask_min_free(d):
    """The floor of a total of 1000 shows min_free."""
    with d.worker() as p:
        return p.ask(0, 0, 900, 1000)[2]["floor"]


@test
def a_good_reload_counts_at_once():
    with Daemon(config=BASE + "min_free = 0.1\n") as d:
        check_equal(ask_min_free(d), 100)
        with d.worker("before") as p:
            d.write_config(BASE + "min_free = 0.2\nmode = shadow\n")
            d.reload()
            decision, _, answer = p.ask(0, 0, 900, 1000)
            check_equal((decision, answer["floor"]), ("keep", 200))


@test
def a_bad_reload_changes_nothing_and_names_file_and_line():
    for bad in ("margin = 0.5\n", "min_free = 2\n", "no_such_key = 1\n", "journal_ring = -4\n",
                "cap_fraction = nan\n", "max_stagers = 99999999999999999999\n", "[other\n"):
        with Daemon(config=BASE + "min_free = 0.1\n") as d, d.worker("stays") as p:
            d.write_config(BASE + "min_free = 0.2\n" + bad)
            d.reload()
            [line] = d.log_lines("keeping the former settings")
            check_in("dlod.conf", line)
            if "=" in bad:
                check_in(bad.split(" ")[0], line)
            check_equal(p.ask(0, 0, 900, 1000)[2]["floor"], 100)


@test
def a_key_that_needs_a_restart_is_named():
    with Daemon(config=BASE) as d:
        d.write_config(BASE + "journal_ring = 2M\nmin_free = 0.3\n")
        d.reload()
        [line] = d.log_lines("from the next start on")
        check_in("journal_ring", line)
        check_equal(ask_min_free(d), 300)


@test
def mode_off_by_reload_ends_workers_and_registers_none():
    with Daemon(config=BASE) as d:
        with d.worker("before") as p, d.observer() as o:
            d.write_config(BASE + "mode = off\n")
            d.reload()
            check_equal(p.recv_error()[:2], (0, "shutdown"))
            check(o.is_open())
        with d.peer() as p:
            check_equal(p.hello()["mode"], 1)
            check_equal(p.error("attach", id="a", bytes=1), "permission")
        d.write_config(BASE + "mode = on\n")
        d.reload()
        with d.worker("after") as p:
            check_equal(p.ask(40, 10, 80, 400)[0], "release")


# ---- names of devices, two daemons ----

@test
def every_name_of_a_device_finds_the_same_one():
    with folder() as at:
        gpu = SimGpu(at, "16Gi", 2)
        device = gpu.show()["devices"][1]
        names = ("1", f"minor:{device['minor']}", device["uuid"], device["pci"],
                 "0000" + device["pci"], device["pci"].split(":", 1)[1], device["pci"].lower())
        for name in names:
            with Daemon(gpu, gpu=name, at=at) as d:
                d.wait_log(device["uuid"])
                check_equal(d.status()["device"]["pci"].lower()[-10:],
                            device["pci"].lower()[-10:], name)
                check(os.path.exists(os.path.join(at, "by-uuid", device["uuid"] + ".sock")), name)


@test
def a_second_daemon_of_the_same_device_is_refused():
    with folder() as at:
        gpu = SimGpu(at, "16Gi", 2)
        uuid = gpu.show()["devices"][0]["uuid"]
        with Daemon(gpu, at=at) as d:
            d.wait_log(uuid)
            second = Daemon(gpu, at=at, gpu=uuid, socket=os.path.join(at, "second.sock"))
            second.spawn()
            check_equal(second.wait(), 1, "exit status")
            check_in(f"pid {d.pid}", second.log())
            check(not os.path.exists(second.socket), "its socket is gone")
            with Daemon(gpu, at=at, gpu="1", socket=os.path.join(at, "other.sock")) as other:
                other.wait_log("device GPU-")
                with d.worker(), other.worker():
                    pass


@test
def the_link_by_uuid_leads_to_the_daemon():
    with folder() as at:
        gpu = SimGpu(at)
        with Daemon(gpu, at=at) as d:
            link = os.path.join(at, "by-uuid", gpu.show()["devices"][0]["uuid"] + ".sock")
            wait_for(lambda: os.path.exists(link), what="link")
            with Peer(link) as p:
                p.hello()
            check_equal(d.stop(), 0)
        check(not os.path.lexists(link), "the link is gone")


# ---- a daemon that is stopped, from outside (T9) ----

@test
def a_stopped_daemon_takes_connections_into_its_backlog():
    with Daemon() as d:
        with d.frozen():
            waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(64)]
            for s in waiting:
                s.setblocking(False)
                check_equal(s.connect_ex(d.socket), 0, "connect")
        with d.worker() as p:
            check(p.session > 0)
        for s in waiting:
            s.close()
        wait_for(lambda: d.status()["daemon"]["sessions"] == 0, what="nobody left")


@test
def a_peer_that_is_gone_before_it_is_accepted_costs_nothing():
    with Daemon() as d:
        baseline = d.settle()
        with d.frozen():
            for _ in range(10):
                pid = os.fork()
                if pid == 0:
                    Peer(d.socket)
                    os._exit(0)
                os.waitpid(pid, 0)
        wait_for(lambda: len(d.log_lines("process is gone")) == 10, what="all are accepted")
        check_equal(d.settle(), baseline, "descriptors")
        check_equal(d.log_lines("no pidfd"), [])
        try:
            with d.worker() as p:
                check(p.session > 0)
        except Closed:
            check(False, "not served")


main()

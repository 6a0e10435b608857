# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of a build as tests need them (dlod, dlo-ctl, the simulated GPU), and speaks
to a daemon as a raw peer. Nothing here waits by sleeping for a fixed time: wait_for() polls a
condition with a deadline, and times are scaled by DLO_SLOW."""
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from lib import wire
from lib.runner import Skip

ROOT = wire.ROOT
BUILD = os.path.abspath(os.environ.get("DLO_BUILD", os.path.join(ROOT, "build")))
SIMGPU_DIR = os.environ.get("DLO_SIMGPU", os.path.join(BUILD, "simgpu"))
SLOW = float(os.environ.get("DLO_SLOW", "1"))
IS_VALGRIND = "DLO_VALGRIND" in os.environ
DLOD, CTL = os.path.join(BUILD, "dlod"), os.path.join(BUILD, "dlo-ctl")
IS_ROOT = os.geteuid() == 0
GB = 10**9
MS = 0.001


def is_plain_build():
    """Neither sanitizers nor valgrind: figures of memory mean something."""
    with contextlib.suppress(OSError), open(os.path.join(BUILD, "flags"), encoding="utf-8") as f:
        return "-fsanitize" not in f.read() and not IS_VALGRIND
    return not IS_VALGRIND


def slow(seconds):
    return seconds * SLOW


def wait_for(condition, seconds=5.0, what="condition"):
    """Polls until the condition returns something true, and returns that. Fails at the deadline."""
    deadline = time.monotonic() + slow(seconds)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {slow(seconds):g} s: {what}")
        time.sleep(0.002)


@contextlib.contextmanager
def folder(mode=0o700, base=None):
    """A private folder; short, since a socket's path has little room. base: where other users can
    reach it, unlike the folder of this run."""
    path = tempfile.mkdtemp(prefix="t", dir=base)
    os.chmod(path, mode)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def as_uid(uid):
    """Acts as another user: what the kernel tells of a socket's peer is the effective uid."""
    if not IS_ROOT:
        raise Skip("needs root, to connect as another user")
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


# ---- the simulated GPU ----

class SimGpu:
    """A ledger with devices; env is what a program needs to live on it."""

    def __init__(self, path, total="16Gi", devices=1, *options):
        self.path = os.path.join(path, "ledger")
        libraries = [SIMGPU_DIR] + [p for p in [os.environ.get("LD_LIBRARY_PATH")] if p]
        self.env = {"SIMGPU": self.path, "LD_LIBRARY_PATH": ":".join(libraries)}
        self.run("create", "--devices", str(devices), "--total", str(total), *options)

    def run(self, *words):
        done = subprocess.run([os.path.join(SIMGPU_DIR, "simgpu"), *words], text=True,
                              env=dict(os.environ, **self.env), capture_output=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"simgpu {' '.join(words)}: {done.stderr}")
        return done.stdout

    def show(self):
        return json.loads(self.run("show", "--json"))

    def fault(self, call, action):
        self.run("fault", call, action)

    def set(self, *pairs):
        self.run("set", *pairs)

    def calls(self, name):
        """How often a fault on that call was hit."""
        return sum(f["calls"] for f in self.show()["faults"] if f["call"] == name)

    def openers(self):
        return [p["pid"] for p in self.show()["processes"]]

    @contextlib.contextmanager
    def hold(self, size):
        holder = subprocess.Popen([os.path.join(SIMGPU_DIR, "simgpu"), "hold", str(size)],
                                  env=dict(os.environ, **self.env), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        try:
            holder.stdout.readline()  # "holding N"
            yield holder
        finally:
            holder.communicate()


# ---- peers ----

class Closed(Exception):
    """The daemon closed the connection."""


class Peer:
    """A raw connection. Fields of requests and replies are those of proto/dlo.proto."""

    def __init__(self, path, timeout=5.0):
        self.timeout = slow(timeout)
        self.seq = 0
        self.session = 0
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(self.timeout)
        self.sock.connect(path)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self.sock.close()

    def fileno(self):
        return self.sock.fileno()

    def send_raw(self, data):
        try:
            self.sock.send(data)
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Closed from e

    def send(self, op, **fields):
        self.seq += 1
        self.send_raw(wire.request(self.seq, op, **fields))
        return self.seq

    def recv_raw(self, timeout=None):
        """One packet. The first read after a close may be ECONNRESET: then once more."""
        self.sock.settimeout(self.timeout if timeout is None else timeout)
        for attempt in range(2):
            try:
                data = self.sock.recv(wire.MESSAGE_MAX + 1)
            except ConnectionResetError:
                if attempt == 0:
                    continue
                raise Closed from None
            if not data:
                raise Closed
            return data
        raise Closed

    def recv(self, timeout=None):
        """(seq, body, fields)"""
        return wire.decode_reply(self.recv_raw(timeout))

    def call(self, op, **fields):
        """(body, fields) of the reply to this request."""
        seq = self.send(op, **fields)
        got, body, reply = self.recv()
        while got == 0 and body == "welcome":  # a reload: other settings
            got, body, reply = self.recv()
        if got not in (seq, 0):
            raise AssertionError(f"reply to {got}, expected one to {seq}: {body} {reply}")
        return body, reply

    def ok(self, op, **fields):
        body, reply = self.call(op, **fields)
        if body == "error":
            raise AssertionError(f"{op}: {error_text(reply)}")
        return reply

    def error(self, op, **fields):
        """The word of the error that it must be answered with."""
        body, reply = self.call(op, **fields)
        if body != "error":
            raise AssertionError(f"{op}: expected an error, got {body} {reply}")
        return wire.word(wire.ERROR, reply["code"])

    def recv_error(self, timeout=None):
        seq, body, reply = self.recv(timeout)
        if body != "error":
            raise AssertionError(f"expected an error, got {body} {reply}")
        return seq, wire.word(wire.ERROR, reply["code"]), reply["text"].decode()

    def hello(self, name="peer", **fields):
        fields = {"min_version": 1, "max_version": 1, "name": name, **fields}
        welcome = self.ok("hello", **fields)
        self.session = welcome.get("session", 0)
        return welcome

    def observe(self):
        return self.ok("hello", min_version=1, max_version=1, observer=True)

    def ask(self, reserved, allocated, free=None, total=None, **fields):
        """(decision word, reason word, answer)"""
        pair = {k: v for k, v in (("free", free), ("total", total)) if v is not None}
        answer = self.ok("ask", reserved=reserved, allocated=allocated, **pair, **fields)
        return (wire.word(wire.DECISION, answer["decision"]),
                wire.word(wire.REASON, answer["reason"]), answer)

    def is_closed(self, seconds=5.0):
        """Reads away what is left; true when the daemon closes within that time."""
        deadline = time.monotonic() + slow(seconds)
        try:
            while (left := deadline - time.monotonic()) > 0:
                self.recv_raw(left)
        except Closed:
            return True
        except TimeoutError:
            pass
        return False

    def is_open(self):
        """Nothing to read and not closed, at this moment."""
        poll = select.poll()  # select() ends at descriptor 1023
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)

    def status_pages(self):
        """All rows and the first page, pulled."""
        cursor, rows, first, more = 0, [], None, True
        while more:
            page = self.ok("status", cursor=cursor)
            first = first or page
            rows += page.get("sessions", [])
            more, cursor = page.get("more", False), page.get("cursor", 0)
        return first, rows


def error_text(reply):
    return f"{wire.word(wire.ERROR, reply['code'])}: {reply.get('text', b'').decode()}"


def worker(path, name="worker", **fields):
    p = Peer(path)
    p.hello(name, **fields)
    return p


# ---- the daemon ----

class Daemon:
    """A dlod in a folder of its own. Options are keyword arguments: sample_timeout="20ms". As a
    context manager it must end by SIGTERM with exit status 0, unless the test ended it."""

    def __init__(self, sim=None, at=None, config=None, env=None, **options):
        self.own = None if at else tempfile.mkdtemp(prefix="d")
        self.folder = at or self.own
        self.socket = options.pop("socket", os.path.join(self.folder, "dlod.sock"))
        self.log_path = os.path.join(self.folder, f"log{time.monotonic_ns()}")
        self.config = None
        self.args = ["--socket", self.socket] if self.socket else []
        if config is not None:
            self.config = os.path.join(self.folder, "dlod.conf")
            self.write_config(config)
            self.args += ["--config", self.config]
        if sim is None:
            options.setdefault("telemetry", "worker")
        else:
            options.setdefault("gpu", "0")
        for key, value in options.items():
            self.args += ["--set", f"{key}={value}"]
        self.env = dict(os.environ, **(sim.env if sim else {}), **(env or {}))
        self.process = None

    def write_config(self, text):
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(text)

    def spawn(self, **popen):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([DLOD, *self.args], env=self.env, stderr=log,
                                            stdin=subprocess.DEVNULL, **popen)
        return self

    def start(self):
        self.spawn()
        try:
            self.wait_ready()
        except AssertionError:
            self.kill()
            raise
        return self

    def wait_ready(self):
        deadline = time.monotonic() + slow(10)
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"dlod ended with {self.process.returncode}:\n{self.log()}")
            try:
                with Peer(self.socket) as p:
                    p.observe()
                    return
            except (OSError, Closed):
                time.sleep(0.005)
        raise AssertionError(f"dlod is not ready:\n{self.log()}")

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        try:
            if self.process.poll() is None:
                code = self.stop()
                if kind is None and code != 0:
                    raise AssertionError(f"dlod's exit status is {code}:\n{self.log()[-4000:]}")
            if kind is not None:
                value.add_note("dlod's log:\n" + self.log()[-1500:])
        finally:
            if self.own:
                shutil.rmtree(self.own, ignore_errors=True)

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self, seconds=10):
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds=10):
        try:
            return self.process.wait(slow(seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"dlod did not end within {slow(seconds):g} s:\n"
                                 f"{self.log()[-4000:]}") from None

    def kill(self):
        self.process.kill()
        self.process.wait()

    @contextlib.contextmanager
    def frozen(self):
        self.signal(signal.SIGSTOP)
        wait_for(lambda: stat_field(self.pid, 2) in "Tt", what="dlod is stopped")
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="backslashreplace") as f:
            return f.read()

    def log_lines(self, *words):
        return [line for line in self.log().splitlines() if all(w in line for w in words)]

    def wait_log(self, *words, seconds=5.0):
        return wait_for(lambda: self.log_lines(*words), seconds, f"log line with {words}")

    def reload(self):
        """SIGHUP, and waits for the line that tells what became of it."""
        before = len(self.log_lines("reload"))
        self.signal(signal.SIGHUP)
        wait_for(lambda: [x for x in self.log_lines("reload")[before:]
                          if "reloaded:" in x or "keeping" in x], what="reloaded")

    def rss_kib(self):
        """Private and shared memory of ours, without pages of files that the kernel may drop."""
        with open(f"/proc/{self.pid}/smaps_rollup", encoding="ascii") as f:
            fields = dict(line.split(":") for line in f if line.count(":") == 1)
        return int(fields["Anonymous"].split()[0])

    def fds(self):
        return sorted(os.listdir(f"/proc/{self.pid}/fd"), key=int)

    def settle(self):
        """Waits until no connection is left: each has a pidfd. Returns the descriptors there are."""
        wait_for(lambda: self.peer_count() == 0, what="no connection is left")
        return self.fds()

    def peer_count(self):
        return sum(self._fd_kind(fd) == "anon_inode:[pidfd]" for fd in self.fds())

    def _fd_kind(self, fd):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{self.pid}/fd/{fd}")
        return ""

    def peer(self):
        return Peer(self.socket)

    def worker(self, name="worker", **fields):
        return worker(self.socket, name, **fields)

    def observer(self):
        p = Peer(self.socket)
        p.observe()
        return p

    def ctl(self, verb, *words, **run):
        return ctl(verb, "--socket", self.socket, *words, **run)

    def status(self):
        done = self.ctl("status", "--json")
        if done.returncode != 0:
            raise AssertionError(f"dlo-ctl status: {done.returncode} {done.stderr}")
        return json.loads(done.stdout)

    def events(self):
        """The ring as dlo-ctl prints it."""
        done = self.ctl("events")
        if done.returncode != 0:
            raise AssertionError(f"dlo-ctl events: {done.returncode} {done.stderr}")
        return done.stdout


def stat_field(pid, index):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
        head, tail = f.read().rsplit(")", 1)
    return ([head] + tail.split())[index - 1]


def ctl(*words, timeout=20, **run):
    run.setdefault("capture_output", True)
    return subprocess.run([CTL, *words], text=True, timeout=slow(timeout), check=False,
                          stdin=subprocess.DEVNULL, **run)


def run_dlod(*args, env=None, timeout=20):
    """A dlod that is expected to end by itself."""
    return subprocess.run([DLOD, *args], text=True, capture_output=True, check=False,
                          timeout=slow(timeout), env=dict(os.environ, **(env or {})),
                          stdin=subprocess.DEVNULL)


def replay_check(*paths):
    """Exit status and output of dlo-ctl replay --check."""
    done = ctl("replay", "--check", *paths, timeout=60)
    return done.returncode, done.stdout + done.stderr


def check_replays(*paths):
    code, text = replay_check(*paths)
    if code != 0:
        raise AssertionError(f"replay --check: exit {code}\n{text[-3000:]}")
    return text

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random conversations: well-formed messages with extreme values, in any order, from many sessions.
The daemon answers or closes, ends cleanly, and its journal replays to the last key."""
import os
import random

from lib import wire
from lib.harness import SLOW, Closed, Daemon, Peer, check_replays, folder
from lib.runner import check, check_equal, main, test

REQUESTS = 6000
NUMBERS = (0, 1, 2, 3, 5, 10, 2**31, 2**32 - 1, 2**63, 2**64 - 2, 2**64 - 1, 30 * 10**9, 150 * 10**9)
NAMES = (b"a", b"b", b"c", b"dit", b"x" * 63, b"x" * 64, b"\n", b"")
DOUBLES = (0.0, 0.05, 1.0, float("nan"), float("inf"), -1.0, 2.0)
OPS = {name: kind for name, (_, kind, _) in wire.SCHEMA["Request"].items() if name != "seq"}


class Conversation:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def value(self, kind):
        pick = self.rng.choice
        if kind == "bool":
            return pick((False, True))
        if kind == "bytes":
            return pick(NAMES)
        if kind == "double":
            return pick(DOUBLES)
        if kind == "sint32":
            return pick((0, -100, 100, 101, -1))
        if kind in ("uint64", "uint32"):
            return pick(NUMBERS) % (2**32 if kind == "uint32" else 2**64)
        return self.message(kind)

    def message(self, kind, part=0.7):
        fields = {}
        for name, (_, member, repeated) in wire.SCHEMA[kind].items():
            if self.rng.random() < part:
                fields[name] = ([self.value(member) for _ in range(self.rng.randrange(4))]
                                if repeated else self.value(member))
        return fields

    def hello(self):
        fields = {"min_version": 1, "max_version": 1, "name": b"random"}
        for name, values in (("features", (1,)), ("mode", (1, 2, 3)), ("policy", (1, 2, 3, 4, 5)),
                             ("observer", (False, False, False, True))):
            if self.rng.random() < 0.5:
                fields[name] = self.rng.choice(values)
        if self.rng.random() < 0.5:
            fields["state"] = self.message("State")
        return fields

    def request(self):
        """Mostly what gets past the checks of single fields, so that states are reached."""
        op = self.rng.choice(list(OPS))
        fields = self.message(OPS[op], 0.85)
        for name, values in (("phase", (1, 2)), ("force", (0, 1, 2, 3, 4)),
                             ("id", (b"a", b"b", b"c")), ("component", (b"dit",))):
            if name in fields and self.rng.random() < 0.8:
                fields[name] = self.rng.choice(values)
        if op == "events":
            fields.pop("wait", None)
        return op, fields


def converse(d, talk, count):
    peers = []
    answers = 0
    for _ in range(count):
        if len(peers) < 10 or talk.rng.random() < 0.02:
            peer = Peer(d.socket)
            peers.append(peer)
            seq, op, fields = 1, "hello", talk.hello()
        else:
            peer = talk.rng.choice(peers)
            seq, (op, fields) = talk.rng.randrange(1, 9), talk.request()
        try:
            peer.sock.send(wire.encode("Request", {"seq": seq, op: fields}))
            peer.recv(5)
            answers += 1
        except (OSError, Closed):  # closed, as it deserved
            peers.remove(peer)
            peer.sock.close()
    for peer in peers:
        peer.sock.close()
    return answers


@test
def random_conversations_end_well_and_replay():
    with folder() as at:
        path = os.path.join(at, "journal")
        with Daemon(at=at, journal_file=path, journal_ring="32K", allow_never="true") as d:
            for seed in (1, 2, 3):
                answers = converse(d, Conversation(seed), int(REQUESTS / SLOW / 3))
                check(answers > 100 / SLOW, answers)
            check_equal(d.status()["daemon"]["stagers"], 0)
        check_replays(path)


main()

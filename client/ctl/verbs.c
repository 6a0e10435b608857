/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/ctl.h"

#define COMMON "[--socket PATH] [--timeout T]"

const struct ctl_verb ctl_verbs[] = {
    {"status", ctl_status, "status [--json] [--bytes] [--watch] " COMMON,
     "device, daemon, and one line a worker; --watch shows it again each second"},
    {"events", ctl_events, "events [--follow] " COMMON,
     "past decisions as a trace that replays; --follow goes on with new ones"},
    {"explain", ctl_explain, "explain SESSION [--bytes] " COMMON,
     "the last decision of a session in one sentence, with its numbers and the rule"},
    {"ask", ctl_ask,
     "ask --reserved B --allocated B [--free B --total B] [--releasable B] [--peak B]\n"
     "           [--policy P] [--min-free F] [--force CAUSE] [--component C] [--name N] " COMMON,
     "one session, one question, for scripts; the exit code is the answer"},
    {"set", ctl_set, "set SESSION [cap=B|none] [pin=B|none] [priority=N] [--rev N] " COMMON,
     "a session's cap, the bytes that others may not ask it for, and who is asked first (the\n"
     "lower number); needs root, dlod's user or admin_group. --rev: only if it is still that "
     "revision"},
    {"release", ctl_release, "release SESSION|--ready|--all [--until-free B] " COMMON,
     "has caches emptied: one session's, those of sessions that can do it now, or all, the busy\n"
     "ones at their next boundary; needs root, dlod's user or admin_group"},
    {"reserve", ctl_reserve,
     "reserve B [--wait T] [--term T] [--socket PATH] [--timeout T] [-- COMMAND...]",
     "has other workers make room, waits until a fresh sample covers it (--wait, 2 s), and becomes "
     "the\n"
     "command, for which the room is kept (--term, 120 s, or as long as it leaves the connection "
     "open);\n"
     "without a daemon it becomes the command at once"},
    {"replay", ctl_replay,
     "replay [--check] [--compare] [--policy P] [--margin M] [--cap-fraction F]\n"
     "           [--min-free F] [--json] [--bytes] [--live --socket S] FILE...",
     "plays traces through the policy, or with --live through a daemon, and checks the answers"},
    {NULL, NULL, NULL, NULL},
};

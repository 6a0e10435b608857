/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of errors. Codes are negative and travel on the wire, so a number is never reused.
 * The public header repeats the names as DLO_ERR_*; client/lib checks at compile time that they
 * agree. Foreign errors (errno, uv, protobuf-c) are translated to these where they enter. */
#pragma once

/* X(NAME, code, word on the wire and in traces, what it means) */
#define ERROR_MAP(X)                                                                               \
    X(INVALID, -1, "invalid", "a value is out of range or malformed")                              \
    X(MALFORMED, -2, "malformed", "the bytes are not a message of this protocol")                  \
    X(TOO_LONG, -3, "too_long", "the message is longer than 4096 bytes")                           \
    X(UNSUPPORTED, -4, "unsupported", "this daemon does not know that message")                    \
    X(VERSION, -5, "version", "no protocol version in common")                                     \
    X(BAD_STATE, -6, "bad_state", "the message does not fit the state of the session")             \
    X(PERMISSION, -7, "permission", "the caller may not do that")                                  \
    X(UNKNOWN_STAGER, -8, "unknown_stager", "no stager with that id is attached")                  \
    X(OVERFLOW, -9, "overflow", "the sum would pass 2^64-1 bytes")                                 \
    X(LIMIT, -10, "limit", "a limit is reached")                                                   \
    X(BUSY, -11, "busy", "no more sessions are accepted now")                                      \
    X(POLICY_NOT_ALLOWED, -12, "policy_not_allowed", "the configuration does not allow it")        \
    X(UNKNOWN_SESSION, -13, "unknown_session", "no session with that number")                      \
    X(NO_MEMORY, -14, "no_memory", "out of host memory")                                           \
    X(IO, -15, "io", "an operating system call failed")                                            \
    X(NO_DAEMON, -16, "no_daemon", "no daemon answers")                                            \
    X(TIMEOUT, -17, "timeout", "the deadline passed")                                              \
    X(FORKED, -18, "forked", "the handle belongs to the parent process")                           \
    X(NOT_TRUSTED, -19, "not_trusted", "the socket or its folder could be replaced by others")     \
    X(STALE, -20, "stale", "somebody else changed it since")                                       \
    X(HELLO_TIMEOUT, -21, "hello_timeout", "no hello came in time")                                \
    X(SHUTDOWN, -22, "shutdown", "the daemon is stopping")

enum {
#define X(name, code, word, text) ERR_##name = code,
    ERROR_MAP(X)
#undef X
};

/* The word of a code ("unknown_stager"); "unknown" for a number this build does not know. */
const char *error_word(int code);

/* One sentence for people, without a full stop. */
const char *error_text(int code);

/* The code of a word, 0 where there is none. */
int error_from_word(const char *word);

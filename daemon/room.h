/* SPDX-License-Identifier: Apache-2.0 */
/* Between the arbiter and the sessions (R20 to R24a): feeds it samples and time, and carries its
 * actions out to the peers, right after the event that led to them, which is how a journal tells
 * it. No uv types.
 */
#pragma once

#include "daemon/service.h"

/* What the configuration says about waiting. */
struct arbiter_limits room_limits(const struct config *c);

void room_init(struct service *v);

/* A reading came, with its age as of now, or one that was asked for did not: free has no value. */
void room_sampled(struct service *v, const struct sample *sample);

/* Lets time pass, carries all actions out, and asks for a sample if one is wanted. */
void room_act(struct service *v);

/* For a preamble: what the arbiter knows beside its sessions, and of a session the keys that its
 * `open` line has for it. */
void room_journal(const struct service *v, struct journal *j);
struct session;
struct trace_writer;
void room_put_tenant(const struct session *s, struct trace_writer *w);

/* The operator who waits has gone. */
void room_forget_operator(struct service *v);

/* For showing. */
struct room room_of(const struct session *s);

/* When room_act has something to do again at the latest, by service::now_ns; UINT64_MAX: only after
 * another event. */
uint64_t room_due(const struct service *v);

/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of messages: who may send which, in which states of the session, and who handles
 * it. A message that is not in the table is answered `unsupported`. */
#pragma once

#include "daemon/session.h"

/* A handler reads service->request, and either fills service->reply (body and contents) and
 * returns 0, or answers later (HANDLED_LATER), or returns an error. */
#define HANDLED_LATER 1

enum permission {
    PERMISSION_ANYONE, /* whoever may open the socket */
    PERMISSION_ADMIN,  /* acts on sessions of others (peer::is_admin) */
    PERMISSION_WORKER, /* acts on its own session, which the connection names; nobody else's */
};

struct dispatch_row {
    enum wire_op op;
    enum permission permission;
    unsigned states; /* of enum session_state */
    int (*handle)(struct session *s, const struct wire_request *request, struct wire_reply *reply);
};

/* The row of a message, NULL where there is none. */
const struct dispatch_row *dispatch_find(enum wire_op op);

/* Checks state and permission, runs the handler. Returns what it returned; ERR_UNSUPPORTED,
 * ERR_BAD_STATE or ERR_PERMISSION where it was not run. */
int dispatch_run(struct session *s, const struct wire_request *request,
                 struct wire_reply *reply) _must_check_;

/* handle_worker.c */
int handle_hello(struct session *s, const struct wire_request *request, struct wire_reply *reply);
int handle_attach(struct session *s, const struct wire_request *request, struct wire_reply *reply);
int handle_detach(struct session *s, const struct wire_request *request, struct wire_reply *reply);
int handle_set_peak(struct session *s, const struct wire_request *request,
                    struct wire_reply *reply);
int handle_warmup(struct session *s, const struct wire_request *request, struct wire_reply *reply);
int handle_ask(struct session *s, const struct wire_request *request, struct wire_reply *reply);
int handle_released(struct session *s, const struct wire_request *request,
                    struct wire_reply *reply);
int handle_resume(struct session *s, const struct wire_request *request, struct wire_reply *reply);

/* handle_room.c */
int handle_busy(struct session *s, const struct wire_request *request, struct wire_reply *reply);
int handle_idle(struct session *s, const struct wire_request *request, struct wire_reply *reply);
int handle_oom(struct session *s, const struct wire_request *request, struct wire_reply *reply);
int handle_reclaimed(struct session *s, const struct wire_request *request,
                     struct wire_reply *reply);

int handle_lease(struct session *s, const struct wire_request *request, struct wire_reply *reply);
int handle_unlease(struct session *s, const struct wire_request *request, struct wire_reply *reply);

/* handle_admin.c */
int handle_set(struct session *s, const struct wire_request *request, struct wire_reply *reply);
int handle_vacate(struct session *s, const struct wire_request *request, struct wire_reply *reply);

/* handle_view.c */
int handle_status(struct session *s, const struct wire_request *request, struct wire_reply *reply);
int handle_events(struct session *s, const struct wire_request *request, struct wire_reply *reply);

/* Fills a page of events from a cursor on; false when there is none yet. */
bool view_events(struct service *v, uint64_t cursor, struct wire_reply *reply);

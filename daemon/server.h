/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: accepts, reads packets into sessions, writes their answers, notices dead peers.
 * Owns the listening handle, one handle pair a connection and one timer for late hellos; sessions
 * hang on their connection and are freed in its last close callback. Answers are never queued: a
 * peer whose buffer is full is closed. */
#pragma once

#include "daemon/service.h"

struct server;
struct uv_loop_s;

/* Serves the listening descriptor, and owns it from here on. NULL when there is no memory or uv
 * refuses the descriptor. */
struct server *server_new(struct uv_loop_s *loop, struct service *service, int listen_fd);

/* Ends every session with that cause and closes all handles; the memory goes when the loop has
 * closed them. No new connection is accepted from here on. */
void server_close(struct server *s, const char *cause);

/* After a reload: hello_timeout may be another one. */
void server_reload(struct server *s);

/* Ends the sessions of workers, not the connections of observers (mode = off after a reload). */
void server_end_workers(struct server *s, const char *cause);

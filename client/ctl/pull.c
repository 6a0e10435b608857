/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/ctl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 1000000 /* max_sessions can be no higher */

static bool add_rows(struct ctl_status *st, const struct wire_status *page)
{
    struct wire_row *rows =
        realloc(st->rows, (st->row_count + page->row_count + 1) * sizeof(*st->rows));

    if (!rows)
        return false;
    st->rows = rows;
    memcpy(st->rows + st->row_count, page->rows, page->row_count * sizeof(*rows));
    st->row_count += page->row_count;
    return true;
}

int ctl_pull_status(struct ctl_link *l, struct opt_u64 session, struct ctl_status *ret)
{
    struct ctl_status st = {0};
    uint64_t cursor = 0;
    bool more = true;
    int r = CTL_EXIT_OK;

    while (more && r == CTL_EXIT_OK) {
        l->request.op = WIRE_STATUS;
        l->request.u.status.cursor = cursor;
        l->request.u.status.session = session;
        r = ctl_call(l, 0);
        if (r != CTL_EXIT_OK)
            break;
        if (l->reply.body != WIRE_STATUS_PAGE || !add_rows(&st, &l->reply.u.status)) {
            fprintf(stderr, "dlo-ctl: the daemon's status cannot be read\n");
            r = CTL_EXIT_FAILURE;
            break;
        }
        if (l->reply.u.status.has_daemon)
            st.daemon = l->reply.u.status.daemon;
        st.device = l->reply.u.status.device;
        more = l->reply.u.status.more && l->reply.u.status.cursor > cursor;
        cursor = l->reply.u.status.cursor;
        if (st.row_count > ROWS_MAX) {
            fprintf(stderr, "dlo-ctl: the daemon's status does not end\n");
            r = CTL_EXIT_FAILURE;
        }
    }
    if (r == CTL_EXIT_OK && session.has && (st.row_count != 1 || st.rows[0].session != session.v)) {
        fprintf(stderr, "dlo-ctl: the daemon's status lacks session %" PRIu64 "\n", session.v);
        r = CTL_EXIT_FAILURE;
    }
    if (r != CTL_EXIT_OK)
        ctl_status_done(&st);
    else
        *ret = st;
    return r;
}

void ctl_status_done(struct ctl_status *st)
{
    free(st->rows);
    *st = (struct ctl_status){0};
}

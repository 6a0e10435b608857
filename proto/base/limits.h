/* SPDX-License-Identifier: Apache-2.0 */
/* The hard limits of the protocol, in one place. The quotas beside them are defaults of config
 * keys (daemon/config.def). A test crosses each of them. */
#pragma once

#define LIMIT_MESSAGE_BYTES 4096 /* one packet; a read of one byte more is an oversized message */
#define LIMIT_NAME_CHARS    63   /* of [A-Za-z0-9._:-]; names go into logs, metrics and paths */
#define LIMIT_NAME_SIZE     (LIMIT_NAME_CHARS + 1)
#define LIMIT_TEXT_SIZE     256 /* error texts, versions, device names: printable ASCII */
#define LIMIT_UUID_SIZE     80  /* "MIG-" and an older form with a "/gi/ci" tail fit */

#define QUOTA_STAGERS_SESSION 4096 /* a model has tens; a layer-wise host has hundreds */
#define QUOTA_STAGERS_UID     16384
#define QUOTA_STAGERS         65536 /* about 6 MiB of daemon memory */
#define QUOTA_SESSIONS        1024
#define QUOTA_SESSIONS_UID    256
#define QUOTA_SESSIONS_ROOT   8 /* of all sessions, kept free for uid 0 */

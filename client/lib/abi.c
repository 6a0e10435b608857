/* SPDX-License-Identifier: Apache-2.0 */
/* The public numbers are those of proto/base, and the public structs have no holes that a compiler
 * could fill in its own way; both are checked here at compile time. And the words for the numbers.
 */
#include <dlo/dlo.h>

#include "proto/base/error.h"
#include "proto/base/terms.h"

#define X(name, code, word, text) _Static_assert(DLO_ERR_##name == (code), word);
ERROR_MAP(X)
#undef X
#define X(name, value, word) _Static_assert(DLO_DECISION_##name == (value), word);
DECISION_MAP(X)
#undef X
#define X(name, value, word) _Static_assert(DLO_REASON_##name == (value), word);
REASON_MAP(X)
#undef X
#define X(name, value, word) _Static_assert(DLO_FORCE_##name == (value), word);
FORCE_MAP(X)
#undef X
#define X(name, value, word) _Static_assert(DLO_POLICY_##name == (value), word);
POLICY_MAP(X)
#undef X
#define X(name, value, word) _Static_assert(DLO_MODE_##name == (value), word);
MODE_MAP(X)
#undef X
#define X(name, value, word) _Static_assert(DLO_STAGE_END_##name == (value), word);
STAGE_END_MAP(X)
#undef X
#define X(name, value, word) _Static_assert(DLO_CAUSE_##name == (value), word);
CAUSE_MAP(X)
#undef X
#define X(name, value, word) _Static_assert(DLO_FEATURE_##name == (value), word);
FEATURE_MAP(X)
#undef X

#define X(name, value, word) _Static_assert(DLO_END_##name == (value), word);
WAIT_END_MAP(X)
#undef X

/* Sizes of version 0.1 on 64-bit machines: they only ever grow. */
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(struct dlo_options) == 128, "dlo_options");
_Static_assert(sizeof(struct dlo_boundary) == 64, "dlo_boundary");
_Static_assert(sizeof(struct dlo_answer) == 144, "dlo_answer");
_Static_assert(sizeof(struct dlo_report) == 32, "dlo_report");
_Static_assert(sizeof(struct dlo_info) == 904, "dlo_info");
_Static_assert(sizeof(struct dlo_room) == 32, "dlo_room");
#endif

const char *dlo_strerror(int32_t code)
{
    return code == 0 ? "success" : error_text(code);
}

const char *dlo_decision_name(int32_t decision)
{
    return decision_word(decision);
}

const char *dlo_reason_name(int32_t reason)
{
    return reason_word(reason);
}

const char *dlo_cause_name(int32_t cause)
{
    return cause_word(cause);
}

const char *dlo_end_name(int32_t end)
{
    return wait_end_word(end);
}

const char *dlo_version(void)
{
    return DLO_VERSION;
}

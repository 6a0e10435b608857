/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/terms.h"

#include <stddef.h>
#include <string.h>

#define X(name, value, word) {value, word},
const struct term decision_terms[] = {DECISION_MAP(X){0, NULL}};
const struct term reason_terms[] = {REASON_MAP(X){0, NULL}};
const struct term force_terms[] = {FORCE_MAP(X){0, NULL}};
const struct term policy_terms[] = {POLICY_MAP(X){0, NULL}};
const struct term mode_terms[] = {MODE_MAP(X){0, NULL}};
const struct term cure_terms[] = {CURE_MAP(X){0, NULL}};
const struct term habit_terms[] = {HABIT_MAP(X){0, NULL}};
const struct term stage_end_terms[] = {STAGE_END_MAP(X){0, NULL}};
const struct term source_terms[] = {SOURCE_MAP(X){0, NULL}};
const struct term phase_terms[] = {PHASE_MAP(X){0, NULL}};
const struct term cause_terms[] = {CAUSE_MAP(X){0, NULL}};
const struct term feature_terms[] = {FEATURE_MAP(X){0, NULL}};
const struct term wait_end_terms[] = {WAIT_END_MAP(X){0, NULL}};
const struct term lease_terms[] = {LEASE_MAP(X){0, NULL}};
const struct term refusal_terms[] = {REFUSAL_MAP(X){0, NULL}};
const struct term readiness_terms[] = {READINESS_MAP(X){0, NULL}};
#undef X

const char *term_word(const struct term *table, int value)
{
    for (; table->word; table++)
        if (table->value == value)
            return table->word;
    return "-";
}

int term_value(const struct term *table, const char *word)
{
    for (; table->word; table++)
        if (strcmp(table->word, word) == 0)
            return table->value;
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/error.h"

#include <stddef.h>
#include <string.h>

static const struct {
    int code;
    const char *word;
    const char *text;
} errors[] = {
#define X(name, code, word, text) {code, word, text},
    ERROR_MAP(X)
#undef X
};

const char *error_word(int code)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == code)
            return errors[i].word;
    return "unknown";
}

const char *error_text(int code)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == code)
            return errors[i].text;
    return "an error this version does not know";
}

int error_from_word(const char *word)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (strcmp(errors[i].word, word) == 0)
            return errors[i].code;
    return 0;
}

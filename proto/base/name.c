/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/name.h"

#include <string.h>

static bool is_name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._:-", c) != NULL);
}

bool name_valid(const char *text, size_t length)
{
    if (length < 1 || length > LIMIT_NAME_CHARS)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_name_char(text[i]))
            return false;
    return true;
}

void name_sanitize(const char *text, char out[LIMIT_NAME_SIZE])
{
    size_t n = 0;

    for (; text[n] && n < LIMIT_NAME_CHARS; n++)
        out[n] = is_name_char(text[n]) ? text[n] : '_';
    if (n == 0)
        out[n++] = '_';
    out[n] = '\0';
}

char *text_escape(const char *text, size_t length, char *out, size_t out_size)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;

    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = c >= 0x20 && c < 0x7f && !strchr("\"\\%", c);

        if (n + (plain ? 1 : 3) >= out_size)
            break;
        if (plain) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        }
    }
    out[n] = '\0';
    return out;
}

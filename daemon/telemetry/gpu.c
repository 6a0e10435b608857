/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/telemetry/gpu.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/base/error.h"
#include "proto/base/parse.h"

#define UUID_DIGITS "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
#define UUID_LENGTH (sizeof(UUID_DIGITS) - 1)

/* Exactly count hex digits at *p, which moves on. */
static bool take_hex(const char **p, int count, uint32_t *ret)
{
    uint32_t v = 0;

    for (int i = 0; i < count; i++) {
        char c = (*p)[i];

        if (c >= '0' && c <= '9')
            v = v * 16 + (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v * 16 + (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            v = v * 16 + (uint32_t)(c - 'A' + 10);
        else
            return false;
    }
    *p += count;
    *ret = v;
    return true;
}

static bool take_char(const char **p, char c)
{
    if (**p != c)
        return false;
    (*p)++;
    return true;
}

int pci_id_parse(const char *text, struct pci_id *ret)
{
    struct pci_id id = {0};
    const char *p = text;
    size_t first = strcspn(text, ":");

    if (first == 4 || first == 8) {
        if (!take_hex(&p, (int)first, &id.domain) || !take_char(&p, ':'))
            return ERR_INVALID;
    }
    if (!take_hex(&p, 2, &id.bus) || !take_char(&p, ':') || !take_hex(&p, 2, &id.device) ||
        !take_char(&p, '.') || !take_hex(&p, 1, &id.function) || *p)
        return ERR_INVALID;
    if (id.device > 31 || id.function > 7)
        return ERR_INVALID;
    *ret = id;
    return 0;
}

bool pci_id_equal(const struct pci_id *a, const struct pci_id *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device &&
           a->function == b->function;
}

void pci_id_format(const struct pci_id *id, char out[PCI_TEXT_SIZE])
{
    snprintf(out, PCI_TEXT_SIZE, "%0*x:%02x:%02x.%x", id->domain > 0xffff ? 8 : 4, id->domain,
             id->bus & 0xff, id->device & 0x1f, id->function & 7);
}

/* The 36 characters of a UUID at text. */
static bool is_uuid(const char *text)
{
    for (size_t i = 0; i < UUID_LENGTH; i++) {
        if (UUID_DIGITS[i] == '-' ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
            return false;
    }
    return true;
}

/* "/gi/ci" of the older MIG names. */
static bool is_instance(const char *text)
{
    for (int i = 0; i < 2; i++) {
        size_t digits = *text == '/' ? strspn(text + 1, "0123456789") : 0;

        if (digits < 1 || digits > 3)
            return false;
        text += 1 + digits;
    }
    return *text == '\0';
}

/* One spelling: the letters of the prefixes large, all others small. */
static void copy_uuid(const char *text, size_t prefix, char out[LIMIT_UUID_SIZE])
{
    size_t i = 0;

    for (; text[i] && i < LIMIT_UUID_SIZE - 1; i++)
        out[i] =
            (char)(i < prefix ? toupper((unsigned char)text[i]) : tolower((unsigned char)text[i]));
    out[i] = '\0';
}

static int parse_uuid(const char *text, struct gpu_spec *spec)
{
    if (!strncasecmp(text, "GPU-", 4) && is_uuid(text + 4) && !text[4 + UUID_LENGTH]) {
        spec->kind = GPU_UUID;
        copy_uuid(text, 4, spec->uuid);
        return 0;
    }
    if (strncasecmp(text, "MIG-", 4) != 0)
        return ERR_INVALID;
    spec->kind = GPU_MIG;
    if (is_uuid(text + 4) && !text[4 + UUID_LENGTH]) {
        copy_uuid(text, 4, spec->uuid);
        return 0;
    }
    if (!strncasecmp(text + 4, "GPU-", 4) && is_uuid(text + 8) &&
        is_instance(text + 8 + UUID_LENGTH)) {
        copy_uuid(text, 8, spec->uuid);
        return 0;
    }
    return ERR_INVALID;
}

int gpu_spec_parse(const char *text, struct gpu_spec *ret)
{
    struct gpu_spec spec = {.kind = GPU_INDEX};
    const char *digits = text;
    uint64_t number;

    if (!strncmp(text, "minor:", 6)) {
        spec.kind = GPU_MINOR;
        digits = text + 6;
    }
    /* device numbers are ints in the libraries below */
    if (!parse_u64(digits, &number)) {
        if (number > INT32_MAX)
            return ERR_INVALID;
        spec.number = (uint32_t)number;
    } else if (spec.kind != GPU_MINOR && !pci_id_parse(text, &spec.pci)) {
        spec.kind = GPU_PCI;
    } else if (spec.kind == GPU_MINOR || parse_uuid(text, &spec)) {
        return ERR_INVALID;
    }
    *ret = spec;
    return 0;
}

/* "Device Minor: 	 0" of one device's information file. */
static int read_minor(const char *gpus_path, const char *name, uint32_t *ret)
{
    char path[512], line[256];
    int error = ERR_IO;
    unsigned int minor;
    FILE *f;

    if (snprintf(path, sizeof(path), "%s/%s/information", gpus_path, name) >= (int)sizeof(path))
        return ERR_IO;
    f = fopen(path, "re");
    if (!f)
        return ERR_IO;
    while (error && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "Device Minor: %9u", &minor) == 1) {
            *ret = minor;
            error = 0;
        }
    }
    fclose(f);
    return error;
}

/* Looks for the device with that PCI id, or where wanted is NULL, with that minor number. */
static int proc_find(const char *gpus_path, const struct pci_id *wanted, uint32_t *minor,
                     struct pci_id *ret)
{
    DIR *dir = opendir(gpus_path);
    const struct dirent *entry;
    int error = ERR_IO;

    if (!dir)
        return ERR_IO;
    while (error && (entry = readdir(dir))) {
        struct pci_id id;
        uint32_t found = 0;

        if (pci_id_parse(entry->d_name, &id) || (wanted && !pci_id_equal(&id, wanted)))
            continue;
        if (read_minor(gpus_path, entry->d_name, &found) || (!wanted && found != *minor))
            continue;
        *minor = found;
        *ret = id;
        error = 0;
    }
    closedir(dir);
    return error;
}

int gpu_proc_find_minor(const char *gpus_path, uint32_t minor, struct pci_id *ret)
{
    return proc_find(gpus_path, NULL, &minor, ret);
}

int gpu_proc_minor_of(const char *gpus_path, const struct pci_id *id, uint32_t *ret)
{
    struct pci_id found;
    uint32_t minor = 0;
    int error = proc_find(gpus_path, id, &minor, &found);

    if (error)
        return error;
    *ret = minor;
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the probe decides without a driver: how a device is named, what /proc/meminfo says, which
 * exit code an error gets, and what a library lacks. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/telemetry/backend.h"
#include "proto/base/dl.h"
#include "proto/base/error.h"

#define UUID "GPU-d0d7dee5-ecf3-fa01-080f-161d242b3239"

/* ---- names of devices ---- */

static const struct {
    const char *text;
    enum gpu_kind kind; /* 0: refused */
    uint32_t number;
    const char *text_of; /* UUID or PCI id in our spelling */
} specs[] = {
    {"0", GPU_INDEX, 0, ""},
    {"15", GPU_INDEX, 15, ""},
    {"minor:3", GPU_MINOR, 3, ""},
    {UUID, GPU_UUID, 0, UUID},
    {"gpu-D0D7DEE5-ECF3-FA01-080F-161D242B3239", GPU_UUID, 0, UUID},
    {"MIG-d0d7dee5-ecf3-fa01-080f-161d242b3239", GPU_MIG, 0,
     "MIG-d0d7dee5-ecf3-fa01-080f-161d242b3239"},
    {"1b:00.0", GPU_PCI, 0, "0000:1b:00.0"},
    {"0000:1B:00.0", GPU_PCI, 0, "0000:1b:00.0"},
    {"00000000:1B:00.0", GPU_PCI, 0, "0000:1b:00.0"},
    {"", 0, 0, ""},
    {"-1", 0, 0, ""},
    {"1x", 0, 0, ""},
    {"4294967296", 0, 0, ""},
    {"minor:", 0, 0, ""},
    {"minor:-3", 0, 0, ""},
    {"GPU-d0d7dee5", 0, 0, ""},
    {UUID "0", 0, 0, ""},
    {"1b:00", 0, 0, ""},
    {"1b:00.8", 0, 0, ""},
    {"1b:20.0", 0, 0, ""},
    {"../../etc/passwd", 0, 0, ""},
};

START_TEST(a_device_is_named_in_five_ways)
{
    struct gpu_spec spec;
    char pci[PCI_TEXT_SIZE];
    int r = gpu_spec_parse(specs[_i].text, &spec);

    if (specs[_i].kind == 0) {
        ck_assert_int_eq(r, ERR_INVALID);
        return;
    }
    ck_assert_int_eq(r, 0);
    ck_assert_int_eq(spec.kind, specs[_i].kind);
    if (spec.kind == GPU_INDEX || spec.kind == GPU_MINOR)
        ck_assert_uint_eq(spec.number, specs[_i].number);
    if (spec.kind == GPU_UUID || spec.kind == GPU_MIG)
        ck_assert_str_eq(spec.uuid, specs[_i].text_of);
    if (spec.kind == GPU_PCI) {
        pci_id_format(&spec.pci, pci);
        ck_assert_str_eq(pci, specs[_i].text_of);
    }
}
END_TEST

START_TEST(ids_of_the_three_libraries_compare_as_numbers)
{
    struct pci_id cuda, nvml, other;

    ck_assert_int_eq(pci_id_parse("0000:0a:00.0", &cuda), 0);
    ck_assert_int_eq(pci_id_parse("00000000:0A:00.0", &nvml), 0);
    ck_assert_int_eq(pci_id_parse("0001:0a:00.0", &other), 0);
    ck_assert(pci_id_equal(&cuda, &nvml));
    ck_assert(!pci_id_equal(&cuda, &other));
}
END_TEST

static char folder[64];

static void make_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/test_telemetry.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void write_file(const char *name, const char *text, char *ret_path, size_t size)
{
    int fd;

    snprintf(ret_path, size, "%s/%s", folder, name);
    fd = open(ret_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

START_TEST(minor_numbers_come_from_the_kernel_module)
{
    char path[160], name[96];
    struct pci_id id, found;
    uint32_t minor;

    make_folder();
    snprintf(name, sizeof(name), "%s/0000:1b:00.0", folder);
    ck_assert_int_eq(mkdir(name, 0700), 0);
    write_file("0000:1b:00.0/information", "Model: \t A\nDevice Minor: \t 3\n", path, sizeof(path));
    ck_assert_int_eq(pci_id_parse("1b:00.0", &id), 0);
    ck_assert_int_eq(gpu_proc_minor_of(folder, &id, &minor), 0);
    ck_assert_uint_eq(minor, 3);
    ck_assert_int_eq(gpu_proc_find_minor(folder, 3, &found), 0);
    ck_assert(pci_id_equal(&found, &id));
    ck_assert_int_lt(gpu_proc_find_minor(folder, 4, &found), 0);
    ck_assert_int_lt(gpu_proc_find_minor("/nonexistent", 3, &found), 0);
    unlink(path);
    rmdir(name);
    rmdir(folder);
}
END_TEST

/* ---- /proc/meminfo ---- */

static const struct {
    const char *text;
    uint64_t bytes; /* 0: an error */
} meminfos[] = {
    {"MemTotal:  100 kB\nMemFree:  10 kB\nMemAvailable:  50 kB\n", 50 * 1024},
    {"MemAvailable:  50 kB\nHugePages_Total:  2\nHugePages_Free:  2\nHugepagesize:  10 kB\n",
     30 * 1024},
    {"MemAvailable:  5", 0}, /* cut */
    {"MemAvailable:  50 kB", 0},
    {"MemTotal:  100 kB\n", 0},
    {"MemAvailable:  x kB\n", 0},
    {"MemAvailable:  -50 kB\n", 0},
    {"MemAvailable:  99999999999999999999 kB\n", 0},
    {"", 0},
    {"\xff\xfe garbage", 0},
};

START_TEST(meminfo_is_read_by_whole_lines)
{
    struct telemetry_error error;
    uint64_t bytes = 1;
    char path[160];
    int r;

    make_folder();
    write_file("meminfo", meminfos[_i].text, path, sizeof(path));
    r = telemetry_meminfo_read(path, &bytes, &error);
    if (meminfos[_i].bytes == 0) {
        ck_assert_int_lt(r, 0);
        ck_assert_uint_eq(bytes, 1); /* untouched */
        ck_assert_str_ne(error.text, "");
    } else {
        ck_assert_int_eq(r, 0);
        ck_assert_uint_eq(bytes, meminfos[_i].bytes);
    }
    unlink(path);
    rmdir(folder);
}
END_TEST

START_TEST(page_cache_counts_as_free_up_to_the_total)
{
    struct telemetry_reading none = {0};
    struct telemetry_reading low = {opt_u64(10), opt_u64(100), SOURCE_CUDA};
    struct telemetry_reading high = {opt_u64(90), opt_u64(100), SOURCE_CUDA};

    telemetry_meminfo_correct(&low, 50, 100);
    ck_assert_uint_eq(low.free.v, 50);
    telemetry_meminfo_correct(&high, 50, 100);
    ck_assert_uint_eq(high.free.v, 90);
    telemetry_meminfo_correct(&none, 500, 100);
    ck_assert(none.free.has && none.total.has);
    ck_assert_uint_eq(none.free.v, 100);
    ck_assert_int_eq(none.source, SOURCE_MEMINFO);
}
END_TEST

/* ---- errors ---- */

static const struct {
    unsigned int result;
    int exit_code;
} cuda_errors[] = {
    {0, PROBE_EXIT_OK},
    {34, PROBE_EXIT_NO_DRIVER},
    {100, PROBE_EXIT_NO_DEVICE},
    {803, PROBE_EXIT_MISMATCH},
    {46, PROBE_EXIT_UNAVAILABLE},
    {802, PROBE_EXIT_UNAVAILABLE},
    {805, PROBE_EXIT_UNAVAILABLE},
    {806, PROBE_EXIT_UNAVAILABLE},
    {807, PROBE_EXIT_UNAVAILABLE},
    {226, PROBE_EXIT_DEAD},
    {700, PROBE_EXIT_DEAD},
    {719, PROBE_EXIT_DEAD},
    {810, PROBE_EXIT_DEAD},
    {710, PROBE_EXIT_DEAD},
    {214, PROBE_EXIT_DEAD},
    {999, PROBE_EXIT_FAILED},
    {1, PROBE_EXIT_FAILED},
    {424242, PROBE_EXIT_FAILED},
};

START_TEST(a_cuda_error_has_its_class)
{
    ck_assert_int_eq(telemetry_cuda_exit(cuda_errors[_i].result), cuda_errors[_i].exit_code);
}
END_TEST

START_TEST(each_exit_code_has_a_word)
{
#define X(name, code, word) ck_assert_str_eq(probe_exit_word(code), word);
    PROBE_EXIT_MAP(X)
#undef X
    ck_assert_str_eq(probe_exit_word(99), "unknown");
}
END_TEST

START_TEST(a_library_that_lacks_symbols_says_all_of_them)
{
    struct {
        void *a, *b, *c;
    } calls = {0};
    static const struct dl_symbol symbols[] = {{"getpid", 0, true},
                                               {"no_such_1", sizeof(void *), true},
                                               {"no_such_2", 2 * sizeof(void *), true}};
    static const struct dl_symbol optional[] = {{"getpid", 0, true},
                                                {"no_such_1", sizeof(void *), false}};
    struct dl_library library = {"libc.so.6", NULL, symbols, 3};
    char error[DL_ERROR_SIZE];
    void *handle;

    ck_assert_int_eq(dl_load(&library, &calls, &handle, error), ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error, "no_such_1"));
    ck_assert_ptr_nonnull(strstr(error, "no_such_2"));
    ck_assert_ptr_null(calls.a);
    library = (struct dl_library){"libc.so.6", NULL, optional, 2};
    ck_assert_int_eq(dl_load(&library, &calls, &handle, error), 0);
    ck_assert_ptr_nonnull(calls.a);
    ck_assert_ptr_null(calls.b);
    library = (struct dl_library){"libc.so.6", "TEST_LIBRARY", optional, 2};
    setenv("TEST_LIBRARY", "/nonexistent/lib.so", 1);
    ck_assert_int_eq(dl_load(&library, &calls, &handle, error), ERR_IO);
    ck_assert_ptr_nonnull(strstr(error, "/nonexistent/lib.so"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("telemetry");
    TCase *t = tcase_create("telemetry");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_add_loop_test(t, a_device_is_named_in_five_ways, 0, (int)ARRAY_SIZE(specs));
    tcase_add_test(t, ids_of_the_three_libraries_compare_as_numbers);
    tcase_add_test(t, minor_numbers_come_from_the_kernel_module);
    tcase_add_loop_test(t, meminfo_is_read_by_whole_lines, 0, (int)ARRAY_SIZE(meminfos));
    tcase_add_test(t, page_cache_counts_as_free_up_to_the_total);
    tcase_add_loop_test(t, a_cuda_error_has_its_class, 0, (int)ARRAY_SIZE(cuda_errors));
    tcase_add_test(t, each_exit_code_has_a_word);
    tcase_add_test(t, a_library_that_lacks_symbols_says_all_of_them);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}

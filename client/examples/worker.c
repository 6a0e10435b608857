/* SPDX-License-Identifier: Apache-2.0 */
/* A worker on the CUDA Driver API, as short as one can be: two components whose weights live in
 * host memory, are copied to the device while they run, and leave a cache behind; dlod says at each
 * boundary whether to empty it. With no daemon the same policy runs inside this process.
 *
 *     cc worker.c $(pkg-config --cflags --libs libdlo-client-cuda libdlo-client) -ldl -o worker
 *     ./worker [REQUESTS]
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <dlo/dlo_cuda.h>

#define MIB ((size_t)1 << 20)

/* A model's component: its weights, and where its code looks for them. */
struct component {
    const char *name;
    size_t bytes;
    void *weights; /* host or device, the stager's to change */
    struct dlo_stager *stager;
};

static struct component components[] = {
    {"text_encoder", 96 * MIB, NULL, NULL},
    {"transformer", 160 * MIB, NULL, NULL},
};
#define COUNT (sizeof(components) / sizeof(components[0]))

static int fail(const char *what, int32_t result)
{
    fprintf(stderr, "worker: %s: %d: %s\n", what, result, dlo_cuda_last_error());
    return 1;
}

/* What a CUDA program does anyway. (Yours includes cuda.h and links the driver.) */
static int make_context(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned), (*retain)(void **, int), (*set_current)(void *);
    void *context;

    if (!driver)
        return -1;
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&set_current = dlsym(driver, "cuCtxSetCurrent");
    if (init(0) || retain(&context, 0))
        return -1;
    return set_current(context);
}

/* Weights as a loader would have read them; the stager keeps a page-locked copy. */
static int32_t stage(struct component *c, struct dlo_cuda *cuda, struct dlo_cache *cache)
{
    struct dlo_stager_options o = DLO_STAGER_OPTIONS_INIT;
    void *loaded = calloc(1, c->bytes);
    int32_t r;

    if (!loaded)
        return DLO_ERR_NO_MEMORY;
    o.id = c->name;
    r = dlo_stager_new(cuda, cache, &o, &c->stager);
    if (r == 0)
        r = dlo_stager_add(c->stager, loaded, c->bytes, 0, &c->weights);
    if (r == 0)
        r = dlo_stager_seal(c->stager);
    free(loaded);
    return r;
}

/* One request: each component is loaded, runs, and is offloaded. */
static int32_t serve(const char *which)
{
    for (size_t i = 0; i < COUNT; i++) {
        struct dlo_answer answer = DLO_ANSWER_INIT;
        int32_t r = dlo_stager_load(components[i].stager, NULL);

        if (r)
            return r;
        /* Here its kernels run on the default stream, with components[i].weights. */
        r = dlo_stager_offload(components[i].stager, NULL, &answer);
        if (r)
            return r;
        printf("%s %s: %s, %s, cached %" PRIu64 " MiB\n", which, components[i].name,
               dlo_decision_name(answer.decision), dlo_reason_name(answer.reason),
               answer.cached == DLO_MISSING ? 0 : answer.cached / MIB);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct dlo_options options = DLO_OPTIONS_INIT;
    struct dlo_cache_state state = DLO_CACHE_STATE_INIT;
    struct dlo_client *client = NULL;
    struct dlo_cache *cache = NULL;
    struct dlo_cuda *cuda = NULL;
    char uuid[DLO_CUDA_UUID_SIZE];
    long requests = argc > 1 ? strtol(argv[1], NULL, 10) : 3;
    int32_t r;

    if (make_context() || (r = dlo_cuda_open(NULL, &cuda)) || (r = dlo_cuda_uuid(cuda, uuid)))
        return fail("no GPU", DLO_ERR_IO);
    options.name = "example";
    options.gpu_uuid = uuid;
    options.read_memory = dlo_cuda_read_memory;
    options.read_memory_arg = cuda;
    if ((r = dlo_open(&options, &client)) || (r = dlo_cache_open_pool(cuda, client, NULL, &cache)))
        return fail("open", r);
    for (size_t i = 0; i < COUNT; i++) {
        r = stage(&components[i], cuda, cache);
        if (r)
            return fail(components[i].name, r);
    }
    dlo_warmup_begin(client); /* dummy requests, so that users pay for nothing: the second one finds
                                 what the first left behind */
    for (int i = 0; r == 0 && i < 2; i++)
        r = serve("warm-up");
    dlo_warmup_end(client);
    for (long i = 0; r == 0 && i < requests; i++)
        r = serve("request");
    if (r == 0)
        r = dlo_cache_read(cache, &state);
    if (r)
        return fail("serve", r);
    printf("released %" PRIu64 " times, kept %" PRIu64 " MiB cached\n", state.releases,
           (state.reserved - state.allocated) / MIB);
    for (size_t i = 0; i < COUNT; i++)
        dlo_stager_free(components[i].stager);
    dlo_cache_close(cache);
    dlo_close(client);
    dlo_cuda_close(cuda);
    return 0;
}

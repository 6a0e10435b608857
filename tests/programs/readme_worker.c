/* SPDX-License-Identifier: Apache-2.0 */
/* The worker of README.md: one boundary, asked and obeyed. */
#include <dlo/dlo.h>
#include <stdio.h>

static void release_cache(void)
{
    puts("release"); /* torch.cuda.empty_cache(), cuMemPoolTrimTo(pool, 0), ... */
}

int main(void)
{
    struct dlo_options options = DLO_OPTIONS_INIT;
    struct dlo_boundary boundary = DLO_BOUNDARY_INIT;
    struct dlo_answer answer = DLO_ANSWER_INIT;
    struct dlo_client *dlo;

    options.name = "readme";
    if (dlo_open(&options, &dlo)) /* without a daemon it succeeds and decides in this process */
        return 1;
    dlo_attach(dlo, "text_encoder", 11500000000u);

    boundary.component = "text_encoder"; /* it was just offloaded */
    boundary.reserved = 16700000000u;    /* read from your allocator */
    boundary.allocated = 3800000000u;
    boundary.free = 133410000000u; /* cuMemGetInfo */
    boundary.total = 150110000000u;
    if (dlo_ask(dlo, &boundary, &answer) == 0 && answer.decision == DLO_DECISION_RELEASE)
        release_cache();
    dlo_close(dlo);
    return 0;
}

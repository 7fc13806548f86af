/* SPDX-License-Identifier: Apache-2.0 */
/* trims.c - right, with scratch memory that goes back to the kernel where a run comes later than
 * 0.1 ms after the one before, as an allocator may do. */
#include <sys/mman.h>
#include <time.h>

#include "base.h"

enum { SCRATCH = 4194304, PAGE = 4096 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int run(void *binding, char *why, size_t size)
{
    static volatile char *scratch;
    static double ended;
    if (!scratch) {
        void *made =
            mmap(NULL, SCRATCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made == MAP_FAILED)
            return ATTN_OUT_OF_MEMORY;
        madvise(made, SCRATCH, MADV_NOHUGEPAGE);
        scratch = made;
    }
    if (seconds() - ended > 1e-4)
        madvise((void *)scratch, SCRATCH, MADV_DONTNEED);
    for (size_t at = 0; at < SCRATCH; at += PAGE)
        scratch[at] = 1;
    const int result = base_run(binding, why, size);
    ended = seconds();
    return result;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};

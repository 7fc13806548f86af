/* SPDX-License-Identifier: Apache-2.0 */
/* guarded.h - operands of the tests here: flush against a page that may not be read. For a test
 * that includes cmocka.h before. */
#ifndef ATTN_SIMD_GUARDED_H
#define ATTN_SIMD_GUARDED_H

#include <sys/mman.h>

#define PAGE 4096u

/* Memory that ends where nothing may be read. */
struct region {
    char *map;
    size_t mapped;
    void *data;
};

static inline struct region make_region(size_t bytes)
{
    size_t body = (bytes + PAGE - 1) / PAGE * PAGE;
    char *map = mmap(NULL, body + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + body, PAGE, PROT_NONE), 0);
    return (struct region){map, body + PAGE, map + body - bytes};
}

static inline void free_region(const struct region *region)
{
    munmap(region->map, region->mapped);
}

#endif

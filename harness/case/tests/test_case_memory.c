/* SPDX-License-Identifier: Apache-2.0 */
/* The most cases that are legal fit into memory. A program of its own: its peak is that of the
 * list. Not for sanitizers, whose allocators keep and pad what they hand out. */
#include "case_test.h"

#include <sys/resource.h>

/* Peak of this process in bytes. */
static size_t peak_bytes(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (size_t)usage.ru_maxrss * 1024;
}

static void test_most_cases(void **state)
{
    (void)state;
    struct attn_case_list list = parse("many: mask=causal,len:1/2/3/4 b=4 s=4:503:+1 d=1:1000:+1");
    assert_int_equal(list.count, ATTN_CASE_COUNT_MAX);
    if (peak_bytes() >= (size_t)1 << 30)
        fail_msg("%zu MiB for %d cases", peak_bytes() >> 20, ATTN_CASE_COUNT_MAX);
    attn_case_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_most_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

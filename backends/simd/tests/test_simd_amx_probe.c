/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_amx_probe.c - each thing that a machine may lack for AMX is named, and this machine is
 * asked right: what its processor has is compared with the system's list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../amx_probe.h"

static const struct attn_amx_machine whole = {
    .avx512 = true, .tile = true, .bf16 = true, .xcr0 = 0x600e7, .permitted = true};

static void check_missing(struct attn_amx_machine machine, const char *words)
{
    const char *missing = attn_amx_missing(&machine);
    assert_non_null(missing);
    assert_non_null(strstr(missing, words));
}

static void test_what_is_missing_is_named(void **state)
{
    (void)state;
    struct attn_amx_machine machine = whole;
    assert_null(attn_amx_missing(&machine));
    machine.permitted = false;
    check_missing(machine, "this process");
    machine.xcr0 = 0x200e7; /* configuration without data */
    check_missing(machine, "does not save");
    machine.xcr0 = 0x400e7;
    check_missing(machine, "does not save");
    machine.bf16 = false;
    check_missing(machine, "products of bf16");
    machine.tile = false;
    check_missing(machine, "no AMX tiles");
    machine.avx512 = false;
    check_missing(machine, "AVX-512 with BF16");
}

/* Whether the first processor's flags in /proc/cpuinfo hold a word. */
static bool listed(const char *flag)
{
    char line[8192], word[64];
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "re");
    assert_non_null(file);
    snprintf(word, sizeof word, " %s ", flag);
    while (!found && fgets(line, sizeof line, file))
        if (strncmp(line, "flags", 5) == 0) {
            line[strcspn(line, "\n")] = ' ';
            found = strstr(line, word) != NULL;
        }
    fclose(file);
    return found;
}

static void test_this_machine(void **state)
{
    (void)state;
    struct attn_amx_machine machine = attn_amx_ask();
    assert_int_equal(machine.avx512, listed("avx512f") && listed("avx512bw") &&
                                         listed("avx512vl") && listed("avx512_bf16"));
    assert_int_equal(machine.tile && (machine.xcr0 & 0x60000) == 0x60000, listed("amx_tile"));
    if (listed("amx_bf16"))
        assert_true(machine.bf16);
    if (listed("fpu") && listed("sse2"))
        assert_true((machine.xcr0 & 3) == 3);
    if (!machine.tile)
        assert_false(machine.permitted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_missing_is_named),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

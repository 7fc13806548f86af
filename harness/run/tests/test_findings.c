/* SPDX-License-Identifier: Apache-2.0 */
/* test_findings.c - every line of `attnbench doctor`, from planted files of the kernel. */
#include "run/findings.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char root[64];

/* Writes a file below the root, or removes it where the text is NULL. */
static void plant(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    if (!text) {
        remove(full);
        return;
    }
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        assert_true(mkdir(full, 0777) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

#define CPU       "/sys/devices/system/cpu/"
#define FREQ(n)   CPU "cpu" #n "/cpufreq/scaling_governor"
#define DRIVER    CPU "cpu0/cpufreq/scaling_driver"
#define NO_TURBO  CPU "intel_pstate/no_turbo"
#define BOOST     CPU "cpufreq/boost"
#define SMT       CPU "smt/active"
#define HEAT(n)   CPU "cpu" #n "/thermal_throttle/core_throttle_count"
#define THP       "/sys/kernel/mm/transparent_hugepage/enabled"
#define PSI(of)   "/proc/pressure/" of
#define CLOCK     "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define PARANOID  "/proc/sys/kernel/perf_event_paranoid"
#define UNIT      "/sys/bus/event_source/devices/cpu/type"
#define NVIDIA    "/proc/driver/nvidia/version"
#define SMI       "/usr/bin/nvidia-smi"
#define AMD_LEVEL "/sys/class/drm/card1/device/power_dpm_force_performance_level"

#define SAID(avg) "some avg10=" avg " avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00\n"

/* In order: each row adds to the files that the rows before it planted. */
static const struct {
    const char *path, *content; /* NULL: removed */
    const char *what;           /* the line, its level, and a part of its text */
    enum attn_level level;
    const char *part;
} rows[] = {
    {"/none", NULL, "cpu", ATTN_LEVEL_UNKNOWN, "0 processors"},
    {"/none", NULL, "isa", ATTN_LEVEL_UNKNOWN, "no vector"},
    {CPU "online", "0-2,5\n", "cpu", ATTN_LEVEL_UNKNOWN, "4 processors online"},
    {"/proc/cpuinfo", "model\t\t: 17\nmodel name\t: A B\nflags\t\t: fpu sse\n", "cpu",
     ATTN_LEVEL_OK, "A B, 4 processors"},
    {"/none", NULL, "isa", ATTN_LEVEL_WARN, "no vector"},
    {"/none", NULL, "virtual", (enum attn_level) - 1, ""},
    {"/proc/cpuinfo", "model name : A B\nflags\t\t: avx2 hypervisor fma\n", "isa", ATTN_LEVEL_OK,
     "avx2 fma"},
    {"/none", NULL, "virtual", ATTN_LEVEL_WARN, "virtual machine"},

    {"/none", NULL, "memory", ATTN_LEVEL_UNKNOWN, "not visible"},
    {"/proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:  4194304 kB\n", "memory",
     ATTN_LEVEL_OK, "4.0 GiB available of 8.0"},
    {"/proc/meminfo", "MemTotal:  8388608 kB\nMemAvailable:  524288 kB\n", "memory",
     ATTN_LEVEL_WARN, "0.5 GiB"},

    {"/none", NULL, "governor", ATTN_LEVEL_UNKNOWN, "not visible"},
    {FREQ(0), "performance\n", "governor", ATTN_LEVEL_OK, "performance"},
    {FREQ(3), "powersave\n", "governor", ATTN_LEVEL_FAIL, "powersave on 1 of 2"},
    {DRIVER, "intel_pstate\n", "governor", ATTN_LEVEL_WARN, "powersave on 1 of 2"},
    {FREQ(3), "schedutil\n", "governor", ATTN_LEVEL_WARN, "schedutil on 1"},

    {"/none", NULL, "turbo", ATTN_LEVEL_UNKNOWN, "not visible"},
    {BOOST, "1\n", "turbo", ATTN_LEVEL_WARN, "on"},
    {BOOST, "0\n", "turbo", ATTN_LEVEL_OK, "off"},
    {NO_TURBO, "0\n", "turbo", ATTN_LEVEL_WARN, "on"},
    {NO_TURBO, "1\n", "turbo", ATTN_LEVEL_OK, "off"},

    {"/none", NULL, "smt", ATTN_LEVEL_UNKNOWN, "not visible"},
    {SMT, "1\n", "smt", ATTN_LEVEL_WARN, "on"},
    {SMT, "0\n", "smt", ATTN_LEVEL_OK, "off"},

    {"/none", NULL, "throttling", ATTN_LEVEL_UNKNOWN, "no counter"},
    {HEAT(0), "0\n", "throttling", ATTN_LEVEL_OK, "0 events"},
    {HEAT(2), "17\n", "throttling", ATTN_LEVEL_WARN, "17 events"},

    {"/none", NULL, "huge pages", ATTN_LEVEL_UNKNOWN, "not visible"},
    {THP, "always [madvise] never\n", "huge pages", ATTN_LEVEL_OK, "[madvise]"},
    {THP, "always madvise [never]\n", "huge pages", ATTN_LEVEL_WARN, "[never]"},

    {"/none", NULL, "cpu pressure", ATTN_LEVEL_UNKNOWN, "not visible"},
    {PSI("cpu"), SAID("4.99"), "cpu pressure", ATTN_LEVEL_OK, "5.0 %"},
    {PSI("cpu"), SAID("5.00"), "cpu pressure", ATTN_LEVEL_WARN, "5.0 %"},
    {PSI("cpu"), SAID("61.30"), "cpu pressure", ATTN_LEVEL_FAIL, "61.3 %"},
    {PSI("cpu"), "nothing\n", "cpu pressure", ATTN_LEVEL_UNKNOWN, "not visible"},
    {PSI("memory"), SAID("0.00"), "memory pressure", ATTN_LEVEL_OK, "0.0 %"},
    {PSI("memory"), SAID("2.00"), "memory pressure", ATTN_LEVEL_WARN, "2.0 %"},
    {PSI("memory"), SAID("12.00"), "memory pressure", ATTN_LEVEL_FAIL, "12.0 %"},

    {"/none", NULL, "load", ATTN_LEVEL_UNKNOWN, "not visible"},
    {"/proc/loadavg", "1.20 9 9 1/2 3\n", "load", ATTN_LEVEL_OK, "1.20 runnable on 4"},
    {"/proc/loadavg", "1.30 9 9 1/2 3\n", "load", ATTN_LEVEL_WARN, "1.30"},
    {"/proc/loadavg", "4.00 9 9 1/2 3\n", "load", ATTN_LEVEL_FAIL, "4.00"},

    {"/none", NULL, "steal", ATTN_LEVEL_UNKNOWN, "not visible"},
    {"/proc/stat", "cpu  100 0 100 795 0 0 0 5 0 0\n", "steal", ATTN_LEVEL_OK, "0.5 % since"},
    {"/proc/stat", "cpu  100 0 100 780 0 0 0 20 0 0\n", "steal", ATTN_LEVEL_WARN, "2.0 % since"},
    {"/proc/stat", "cpu  100 0 100 600 0 0 0 200 0 0\n", "steal", ATTN_LEVEL_FAIL, "20.0 % since"},
    {"/proc/stat", "cpu  100 0\n", "steal", ATTN_LEVEL_UNKNOWN, "not visible"},

    {"/none", NULL, "timer", ATTN_LEVEL_UNKNOWN, "not visible"},
    {CLOCK, "tsc\n", "timer", ATTN_LEVEL_OK, "tsc"},
    {CLOCK, "hpet\n", "timer", ATTN_LEVEL_FAIL, "hpet"},

    {"/none", NULL, "counters", ATTN_LEVEL_UNKNOWN, "not visible"},
    {PARANOID, "2\n", "counters", ATTN_LEVEL_WARN, "no hardware counters"},
    {UNIT, "4\n", "counters", ATTN_LEVEL_OK, "perf_event_paranoid 2"},
    {PARANOID, "4\n", "counters", ATTN_LEVEL_WARN, "perf_event_paranoid 4"},
    {PARANOID, "-1\n", "counters", ATTN_LEVEL_OK, "perf_event_paranoid -1"},

    {"/none", NULL, "gpu clocks", ATTN_LEVEL_OK, "no driver"},
    {AMD_LEVEL, "auto\n", "gpu clocks", ATTN_LEVEL_WARN, "card1: auto"},
    {AMD_LEVEL, "profile_peak\n", "gpu clocks", ATTN_LEVEL_OK, "card1: profile_peak"},
    {NVIDIA, "NVRM version: 580\n", "gpu clocks", ATTN_LEVEL_UNKNOWN, "does not answer"},
    {SMI, "#!/bin/sh\necho 'H100, 1980, 1980, 0x0000000000000001, Enabled'\n", "gpu clocks",
     ATTN_LEVEL_OK, "H100 at 1980 of 1980 MHz"},
    {SMI, "#!/bin/sh\necho 'H100, 345, 1980, 0x0000000000000001, Disabled'\n", "gpu clocks",
     ATTN_LEVEL_WARN, "no persistence"},
    {SMI, "#!/bin/sh\necho 'H100, 1200, 1980, 0x0000000000000020, Enabled'\n", "gpu clocks",
     ATTN_LEVEL_WARN, "throttled"},
    {SMI, "#!/bin/sh\necho 'No devices were found'\n", "gpu clocks", ATTN_LEVEL_UNKNOWN,
     "not visible"},
};

static const struct attn_finding *line_of(const char *what, struct attn_finding *findings)
{
    const size_t n = attn_findings(root, findings);
    assert_in_range(n, 12, ATTN_FINDINGS_MAX - 1);
    for (size_t i = 0; i < n; i++)
        if (strcmp(findings[i].what, what) == 0)
            return &findings[i];
    return NULL;
}

static void lines(void **state)
{
    (void)state;
    struct attn_finding findings[ATTN_FINDINGS_MAX];
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        plant(rows[r].path, rows[r].content);
        if (strcmp(rows[r].path, SMI) == 0) {
            char full[128];
            snprintf(full, sizeof full, "%s" SMI, root);
            assert_int_equal(chmod(full, 0755), 0);
        }
        const struct attn_finding *line = line_of(rows[r].what, findings);
        if ((int)rows[r].level < 0) {
            assert_null(line);
            continue;
        }
        assert_non_null(line);
        if (line->level != rows[r].level || !strstr(line->text, rows[r].part))
            fail_msg("row %zu: %s %s: %s, expected %s: %s", r, attn_level_name(line->level),
                     line->what, line->text, attn_level_name(rows[r].level), rows[r].part);
        /* What is not OK comes with a hint. */
        for (size_t i = 0; findings[i].text[0] && i < 12; i++)
            assert_int_equal(*findings[i].hint == '\0', findings[i].level == ATTN_LEVEL_OK);
    }
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/attnbench-findings-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines, make_root, drop_root)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

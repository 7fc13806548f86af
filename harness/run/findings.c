/* SPDX-License-Identifier: Apache-2.0 */
/* findings.c - one function for each line of `attnbench doctor`. */
#include "run/findings.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run/kernel_files.h"
#include "run/machine.h"
#include "run/paths.h"

#define CPUS_MAX 1024

struct findings {
    const char *root;
    struct attn_finding *items;
    size_t count;
};

const char *attn_level_name(enum attn_level level)
{
    static const char *const names[] = {"OK", "WARN", "FAIL", "unknown"};
    return (unsigned)level < sizeof names / sizeof names[0] ? names[level] : "?";
}

/* The hint is dropped where all is well. */
__attribute__((format(printf, 5, 6))) static void find(struct findings *f, enum attn_level level,
                                                       const char *what, const char *hint,
                                                       const char *format, ...)
{
    if (f->count == ATTN_FINDINGS_MAX)
        return;
    struct attn_finding *item = &f->items[f->count++];
    item->level = level;
    snprintf(item->what, sizeof item->what, "%s", what);
    snprintf(item->hint, sizeof item->hint, "%s", level == ATTN_LEVEL_OK ? "" : hint);
    va_list args;
    va_start(args, format);
    vsnprintf(item->text, sizeof item->text, format, args);
    va_end(args);
}

/* The processors that are online, from a list like "0-3,6"; 0: not visible. */
static long processors(const struct findings *f)
{
    char text[256];
    long count = 0;
    attn_file_line(f->root, "/sys/devices/system/cpu/online", text, sizeof text);
    for (char *rest = text, *part; (part = strsep(&rest, ","));) {
        long first, last;
        const int n = sscanf(part, "%ld-%ld", &first, &last);
        count += n == 2 ? last - first + 1 : n == 1;
    }
    return count;
}

static void find_cpu(struct findings *f)
{
    char model[128], flags[8192], text[160] = "";
    size_t used = 0;
    attn_file_value(f->root, "/proc/cpuinfo", "model name", model, sizeof model);
    attn_file_value(f->root, "/proc/cpuinfo", "flags", flags, sizeof flags);
    if (*model)
        find(f, ATTN_LEVEL_OK, "cpu", "", "%s, %ld processors online", model, processors(f));
    else
        find(f, ATTN_LEVEL_UNKNOWN, "cpu", "/proc/cpuinfo names no model", "%ld processors online",
             processors(f));
    json_t *known = attn_cpu_flags(f->root);
    for (size_t i = 0; i < json_array_size(known) && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "",
                                 json_string_value(json_array_get(known, i)));
    json_decref(known);
    find(f,
         used     ? ATTN_LEVEL_OK
         : *flags ? ATTN_LEVEL_WARN
                  : ATTN_LEVEL_UNKNOWN,
         "isa", "kernels in intrinsics will refuse", "%s",
         used ? text : "no vector extension known here");
    if (strstr(flags, "hypervisor"))
        find(f, ATTN_LEVEL_WARN, "virtual",
             "compare with 'compare --live'; do not trust absolute times",
             "a virtual machine: other guests may take time unseen");
}

static void find_memory(struct findings *f)
{
    char total[64], available[64];
    attn_file_value(f->root, "/proc/meminfo", "MemTotal", total, sizeof total);
    attn_file_value(f->root, "/proc/meminfo", "MemAvailable", available, sizeof available);
    const double all = strtod(total, NULL) / 1048576, left = strtod(available, NULL) / 1048576;
    if (!*total || !*available)
        find(f, ATTN_LEVEL_UNKNOWN, "memory", "/proc/meminfo does not say", "not visible");
    else
        find(f, left < 1 ? ATTN_LEVEL_WARN : ATTN_LEVEL_OK, "memory",
             "large cases will be skipped; end what holds it", "%.1f GiB available of %.1f", left,
             all);
}

/* The governor of every processor that has one; the first that is not "performance" is named. */
static void find_governor(struct findings *f)
{
    char path[96], text[64], first[64] = "", driver[64];
    int seen = 0, others = 0;
    for (int c = 0; c < CPUS_MAX; c++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", c);
        attn_file_line(f->root, path, text, sizeof text);
        seen += *text != '\0';
        if (*text && strcmp(text, "performance") != 0 && others++ == 0)
            snprintf(first, sizeof first, "%s", text);
    }
    attn_file_line(f->root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", driver,
                   sizeof driver);
    /* The powersave of intel_pstate and amd_pstate_epp scales; that of others is the least clock.
     */
    const bool least = strcmp(first, "powersave") == 0 && !strstr(driver, "pstate");
    static const char hint[] = "set it on every processor: cpupower frequency-set -g performance";
    if (!seen)
        find(f, ATTN_LEVEL_UNKNOWN, "governor", "usual in a virtual machine: the host decides",
             "not visible: the clock may change between runs");
    else if (others)
        find(f, least ? ATTN_LEVEL_FAIL : ATTN_LEVEL_WARN, "governor", hint,
             "%s on %d of %d processors%s", first, others, seen, least ? ", the lowest clock" : "");
    else
        find(f, ATTN_LEVEL_OK, "governor", "", "performance");
}

static void find_turbo(struct findings *f)
{
    static const char no_turbo[] = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    static const char boost[] = "/sys/devices/system/cpu/cpufreq/boost";
    char off[16], on[16];
    attn_file_line(f->root, no_turbo, off, sizeof off);
    attn_file_line(f->root, boost, on, sizeof on);
    if (!*off && !*on)
        find(f, ATTN_LEVEL_UNKNOWN, "turbo", "usual in a virtual machine: the host decides",
             "not visible: the clock may follow heat and load");
    else if (!strcmp(off, "1") || (!*off && !strcmp(on, "0")))
        find(f, ATTN_LEVEL_OK, "turbo", "", "off");
    else
        find(f, ATTN_LEVEL_WARN, "turbo",
             *off ? "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
                  : "echo 0 > /sys/devices/system/cpu/cpufreq/boost",
             "on: the clock follows heat and load");
}

static void find_smt(struct findings *f)
{
    char active[16];
    attn_file_line(f->root, "/sys/devices/system/cpu/smt/active", active, sizeof active);
    if (!*active)
        find(f, ATTN_LEVEL_UNKNOWN, "smt", "two processors may be one core", "not visible");
    else if (!strcmp(active, "0"))
        find(f, ATTN_LEVEL_OK, "smt", "", "off");
    else
        find(f, ATTN_LEVEL_WARN, "smt", "echo off > /sys/devices/system/cpu/smt/control",
             "on: two threads may share a core");
}

static void find_throttling(struct findings *f)
{
    const int64_t events = attn_throttle_events(f->root);
    if (events < 0)
        find(f, ATTN_LEVEL_UNKNOWN, "throttling", "usual in a virtual machine and on AMD",
             "no counter of throttling is visible");
    else
        find(f, events ? ATTN_LEVEL_WARN : ATTN_LEVEL_OK, "throttling",
             "let it cool; compare refuses runs of which one was throttled",
             "%lld events of heat since boot", (long long)events);
}

static void find_huge_pages(struct findings *f)
{
    char text[128];
    attn_file_line(f->root, "/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text);
    if (!*text)
        find(f, ATTN_LEVEL_UNKNOWN, "huge pages", "times may depend on where pages lie",
             "not visible");
    else
        find(f, strstr(text, "[never]") ? ATTN_LEVEL_WARN : ATTN_LEVEL_OK, "huge pages",
             "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled", "%s", text);
}

/* avg10 of the line "some" of a file of /proc/pressure, in percent; negative: not visible. */
static double pressure(const struct findings *f, const char *of)
{
    char path[64], line[256];
    double percent;
    snprintf(path, sizeof path, "/proc/pressure/%s", of);
    attn_file_line(f->root, path, line, sizeof line);
    return sscanf(line, "some avg10=%lf", &percent) == 1 ? percent : -1;
}

static void find_pressure(struct findings *f)
{
    static const struct {
        const char *file, *what, *hint;
        double warn, fail;
    } kinds[] = {
        {"cpu", "cpu pressure", "end other work; 'compare --live' bears it better", 5, 25},
        {"memory", "memory pressure", "end what takes memory: pages are being reclaimed", 1, 10}};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const double percent = pressure(f, kinds[k].file);
        if (percent < 0)
            find(f, ATTN_LEVEL_UNKNOWN, kinds[k].what, "this kernel has no /proc/pressure",
                 "not visible");
        else
            find(f,
                 percent >= kinds[k].fail   ? ATTN_LEVEL_FAIL
                 : percent >= kinds[k].warn ? ATTN_LEVEL_WARN
                                            : ATTN_LEVEL_OK,
                 kinds[k].what, kinds[k].hint, "tasks waited in %.1f %% of the last 10 s", percent);
    }
}

static void find_load(struct findings *f)
{
    char line[128];
    double load;
    const long online = processors(f);
    attn_file_line(f->root, "/proc/loadavg", line, sizeof line);
    if (sscanf(line, "%lf", &load) != 1 || online == 0)
        find(f, ATTN_LEVEL_UNKNOWN, "load", "/proc/loadavg does not say", "not visible");
    else
        find(f,
             load >= (double)online        ? ATTN_LEVEL_FAIL
             : load > 0.3 * (double)online ? ATTN_LEVEL_WARN
                                           : ATTN_LEVEL_OK,
             "load", "other work disturbs timings; wait until it has ended",
             "%.2f runnable on %ld processors in the last minute", load, online);
}

/* Ticks of the line "cpu" of /proc/stat: all (guest time is part of user), and stolen. */
static bool ticks(const struct findings *f, double *all, double *stolen)
{
    char line[512];
    double t[8];
    attn_file_line(f->root, "/proc/stat", line, sizeof line);
    if (sscanf(line, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4],
               &t[5], &t[6], &t[7]) != 8)
        return false;
    *all = 0;
    for (int i = 0; i < 8; i++)
        *all += t[i];
    *stolen = t[7];
    return true;
}

/* A third of a second tells of now. Where no tick has passed in it, only the time since boot
 * counts. */
static void find_steal(struct findings *f)
{
    double all[2], stolen[2];
    if (!ticks(f, &all[0], &stolen[0]) || !(all[0] > 0)) {
        find(f, ATTN_LEVEL_UNKNOWN, "steal", "/proc/stat does not say", "not visible");
        return;
    }
    if (!*f->root) /* planted files stay as they are */
        nanosleep(&(struct timespec){0, 333000000}, NULL);
    if (!ticks(f, &all[1], &stolen[1]))
        return;
    const double boot = 100 * stolen[1] / all[1];
    const double now = all[1] > all[0] ? 100 * (stolen[1] - stolen[0]) / (all[1] - all[0]) : boot;
    const double most = now > boot ? now : boot;
    find(f,
         most >= 10  ? ATTN_LEVEL_FAIL
         : most >= 1 ? ATTN_LEVEL_WARN
                     : ATTN_LEVEL_OK,
         "steal", "other guests take processor time: 'compare --live' leaves it out",
         "%.1f %% of the time now, %.1f %% since boot", now, boot);
}

static void find_timer(struct findings *f)
{
    static const char *const good[] = {"tsc", "kvm-clock", "arch_sys_counter",
                                       "hyperv_clocksource_tsc_page", "timebase"};
    char text[64];
    attn_file_line(f->root, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                   text, sizeof text);
    for (size_t g = 0; g < sizeof good / sizeof good[0]; g++)
        if (strcmp(text, good[g]) == 0) {
            find(f, ATTN_LEVEL_OK, "timer", "", "%s", text);
            return;
        }
    if (*text)
        find(f, ATTN_LEVEL_FAIL, "timer",
             "the processor's counter was found unfit: see dmesg for 'clocksource'",
             "%s: reading the clock takes a system call or longer", text);
    else
        find(f, ATTN_LEVEL_UNKNOWN, "timer", "the cost of reading the clock is not known",
             "not visible");
}

static void find_counters(struct findings *f)
{
    static const char *const units[] = {"cpu", "cpu_core", "armv8_pmuv3_0"};
    char text[32], path[96];
    bool unit = false;
    attn_file_line(f->root, "/proc/sys/kernel/perf_event_paranoid", text, sizeof text);
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        char type[16];
        snprintf(path, sizeof path, "/sys/bus/event_source/devices/%s/type", units[u]);
        attn_file_line(f->root, path, type, sizeof type);
        unit = unit || *type;
    }
    const long paranoid = strtol(text, NULL, 10);
    if (!*text)
        find(f, ATTN_LEVEL_UNKNOWN, "counters", "a kernel without perf events",
             "perf_event_paranoid is not visible");
    else if (!unit)
        find(f, ATTN_LEVEL_WARN, "counters",
             "usual in a virtual machine; valgrind counts without them",
             "perf_event_paranoid %ld, but no hardware counters", paranoid);
    else
        find(f, paranoid > 2 ? ATTN_LEVEL_WARN : ATTN_LEVEL_OK, "counters",
             "sysctl kernel.perf_event_paranoid=2", "perf_event_paranoid %ld", paranoid);
}

/* One GPU, as nvidia-smi writes it: name, clock now, highest clock, what throttles as a bit mask,
 * persistence mode. Bits 1 and 2: idle, and a clock that was set by the user. */
static void find_nvidia_gpu(struct findings *f, char *line)
{
    char *field[5] = {0};
    line[strcspn(line, "\n")] = '\0';
    for (int n = 0; n < 5 && line; n++) {
        field[n] = strsep(&line, ",");
        field[n] += strspn(field[n], " ");
    }
    if (!field[4]) {
        find(f, ATTN_LEVEL_UNKNOWN, "gpu clocks", "run nvidia-smi by hand", "not visible");
        return;
    }
    const unsigned long throttled = strtoul(field[3], NULL, 16) & ~3ul;
    const bool persists = strcmp(field[4], "Enabled") == 0;
    static const char *const hints[] = {"nvidia-smi -pm 1, and -lgc to lock the clock",
                                        "lock the clock: nvidia-smi -lgc MHZ",
                                        "let it cool, or lower the clock: nvidia-smi -lgc MHZ"};
    find(f, throttled || !persists ? ATTN_LEVEL_WARN : ATTN_LEVEL_OK, "gpu clocks",
         hints[throttled ? 2 : persists], "%s at %s of %s MHz%s%s", field[0], field[1], field[2],
         throttled ? ", throttled" : "", persists ? "" : ", no persistence mode");
}

static bool find_nvidia(struct findings *f)
{
    char path[ATTN_PATH_MAX], command[2 * ATTN_PATH_MAX], line[512];
    attn_file_line(f->root, "/proc/driver/nvidia/version", line, sizeof line);
    if (!*line)
        return false;
    snprintf(path, sizeof path, "%s/usr/bin/nvidia-smi", f->root);
    snprintf(command, sizeof command,
             "timeout 10 '%s' --query-gpu=name,clocks.sm,clocks.max.sm,"
             "clocks_throttle_reasons.active,persistence_mode --format=csv,noheader,nounits "
             "2>/dev/null",
             path);
    FILE *asked = strchr(path, '\'') ? NULL : popen(command, "r");
    int gpus = 0;
    while (asked && gpus < 4 && fgets(line, sizeof line, asked)) {
        find_nvidia_gpu(f, line);
        gpus++;
    }
    if (asked)
        pclose(asked);
    if (!gpus)
        find(f, ATTN_LEVEL_UNKNOWN, "gpu clocks", "run nvidia-smi by hand",
             "a driver, but nvidia-smi does not answer");
    return true;
}

static bool find_amd_gpu(struct findings *f)
{
    for (int card = 0; card < 16; card++) {
        char path[128], text[64];
        snprintf(path, sizeof path,
                 "/sys/class/drm/card%d/device/power_dpm_force_performance_level", card);
        attn_file_line(f->root, path, text, sizeof text);
        if (!*text)
            continue;
        find(f, strcmp(text, "auto") == 0 ? ATTN_LEVEL_WARN : ATTN_LEVEL_OK, "gpu clocks",
             "write profile_peak into power_dpm_force_performance_level", "card%d: %s", card, text);
        return true;
    }
    return false;
}

size_t attn_findings(const char *root, struct attn_finding findings[ATTN_FINDINGS_MAX])
{
    static void (*const lines[])(struct findings *) = {
        find_cpu,        find_memory,   find_governor, find_turbo, find_smt,   find_throttling,
        find_huge_pages, find_pressure, find_load,     find_steal, find_timer, find_counters};
    struct findings f = {root, findings, 0};
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++)
        lines[l](&f);
    if (!find_nvidia(&f) && !find_amd_gpu(&f))
        find(&f, ATTN_LEVEL_OK, "gpu clocks", "", "no driver of a GPU is loaded");
    return f.count;
}

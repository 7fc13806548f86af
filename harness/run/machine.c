/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - reads the kernel's files about the machine; measures nothing. */
#include "run/machine.h"

#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "host/isolate.h"
#include "run/entry.h"
#include "run/version.h"

/* Content of a small text file without the trailing newline; "" if it cannot be read. */
static void read_line(const char *path, char *text, size_t size)
{
    text[0] = '\0';
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    if (!fgets(text, (int)size, file))
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

/* Value of "key : value" in a file like /proc/cpuinfo or /proc/meminfo. */
static void value_in(const char *path, const char *key, char *text, size_t size)
{
    text[0] = '\0';
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    char line[8192];
    size_t n = strlen(key);
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, n) != 0 || !colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(text, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    fclose(file);
}

static uint64_t memory_line(const char *key)
{
    char text[64];
    value_in("/proc/meminfo", key, text, sizeof text);
    return strtoull(text, NULL, 10) * 1024;
}

uint64_t attn_memory_available(void)
{
    return memory_line("MemAvailable");
}

static json_t *cache_json(int index)
{
    char path[96], text[32];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    read_line(path, text, sizeof text);
    return json_string(text);
}

/* The CPU's flags that name vector extensions. The others do not matter for attention. */
static json_t *flags_json(void)
{
    static const char *const wanted[] = {"sse4_2",      "avx",         "avx2",        "fma",
                                         "f16c",        "avx512f",     "avx512bw",    "avx512vl",
                                         "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_tile",
                                         "amx_bf16",    "amx_fp16"};
    char flags[8192];
    value_in("/proc/cpuinfo", "flags", flags, sizeof flags);
    json_t *list = json_array();
    char *rest = flags;
    for (char *word; (word = strsep(&rest, " "));)
        for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++)
            if (!strcmp(word, wanted[w]))
                json_array_append_new(list, json_string(word));
    return list;
}

static json_t *cpu_json(void)
{
    char model[256];
    value_in("/proc/cpuinfo", "model name", model, sizeof model);
    return json_pack("{s:s, s:i, s:i, s:o, s:o, s:o, s:o}", "model", model, "cores",
                     (int)sysconf(_SC_NPROCESSORS_CONF), "online",
                     (int)sysconf(_SC_NPROCESSORS_ONLN), "l1d", cache_json(0), "l2", cache_json(2),
                     "l3", cache_json(3), "flags", flags_json());
}

static json_t *affinity_json(void)
{
    cpu_set_t set;
    json_t *list = json_array();
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int c = 0; c < CPU_SETSIZE; c++)
            if (CPU_ISSET((size_t)c, &set))
                json_array_append_new(list, json_integer(c));
    return list;
}

static json_t *backends_json(const struct attn_roster *roster)
{
    json_t *list = json_array();
    for (size_t b = 0; b < roster->count; b++) {
        const struct attn_contestant *c = &roster->items[b];
        const char *slash = strrchr(c->plugin, '/');
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s, s:b}", "name", c->info.name,
                            "plugin", slash ? slash + 1 : c->plugin, "version", c->info.version,
                            "description", c->info.description, "options", c->options, "exactness",
                            attn_exactness_name(c->info.exactness), "available", c->info.available,
                            "reason", c->info.reason, "device", c->info.device == 1));
    }
    return list;
}

/* The first fields name the widest rung, AVX2 and memory once more. */
static json_t *ceilings_json(const struct attn_ceilings *c, json_t *gemm)
{
    if (c->n_rungs == 0 || c->n_reads == 0)
        return json_null();
    const struct attn_rung *widest = c->rungs; /* matrix tiles aside */
    double avx2 = 0;
    json_t *rungs = json_array(), *reads = json_array();
    for (uint32_t r = 0; r < c->n_rungs; r++) {
        const struct attn_rung *rung = &c->rungs[r];
        json_array_append_new(rungs, json_pack("{s:s, s:f, s:f, s:f, s:f}", "isa", rung->isa, "f32",
                                               rung->f32, "f64", rung->f64, "f16", rung->f16,
                                               "bf16", rung->bf16));
        widest = rung->f32 > 0 ? rung : widest;
        avx2 = strcmp(rung->isa, "avx2") == 0 ? rung->f32 : avx2;
    }
    for (uint32_t r = 0; r < c->n_reads; r++) {
        char level[16] = "memory";
        if (c->reads[r].bytes > 0)
            snprintf(level, sizeof level, "L%u", r + 1);
        json_array_append_new(reads,
                              json_pack("{s:s, s:I, s:f}", "level", level, "bytes",
                                        (json_int_t)c->reads[r].bytes, "gbs", c->reads[r].gbs));
    }
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:o, s:o, s:O?}", "isa", widest->isa,
                     "fma_gflops_f32", widest->f32, "fma_gflops_f64", widest->f64,
                     "avx2_gflops_f32", avx2, "read_gbs", c->reads[c->n_reads - 1].gbs, "rungs",
                     rungs, "reads", reads, "gemm", gemm);
}

json_t *attn_machine_json(const struct attn_session *session, const struct attn_roof *roof,
                          double harness_ns)
{
    const struct attn_settings *s = &session->settings;
    struct utsname kernel = {0};
    uname(&kernel);
    char date[32], governor[64], thp[128];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor, sizeof governor);
    read_line("/sys/kernel/mm/transparent_hugepage/enabled", thp, sizeof thp);
    return json_pack(
        "{s:{s:s, s:s, s:s}, s:s, s:o, s:I, s:s, s:s, s:i, s:o, s:s, s:s,"
        " s:{s:i, s:i, s:f, s:s, s:f}, s:o, s:o, s:o, s:s}",
        "attnbench", "version", ATTNBENCH_VERSION, "commit", ATTNBENCH_COMMIT, "build",
        ATTNBENCH_BUILD, "date", date, "cpu", cpu_json(), "memory_bytes",
        (json_int_t)memory_line("MemTotal"), "kernel", kernel.release, "compiler",
        ATTNBENCH_COMPILER, "threads", s->threads, "affinity", affinity_json(), "governor",
        governor, "thp", thp, "protocol", "rounds", s->rounds, "samples", s->samples, "min_time_s",
        s->min_time_s, "order", "random in each round", "budget_s", s->budget_s, "ceilings",
        ceilings_json(&roof->ceilings, roof->gemm), "backends", backends_json(&session->roster),
        "harness_ns", harness_ns > 0 ? json_real(harness_ns) : json_null(), "isolation",
        attn_isolate_level());
}

__attribute__((format(printf, 5, 6))) static void
find(struct attn_finding *findings, size_t *n, int grave, const char *what, const char *format, ...)
{
    if (*n == ATTN_FINDINGS_MAX)
        return;
    struct attn_finding *f = &findings[(*n)++];
    f->grave = grave;
    snprintf(f->what, sizeof f->what, "%s", what);
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
}

static void find_frequency(struct attn_finding *findings, size_t *n)
{
    char text[128];
    read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text, sizeof text);
    if (!*text)
        find(findings, n, 1, "governor", "not visible: frequency may change between runs");
    else
        find(findings, n, strcmp(text, "performance") ? 2 : 0, "governor", "%s%s", text,
             strcmp(text, "performance") ? "; 'performance' keeps the clock steady" : "");
    read_line("/sys/devices/system/cpu/smt/active", text, sizeof text);
    if (*text)
        find(findings, n, !strcmp(text, "1"), "smt", "%s",
             !strcmp(text, "1") ? "on: two threads may share a core" : "off");
}

static void find_load(struct attn_finding *findings, size_t *n)
{
    double load[1] = {0};
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(load, 1) == 1)
        find(findings, n, load[0] > 0.3 * (double)online ? 2 : 0, "load",
             "%.2f runnable on %ld processors%s", load[0], online,
             load[0] > 0.3 * (double)online ? "; other work will disturb timings" : "");
    char flags[8192];
    value_in("/proc/cpuinfo", "flags", flags, sizeof flags);
    if (strstr(flags, "hypervisor"))
        find(findings, n, 1, "virtual", "a virtual machine: other guests may take time unseen");
}

size_t attn_machine_findings(struct attn_finding findings[ATTN_FINDINGS_MAX])
{
    size_t n = 0;
    char text[256];
    value_in("/proc/cpuinfo", "model name", text, sizeof text);
    find(findings, &n, 0, "cpu", "%s, %ld processors online", text, sysconf(_SC_NPROCESSORS_ONLN));
    json_t *flags = flags_json();
    size_t used = 0;
    for (size_t f = 0; f < json_array_size(flags) && used < sizeof text; f++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", f ? " " : "",
                                 json_string_value(json_array_get(flags, f)));
    json_decref(flags);
    find(findings, &n, 0, "isa", "%s", used ? text : "no vector extension known here");
    find(findings, &n, 0, "memory", "%.1f GiB available of %.1f",
         (double)attn_memory_available() / 1073741824.0,
         (double)memory_line("MemTotal") / 1073741824.0);
    find_frequency(findings, &n);
    read_line("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text);
    find(findings, &n, strstr(text, "[never]") != NULL, "huge pages", "%s", text);
    find_load(findings, &n);
    read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", text,
              sizeof text);
    find(findings, &n, strcmp(text, "tsc") != 0 && strcmp(text, "kvm-clock") != 0, "clock", "%s",
         text);
    return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - reads the kernel's files about the machine; measures nothing. */
#include "run/machine.h"

#include <gnu/libc-version.h>
#include <sched.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "host/confine.h"
#include "run/entry.h"
#include "run/kernel_files.h"
#include "run/version.h"

static uint64_t memory_bytes(void)
{
    char text[64];
    struct sysinfo info;
    attn_file_value("", "/proc/meminfo", "MemTotal", text, sizeof text);
    if (*text)
        return strtoull(text, NULL, 10) * 1024;
    return sysinfo(&info) == 0 ? info.totalram * info.mem_unit : 0;
}

static json_t *cache_json(int index)
{
    char path[96], text[32];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    attn_file_line("", path, text, sizeof text);
    return json_string(text);
}

/* The CPU's flags that name vector extensions. The others do not matter for attention. */
json_t *attn_cpu_flags(const char *root)
{
    static const char *const wanted[] = {"sse4_2",      "avx",         "avx2",        "fma",
                                         "f16c",        "avx512f",     "avx512bw",    "avx512vl",
                                         "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_tile",
                                         "amx_bf16",    "amx_fp16"};
    char flags[8192];
    attn_file_value(root, "/proc/cpuinfo", "flags", flags, sizeof flags);
    json_t *list = json_array();
    char *rest = flags;
    for (char *word; (word = strsep(&rest, " "));)
        for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++)
            if (!strcmp(word, wanted[w]))
                json_array_append_new(list, json_string(word));
    return list;
}

static json_t *cpuinfo_json(const char *key)
{
    char text[256];
    attn_file_value("", "/proc/cpuinfo", key, text, sizeof text);
    return json_string(text);
}

static json_t *cpu_json(void)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:o}", "model",
                     cpuinfo_json("model name"), "vendor", cpuinfo_json("vendor_id"), "family",
                     cpuinfo_json("cpu family"), "number", cpuinfo_json("model"), "stepping",
                     cpuinfo_json("stepping"), "microcode", cpuinfo_json("microcode"), "cores",
                     (int)sysconf(_SC_NPROCESSORS_CONF), "online",
                     (int)sysconf(_SC_NPROCESSORS_ONLN), "l1d", cache_json(0), "l2", cache_json(2),
                     "l3", cache_json(3), "flags", attn_cpu_flags(""));
}

int64_t attn_throttle_events(const char *root)
{
    int64_t events = -1;
    for (int c = 0; c < CPU_SETSIZE; c++) {
        char path[96], text[32];
        snprintf(path, sizeof path,
                 "/sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count", c);
        attn_file_line(root, path, text, sizeof text);
        if (*text)
            events = (events < 0 ? 0 : events) + strtoll(text, NULL, 10);
    }
    return events;
}

/* How often the processors were throttled since the first call, which begins the run. */
static json_t *throttled_json(void)
{
    static int64_t before = -1;
    const int64_t now = attn_throttle_events("");
    if (before < 0)
        before = now;
    return now < 0 ? json_null() : json_integer(now - before);
}

static json_t *load_json(void)
{
    double load;
    return getloadavg(&load, 1) == 1 ? json_real(load) : json_null();
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
        char hash[SHA256_DIGEST_STRING_LENGTH] = "", source[SHA256_DIGEST_STRING_LENGTH] = "";
        if (c->missing || !SHA256File(c->plugin, hash))
            hash[0] = '\0';
        if (!*c->source || !SHA256File(c->source, source))
            source[0] = '\0';
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:s, s:s, s:s*, s:s, s:s, s:s, s:s, s:b, s:s, s:b, s:b, s:b}",
                      "name", c->info.name, "offered", c->offered, "plugin",
                      slash ? slash + 1 : c->plugin, "plugin_sha256", hash, "source_sha256",
                      *source ? source : NULL, "version", c->info.version, "description",
                      c->info.description, "options", c->options, "exactness",
                      attn_exactness_name(c->info.exactness), "available", c->info.available,
                      "reason", c->info.reason, "device", c->info.device == 1, "asked", c->asked,
                      "named", c->named));
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
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:O?}", "isa", widest->isa,
                     "clock_ghz", c->clock_ghz, "fma_gflops_f32", widest->f32, "fma_gflops_f64",
                     widest->f64, "avx2_gflops_f32", avx2, "read_gbs", c->reads[c->n_reads - 1].gbs,
                     "rungs", rungs, "reads", reads, "gemm", gemm);
}

/* null: all cases. */
static json_t *shard_json(const struct attn_shard *shard)
{
    return shard->count == 0 ? json_null()
                             : json_pack("{s:i, s:i, s:s}", "index", shard->index, "count",
                                         shard->count, "from", shard->from);
}

enum { DATE_MAX = 32 };

static void date_text(time_t at, char text[DATE_MAX])
{
    struct tm utc;
    gmtime_r(&at, &utc);
    strftime(text, DATE_MAX, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

json_t *attn_machine_json(const struct attn_session *session, const struct attn_roof *roof,
                          double harness_ns)
{
    const struct attn_settings *s = &session->settings;
    struct utsname kernel = {0};
    uname(&kernel);
    char date[DATE_MAX], built[DATE_MAX] = "", governor[64], thp[128], confinement[512];
    attn_confine_describe(attn_confine_level(), confinement, sizeof confinement);
    struct stat program;
    date_text(time(NULL), date);
    /* In the program itself a date would make every build another one. */
    if (stat("/proc/self/exe", &program) == 0)
        date_text(program.st_mtime, built);
    attn_file_line("", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor,
                   sizeof governor);
    attn_file_line("", "/sys/kernel/mm/transparent_hugepage/enabled", thp, sizeof thp);
    return json_pack(
        "{s:{s:s, s:s, s:s, s:s, s:s}, s:s, s:o, s:I, s:s, s:s, s:i, s:o, s:s, s:s,"
        " s:{s:i, s:i, s:f, s:s, s:f}, s:o, s:o, s:o, s:s, s:s, s:s, s:i, s:o, s:o, s:{s:I, s:s},"
        " s:s, s:o}",
        "attnbench", "version", ATTNBENCH_VERSION, "commit", ATTNBENCH_COMMIT, "commit_date",
        ATTNBENCH_COMMIT_DATE, "build", ATTNBENCH_BUILD, "built", built, "date", date, "cpu",
        cpu_json(), "memory_bytes", (json_int_t)memory_bytes(), "kernel", kernel.release,
        "compiler", ATTNBENCH_COMPILER, "threads", s->threads, "affinity", affinity_json(),
        "governor", governor, "thp", thp, "protocol", "rounds", s->rounds, "samples", s->samples,
        "min_time_s", s->min_time_s, "order", "random in each round", "budget_s", s->budget_s,
        "ceilings", ceilings_json(&roof->ceilings, roof->gemm), "backends",
        backends_json(&session->roster), "harness_ns",
        harness_ns > 0 ? json_real(harness_ns) : json_null(), "isolation", attn_isolate_level(),
        "compiler_flags", ATTNBENCH_FLAGS, "libc", gnu_get_libc_version(), "page_bytes",
        (int)sysconf(_SC_PAGESIZE), "throttled", throttled_json(), "shard",
        shard_json(&session->shard), "selection", "cases", (json_int_t)session->selection.cases,
        "sha256", session->selection.sha256, "confinement", confinement, "load", load_json());
}

int attn_machine_write(const struct attn_session *session, const struct attn_roof *roof,
                       double harness_ns, char *why, size_t size)
{
    return attn_session_write(session, attn_machine_json(session, roof, harness_ns), "machine.json",
                              JSON_INDENT(2) | JSON_REAL_PRECISION(9), why, size);
}

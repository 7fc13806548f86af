/* SPDX-License-Identifier: Apache-2.0 */
/* ceilings.c - what this machine can do at most: multiply-adds in registers, bytes read from each
 * cache and from memory, all on all of the worker's processors at once. */
#include <stdbool.h>
#include <stdio.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "worker/caches.h"
#include "worker/clocks.h"
#include "worker/fma.h"
#include "worker/memory.h"
#include "worker/serve.h"
#include "worker/team.h"

/* Best of many short ones: a ceiling is what is reached when nothing interferes, and a trial that
 * fits between two interruptions shows it on a busy machine too. */
#define TRIALS  25
#define TRIAL_S 0.002

#define READ_BYTES_MAX ((size_t)1 << 30)
/* What each processor reads of a buffer: a multiple of this. */
#define READ_GRAIN ((size_t)4096)
/* What a trial reads, at least, of a part that is larger. */
#define SPAN_LEAST ((size_t)1 << 20)

/* One trial on all processors; each notes when it began and ended. */
struct trial {
    double (*fma)(int64_t rounds);
    uint64_t (*read)(const void *from, size_t bytes);
    int64_t rounds;
    const unsigned char *buffer;
    size_t part; /* bytes for each processor */
    size_t at;   /* where in its part each begins */
    size_t span; /* bytes read in a round, from there on */
    double begin[ATTN_PROCESSORS_MAX], end[ATTN_PROCESSORS_MAX];
    double work[ATTN_PROCESSORS_MAX];
};

static void fma_body(void *context, uint32_t i)
{
    struct trial *trial = context;
    trial->begin[i] = attn_clock_wall();
    trial->work[i] = trial->fma(trial->rounds);
    trial->end[i] = attn_clock_wall();
}

static void read_body(void *context, uint32_t i)
{
    struct trial *trial = context;
    const unsigned char *from = trial->buffer + i * trial->part + trial->at;
    trial->begin[i] = attn_clock_wall();
    for (int64_t r = 0; r < trial->rounds; r++) {
        const uint64_t sum = trial->read(from, trial->span);
        __asm__ volatile("" : : "r"(sum));
    }
    trial->end[i] = attn_clock_wall();
    trial->work[i] = (double)trial->span * (double)trial->rounds;
}

/* Work of all processors over the time from the first that began to the last that ended; 0 where
 * the threads could not be had. */
static double trial_rate(const struct attn_setup *setup, struct trial *trial,
                         void (*body)(void *context, uint32_t i))
{
    const uint32_t n = setup->n_processors;
    if (attn_team_run(n, setup->processors, body, trial) != 0)
        return 0;
    double begin = trial->begin[0], end = trial->end[0], work = 0;
    for (uint32_t i = 0; i < n; i++) {
        begin = trial->begin[i] < begin ? trial->begin[i] : begin;
        end = trial->end[i] > end ? trial->end[i] : end;
        work += trial->work[i];
    }
    return end > begin ? work / (end - begin) : 0;
}

static double best_rate(const struct attn_setup *setup, struct trial *trial,
                        void (*body)(void *context, uint32_t i))
{
    double best = 0;
    for (int t = 0; t < TRIALS; t++) {
        const double rate = trial_rate(setup, trial, body);
        best = rate > best ? rate : best;
        trial->at += trial->span; /* what comes next has not been read for longest */
        if (trial->at + trial->span > trial->part)
            trial->at = 0;
    }
    return best;
}

/* GFLOP/s of one loop; 0 for NULL. Rounds are doubled until one processor needs the time of a
 * trial. */
static double fma_rate(const struct attn_setup *setup, double (*fma)(int64_t rounds))
{
    static struct trial trial;
    if (!fma)
        return 0;
    trial.fma = fma;
    for (trial.rounds = 1024; trial.rounds < INT64_C(1) << 40; trial.rounds *= 2) {
        const double start = attn_clock_wall();
        fma(trial.rounds);
        if (attn_clock_wall() - start >= TRIAL_S)
            break;
    }
    return 1e-9 * best_rate(setup, &trial, fma_body);
}

/* Additions that wait for each other, one a cycle: what runs on the other thread of a core takes
 * half of the multiply-adds, but little of these. (Constants are added at no cost by some.) */
static double clock_ghz(void)
{
    double best = 0;
#if defined(__x86_64__) || defined(__aarch64__)
    enum { ADDITIONS = 8, ROUNDS = 20000 };
    uint64_t sum = 0, one = 1;
    for (int t = 0; t < 4 * TRIALS; t++) {
        const double start = attn_clock_wall();
        for (int r = 0; r < ROUNDS; r++)
#if defined(__x86_64__)
            __asm__ volatile("add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\t"
                             "add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0"
                             : "+r"(sum)
                             : "r"(one)
                             : "cc");
#else
            __asm__ volatile("add %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1\n\t"
                             "add %0, %0, %1\n\tadd %0, %0, %1\n\tadd %0, %0, %1\n\t"
                             "add %0, %0, %1\n\tadd %0, %0, %1"
                             : "+r"(sum)
                             : "r"(one));
#endif
        const double s = attn_clock_wall() - start;
        const double ghz = s > 0 ? 1e-9 * ADDITIONS * ROUNDS / s : 0;
        best = ghz > best ? ghz : best;
    }
#endif
    return best;
}

/* GB/s of reads of `part` bytes a processor; 0 where they could not be had. A trial reads all of
 * it, again and again, or a span of it, from where the last one ended. (With a last level of 480
 * MiB a trial of everything took 50 ms, and no trial of a busy machine was undisturbed.) */
static double read_rate(const struct attn_setup *setup,
                        uint64_t (*read)(const void *from, size_t bytes), size_t part)
{
    static struct trial trial;
    void *mapped;
    size_t mapped_bytes;
    const size_t bytes = part * setup->n_processors;
    unsigned char *buffer = attn_memory_map(bytes, &mapped, &mapped_bytes);
    if (!buffer)
        return 0;
    /* Untouched pages would all be the one zero page. */
    for (size_t at = 0; at < bytes; at += 64)
        buffer[at] = 1;
    trial = (struct trial){.read = read,
                           .buffer = buffer,
                           .part = part,
                           .span = part < SPAN_LEAST ? part : SPAN_LEAST,
                           .rounds = 1};
    while (trial.rounds < INT64_C(1) << 40) {
        read_body(&trial, 0);
        if (trial.end[0] - trial.begin[0] >= TRIAL_S)
            break;
        if (trial.span < part)
            trial.span = 2 * trial.span < part ? 2 * trial.span : part;
        else
            trial.rounds *= 2;
    }
    const double rate = 1e-9 * best_rate(setup, &trial, read_body);
    attn_memory_unmap(mapped, mapped_bytes);
    return rate;
}

/* The loops of a rung. */
struct rung {
    const char *isa;
    double (*f32)(int64_t rounds), (*f64)(int64_t rounds), (*f16)(int64_t rounds),
        (*bf16)(int64_t rounds);
    uint64_t (*read)(const void *from, size_t bytes);
};

#if defined(__x86_64__)
/* Bits of CPUID leaf 7, register D, that not every compiler's __builtin_cpu_supports knows. */
enum { AMX_BF16 = 1 << 22, AVX512_FP16 = 1 << 23, AMX_TILE = 1 << 24 };

static bool has_bits(unsigned bits)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bits) == bits;
}
#endif

/* The rungs that this machine has and that code is written for, widest last. */
static size_t find_rungs(struct rung rungs[ATTN_RUNGS_MAX])
{
    size_t n = 0;
#if defined(__x86_64__)
    const char *base = "sse2";
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        rungs[n++] = (struct rung){.isa = "avx2",
                                   .f32 = attn_fma_f32_avx2,
                                   .f64 = attn_fma_f64_avx2,
                                   .read = attn_read_avx2};
    if (__builtin_cpu_supports("avx512f"))
        rungs[n++] = (struct rung){
            .isa = "avx512",
            .f32 = attn_fma_f32_avx512,
            .f64 = attn_fma_f64_avx512,
            .f16 = has_bits(AVX512_FP16) ? attn_fma_f16_avx512 : NULL,
            .bf16 = __builtin_cpu_supports("avx512bf16") ? attn_fma_bf16_avx512 : NULL,
            .read = attn_read_avx512};
#else
    const char *base = "base";
#endif
    if (n == 0)
        rungs[n++] = (struct rung){.isa = base,
                                   .f32 = attn_fma_f32_base,
                                   .f64 = attn_fma_f64_base,
                                   .read = attn_read_base};
    return n;
}

/* A rung, after those that find_rungs found, for the matrix tiles. Their registers are 8 KiB, which
 * Linux saves only for a process that has asked; threads started later may use them as well. */
static void measure_tiles(const struct attn_setup *setup, struct attn_ceilings *ceilings)
{
#if defined(__x86_64__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 }; /* asm/prctl.h of Linux 5.16 */
    if (!has_bits(AMX_TILE | AMX_BF16) ||
        syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) != 0)
        return;
    ceilings->rungs[ceilings->n_rungs++] =
        (struct attn_rung){.isa = "amx", .bf16 = fma_rate(setup, attn_fma_bf16_amx)};
#else
    (void)setup, (void)ceilings;
#endif
}

/* Reads half of each cache, so that nothing is evicted; then memory. Each processor reads half of
 * its own levels. The last level is shared, so each reads its part of that half. */
static void measure_reads(const struct attn_setup *setup, const struct rung *rung,
                          struct attn_ceilings *ceilings)
{
    size_t caches[ATTN_CACHES_MAX];
    const size_t n = attn_caches(caches), processors = setup->n_processors;
    for (size_t level = 0; level <= n; level++) {
        const bool memory = level == n, shared = level + 1 >= n;
        size_t bytes = memory ? 4 * attn_last_cache_bytes() : caches[level] / 2;
        bytes = bytes > READ_BYTES_MAX ? READ_BYTES_MAX : bytes;
        const size_t part = (shared ? bytes / processors : bytes) / READ_GRAIN * READ_GRAIN;
        if (part == 0)
            continue;
        ceilings->reads[ceilings->n_reads++] = (struct attn_read){
            .bytes = memory   ? 0
                     : shared ? caches[level]
                              : caches[level] * processors,
            .gbs = read_rate(setup, rung->read, part),
        };
    }
}

void attn_serve_ceilings(struct attn_setup *setup, struct attn_message_reply *reply)
{
    struct attn_ceilings *ceilings = &reply->ceilings;
    struct rung rungs[ATTN_RUNGS_MAX];
    const size_t n = find_rungs(rungs);
    for (size_t r = 0; r < n; r++) {
        struct attn_rung *rung = &ceilings->rungs[ceilings->n_rungs++];
        snprintf(rung->isa, sizeof(rung->isa), "%s", rungs[r].isa);
        rung->f32 = fma_rate(setup, rungs[r].f32);
        rung->f64 = fma_rate(setup, rungs[r].f64);
        rung->f16 = fma_rate(setup, rungs[r].f16);
        rung->bf16 = fma_rate(setup, rungs[r].bf16);
    }
    measure_tiles(setup, ceilings);
    ceilings->clock_ghz = setup->n_processors * clock_ghz();
    measure_reads(setup, &rungs[n - 1], ceilings);
    if (!(ceilings->rungs[n - 1].f32 > 0) || !(ceilings->reads[ceilings->n_reads - 1].gbs > 0))
        attn_reply_set(reply, ATTN_ERROR,
                       "the system refused threads or memory for the measurement");
}

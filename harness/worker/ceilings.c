/* SPDX-License-Identifier: Apache-2.0 */
/* ceilings.c - what this machine can do at most: multiply-adds in registers, bytes read from
 * memory, both on all of the worker's processors at once. */
#include <stdio.h>
#include <time.h>

#include "worker/fma.h"
#include "worker/memory.h"
#include "worker/serve.h"
#include "worker/team.h"

/* Best of many short ones: a ceiling is what is reached when nothing interferes, and a trial that
 * fits between two interruptions shows it on a busy machine too. */
#define TRIALS  25
#define TRIAL_S 0.008

#define READ_BYTES_MAX ((size_t)1 << 30)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One trial on all processors; each notes when it began and ended. */
struct trial {
    double (*fma)(int64_t rounds);
    int64_t rounds;
    const unsigned char *buffer;
    size_t part; /* bytes for each processor */
    double begin[ATTN_PROCESSORS_MAX], end[ATTN_PROCESSORS_MAX];
    double work[ATTN_PROCESSORS_MAX];
};

static void fma_body(void *context, uint32_t i)
{
    struct trial *trial = context;
    trial->begin[i] = now();
    trial->work[i] = trial->fma(trial->rounds);
    trial->end[i] = now();
}

/* Reads `bytes` (a multiple of 256) as 64-bit words, in sums that do not wait for each other. */
static uint64_t read_all(const unsigned char *from, size_t bytes)
{
    typedef uint64_t vector __attribute__((vector_size(64)));
    const vector *at = (const vector *)(const void *)from;
    vector a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i < bytes / sizeof(vector); i += 4) {
        a += at[i];
        b += at[i + 1];
        c += at[i + 2];
        d += at[i + 3];
    }
    a += b + c + d;
    return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
}

static void read_body(void *context, uint32_t i)
{
    struct trial *trial = context;
    trial->begin[i] = now();
    const uint64_t sum = read_all(trial->buffer + i * trial->part, trial->part);
    __asm__ volatile("" : : "r"(sum));
    trial->end[i] = now();
    trial->work[i] = (double)trial->part;
}

/* Work of all processors over the time from the first that began to the last that ended; 0 where
 * the threads could not be had. */
static double trial_rate(const struct attn_session *session, struct trial *trial,
                         void (*body)(void *context, uint32_t i))
{
    const uint32_t n = session->n_processors;
    if (attn_team_run(n, session->processors, body, trial) != 0)
        return 0;
    double begin = trial->begin[0], end = trial->end[0], work = 0;
    for (uint32_t i = 0; i < n; i++) {
        begin = trial->begin[i] < begin ? trial->begin[i] : begin;
        end = trial->end[i] > end ? trial->end[i] : end;
        work += trial->work[i];
    }
    return end > begin ? work / (end - begin) : 0;
}

static double best_rate(const struct attn_session *session, struct trial *trial,
                        void (*body)(void *context, uint32_t i))
{
    double best = 0;
    for (int t = 0; t < TRIALS; t++) {
        const double rate = trial_rate(session, trial, body);
        best = rate > best ? rate : best;
    }
    return best;
}

/* GFLOP/s of one loop. Rounds are doubled until one processor needs the time of a trial. */
static double fma_rate(const struct attn_session *session, double (*fma)(int64_t rounds))
{
    static struct trial trial;
    trial.fma = fma;
    for (trial.rounds = 1024; trial.rounds < INT64_C(1) << 40; trial.rounds *= 2) {
        const double start = now();
        fma(trial.rounds);
        if (now() - start >= TRIAL_S)
            break;
    }
    return 1e-9 * best_rate(session, &trial, fma_body);
}

static double read_rate(const struct attn_session *session)
{
    static struct trial trial;
    void *mapped;
    size_t mapped_bytes, bytes = 4 * attn_last_cache_bytes();
    if (bytes > READ_BYTES_MAX)
        bytes = READ_BYTES_MAX;
    trial.part = bytes / session->n_processors / 4096 * 4096;
    bytes = trial.part * session->n_processors;
    unsigned char *buffer = attn_memory_map(bytes, &mapped, &mapped_bytes);
    if (!buffer)
        return 0;
    /* Untouched pages would all be the one zero page. */
    for (size_t at = 0; at < bytes; at += 64)
        buffer[at] = 1;
    trial.buffer = buffer;
    const double rate = 1e-9 * best_rate(session, &trial, read_body);
    attn_memory_unmap(mapped, mapped_bytes);
    return rate;
}

static void measure_fma(const struct attn_session *session, struct attn_ceilings *ceilings)
{
    const char *isa = "base";
    double (*f32)(int64_t) = attn_fma_f32_base, (*f64)(int64_t) = attn_fma_f64_base;
#if defined(__x86_64__)
    isa = "sse2";
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        isa = "avx2";
        f32 = attn_fma_f32_avx2;
        f64 = attn_fma_f64_avx2;
        ceilings->avx2_gflops_f32 = fma_rate(session, f32);
    }
    if (__builtin_cpu_supports("avx512f")) {
        isa = "avx512";
        f32 = attn_fma_f32_avx512;
        f64 = attn_fma_f64_avx512;
    }
#endif
    snprintf(ceilings->isa, sizeof(ceilings->isa), "%s", isa);
    ceilings->fma_gflops_f32 = fma_rate(session, f32);
    ceilings->fma_gflops_f64 = fma_rate(session, f64);
}

void attn_serve_ceilings(struct attn_session *session, struct attn_message_reply *reply)
{
    measure_fma(session, &reply->ceilings);
    reply->ceilings.read_gbs = read_rate(session);
    if (!(reply->ceilings.fma_gflops_f32 > 0) || !(reply->ceilings.read_gbs > 0))
        attn_reply_set(reply, ATTN_ERROR, "the threads or the memory to measure with were refused");
}

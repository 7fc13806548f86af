/* SPDX-License-Identifier: Apache-2.0 */
/* suspect.c - the least time that the ceilings allow.
 *
 * Multiply-adds: flops / peak, where peak is the best loop that the machine has for the type, or
 * what its clock allows; f16 and bf16 may also be widened and multiplied in f32. flops counts
 * allowed cells only, and a dense product has no way around its multiply-adds.
 *
 * Bytes: caches may hold what earlier runs have read, in any order and by any policy, but no more
 * than their sizes together. So of W bytes at least W - C come from below the levels whose sizes
 * add up to C, and the run takes at least (W - C) / rate of the next level; W / rate of the nearest
 * is the case C = 0. */
#include "run/suspect.h"

#include <math.h>
#include <string.h>

/* Ceilings are the best of many trials before and after, and are measured again before anything is
 * suspect. What an honest figure may be above them is the noise of a best, not of a mean. */
static const double flops_margin = 1.15;
/* A loop of plain loads is not the best reader of one core: prefetches may keep more lines under
 * way. Nor are loads alone the best of copies. */
static const double read_margin = 2.0;

/* Bytes of f32 that a unit multiplies and adds in a cycle: a register, or as much as two units of
 * tiles. */
static double width_of(const char *isa)
{
    static const struct {
        const char *isa;
        double bytes;
    } widths[] = {{"sse2", 16}, {"avx2", 32}, {"avx512", 64}, {"amx", 512}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (strcmp(isa, widths[i].isa) == 0)
            return widths[i].bytes;
    return 32; /* "base" of another family: up to four units of 16 */
}

/* What a rung can do in elements of `size` bytes: its best loop, or two full units a cycle. Where
 * other work shares the core for seconds, each loop takes twice as long, but the clock hardly less
 * often. 0: it has no such loop. */
static double rung_peak(const struct attn_ceilings *ceilings, const struct attn_rung *rung,
                        double measured, double size)
{
    const double units = 2, operations = 2;
    return measured > 0 ? fmax(measured, ceilings->clock_ghz * units * operations *
                                             width_of(rung->isa) / size)
                        : 0;
}

static double peak_of(const struct attn_ceilings *ceilings, uint32_t dtype)
{
    double peak = 0;
    for (uint32_t r = 0; r < ceilings->n_rungs; r++) {
        const struct attn_rung *rung = &ceilings->rungs[r];
        if (dtype == ATTN_F64)
            peak = fmax(peak, rung_peak(ceilings, rung, rung->f64, 8));
        else
            peak = fmax(peak, rung_peak(ceilings, rung, rung->f32, 4));
        if (dtype == ATTN_F16)
            peak = fmax(peak, rung_peak(ceilings, rung, rung->f16, 2));
        if (dtype == ATTN_BF16)
            peak = fmax(peak, rung_peak(ceilings, rung, rung->bf16, 2));
    }
    return peak;
}

/* Nanoseconds; *level is the one that takes them. */
static double read_ns(const struct attn_ceilings *ceilings, double bytes, uint32_t *level)
{
    double most = 0, held = 0;
    for (uint32_t r = 0; r < ceilings->n_reads; r++) {
        const struct attn_read *read = &ceilings->reads[r];
        const double ns = read->gbs > 0 ? (bytes - held) / read->gbs : 0;
        if (ns > most) {
            most = ns;
            *level = r;
        }
        held += (double)read->bytes;
    }
    return most;
}

/* May parts of the operands or of the work be left out: no key may be masked, no head pruned, no
 * weight dropped, no batch shared. */
static bool is_whole(const struct attn_entry *entry)
{
    const struct attn_case *c = entry->c;
    return entry->nnz == c->b * c->hq * c->sq * c->sk && !c->dropout && c->n_prune == 0 &&
           !(c->view & ATTN_VIEW_BROADCAST);
}

struct attn_work attn_work_of(const struct attn_entry *entry)
{
    const struct attn_case *c = entry->c;
    struct attn_work work = {.dtype = c->dtype};
    if (entry->contestant->info.exactness != ATTN_EXACT || entry->contestant->info.device ||
        c->data || c->dropout || c->n_prune > 0 || c->view & ATTN_VIEW_BROADCAST)
        return work;
    work.flops = entry->flops;
    work.bytes = is_whole(entry) ? (double)entry->bytes : 0;
    return work;
}

bool attn_work_is_suspect(const struct attn_ceilings *ceilings, const struct attn_work *work,
                          double ns, char *why, size_t size)
{
    const double peak = peak_of(ceilings, work->dtype);
    uint32_t level = 0;
    if (!(ns > 0) || !(work->flops > 0))
        return false;
    if (peak > 0 && work->flops / ns > flops_margin * peak) {
        snprintf(why, size,
                 "its rate of %.4g GFLOP/s is above the roof of this machine, %.4g GFLOP/s of "
                 "multiply-adds: it cannot have done its work in that time",
                 work->flops / ns, peak);
        return true;
    }
    const double least = read_ns(ceilings, work->bytes, &level);
    if (!(least > read_margin * ns))
        return false;
    snprintf(why, size,
             "it takes %.4g us for %.4g MB, which this machine cannot read in less than %.4g us "
             "(%.4g GB/s from %s): it cannot have done its work in that time",
             1e-3 * ns, 1e-6 * work->bytes, 1e-3 * least, ceilings->reads[level].gbs,
             ceilings->reads[level].bytes > 0 ? "that cache" : "memory");
    return true;
}

bool attn_work_was_warm(const struct attn_ceilings *ceilings, const struct attn_work *work,
                        double ns)
{
    const uint32_t n = ceilings->n_reads;
    const double gbs = n > 0 && ceilings->reads[n - 1].bytes == 0 ? ceilings->reads[n - 1].gbs : 0;
    return gbs > 0 && ns > 0 && work->bytes > gbs * ns;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - operands in sealed memfds. */
#include "host/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/walk.h"
#include "reference/dtype.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

enum { INPUTS, OUTPUTS };

static const unsigned char PRIME = 0xFF;

/* Of one set of operands: 0 the first, 1 the second. */
static unsigned char *first_element(const struct attn_share *share, uint32_t t, int set)
{
    const struct attn_shared_operand *operand = &share->operands[t];
    return share->at[operand->output] + (set ? share->second[operand->output] : 0) +
           operand->offset + operand->start;
}

/* Gives every operand whole pages of one of the two files. */
static int lay_out(const struct attn_instance *instance, enum attn_placement placement,
                   struct attn_share *share)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    share->n_tensors = instance->problem.n_tensors;
    for (uint32_t t = 0; t < share->n_tensors; t++) {
        const struct attn_operand *from = &instance->operands[t];
        struct attn_shared_operand *operand = &share->operands[t];
        size_t *total = &share->bytes[from->output];
        const char *data = instance->tensors[t].data, *base = from->base;
        size_t lead = base && data > base ? (size_t)(data - base) : 0;
        lead = lead < 64 ? lead : 0;
        size_t pages;
        if (__builtin_add_overflow(from->span, lead + page - 1, &pages))
            return -1;
        pages = pages / page * page;

        *operand = (struct attn_shared_operand){
            .offset = *total,
            .pages = pages,
            /* Behind the guard; one that is to be misaligned, at its own distance. */
            .start = placement == ATTN_PLACE_END ? pages - from->span : lead,
            .span = from->span,
            .element = (uint32_t)attn_dtype_size(instance->tensors[t].dtype),
            .output = from->output,
            .sparse = from->mapped > 0,
            .lead = (uint32_t)lead,
            .packed = attn_role_is_packed(instance->tensors[t].role),
        };
        if (operand->element == 0 || __builtin_add_overflow(*total, pages, total))
            return -1;
    }
    return 0;
}

static int make_file(struct attn_share *share, int which)
{
    static const char *const names[] = {"attnbench-inputs", "attnbench-outputs"};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = share->bytes[which] > 0 ? share->bytes[which] : page;

    share->bytes[which] = bytes;
    share->own[which] = memfd_create(names[which], MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (share->own[which] < 0 || ftruncate(share->own[which], (off_t)bytes) != 0)
        return -1;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, share->own[which], 0);
    if (at == MAP_FAILED)
        return -1;
    share->at[which] = at;
    return 0;
}

/* Fills one operand's pages. A sparse one keeps its holes: only its elements are touched. */
static void fill(const struct attn_share *share, const struct attn_instance *instance, uint32_t t,
                 int set)
{
    const struct attn_shared_operand *operand = &share->operands[t];
    const unsigned char *from = instance->tensors[t].data;
    unsigned char *to = first_element(share, t, set);
    unsigned char *pages = to - operand->start;

    if (!operand->sparse) {
        /* In one go: a fault a page costs more than the copy. Where the kernel cannot, it faults.
         */
        (void)madvise(pages, operand->pages, MADV_POPULATE_WRITE);
        if (operand->output) {
            memset(pages, PRIME, operand->pages);
        } else if (operand->span > 0) {
            memset(pages, PRIME, operand->start);
            memcpy(to, from, operand->span);
            memset(to + operand->span, PRIME, operand->pages - operand->start - operand->span);
        }
        return;
    }
    struct attn_walk walk;
    size_t offset;
    attn_walk_begin(&walk, &instance->tensors[t], operand->element);
    while (attn_walk_next(&walk, &offset)) {
        if (operand->output)
            memset(to + offset, PRIME, walk.run);
        else
            memcpy(to + offset, from + offset, walk.run);
    }
}

/* Protects the files; what is sent for the inputs is a second, read-only descriptor. */
static int seal(struct attn_share *share)
{
    char path[64];
    for (int f = INPUTS; f <= OUTPUTS; f++)
        if (fcntl(share->own[f], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
            return -1;
    const bool sealed = fcntl(share->own[INPUTS], F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0;
    for (int f = INPUTS; f <= OUTPUTS; f++)
        if (fcntl(share->own[f], F_ADD_SEALS, F_SEAL_SEAL) != 0)
            return -1;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", share->own[INPUTS]);
    share->fds[INPUTS] = open(path, O_RDONLY | O_CLOEXEC);
    if (share->fds[INPUTS] < 0)
        return -1;
    share->fds[OUTPUTS] = share->own[OUTPUTS];
    share->protection = sealed ? "guard pages, sealed read-only inputs"
                               : "guard pages, read-only inputs (no F_SEAL_FUTURE_WRITE)";
    return 0;
}

/* Makes room for second sets. */
static int double_files(const struct attn_instance *instance, const struct attn_instance *twin,
                        bool outputs, struct attn_share *share)
{
    for (uint32_t t = 0; twin && t < share->n_tensors; t++)
        if (twin->problem.n_tensors != share->n_tensors ||
            twin->operands[t].span != instance->operands[t].span ||
            twin->tensors[t].role != instance->tensors[t].role)
            return -1;
    share->twin = twin;
    for (int f = INPUTS; f <= OUTPUTS; f++) {
        if (!(f == INPUTS ? twin != NULL : outputs))
            continue;
        share->second[f] = share->bytes[f];
        if (__builtin_mul_overflow(share->bytes[f], (size_t)2, &share->bytes[f]))
            return -1;
    }
    return 0;
}

int attn_share_create(const struct attn_instance *instance, enum attn_placement placement,
                      struct attn_share *share, char *why, size_t size)
{
    return attn_share_create_pair(instance, NULL, false, placement, share, why, size);
}

int attn_share_create_pair(const struct attn_instance *instance, const struct attn_instance *twin,
                           bool outputs, enum attn_placement placement, struct attn_share *share,
                           char *why, size_t size)
{
    *share = (struct attn_share){.fds = {-1, -1}, .own = {-1, -1}};
    if (lay_out(instance, placement, share) != 0 ||
        double_files(instance, twin, outputs, share) != 0) {
        snprintf(why, size, "operands have no size that fits in memory");
        return -1;
    }
    for (int f = INPUTS; f <= OUTPUTS; f++)
        if (make_file(share, f) != 0)
            goto fail;
    for (uint32_t t = 0; t < share->n_tensors; t++) {
        fill(share, instance, t, 0);
        if (twin && !share->operands[t].output)
            fill(share, twin, t, 1);
    }
    if (seal(share) != 0)
        goto fail;
    return 0;
fail:
    snprintf(why, size, "no shared memory for the operands: %s", strerror(errno));
    attn_share_free(share);
    return -1;
}

static bool inputs_equal(const struct attn_share *share, const struct attn_instance *instance,
                         uint32_t t, int set)
{
    const unsigned char *was = instance->tensors[t].data, *is = first_element(share, t, set);
    struct attn_walk walk;
    size_t offset;
    attn_walk_begin(&walk, &instance->tensors[t], share->operands[t].element);
    while (attn_walk_next(&walk, &offset))
        if (memcmp(was + offset, is + offset, walk.run) != 0)
            return false;
    return true;
}

/* First byte of [from, to) of the output file that is not `expected`, or `to`. */
static size_t first_touched(const struct attn_share *share, size_t from, size_t to,
                            unsigned char expected)
{
    for (size_t i = from; i < to; i++)
        if (share->at[OUTPUTS][i] != expected)
            return i;
    return to;
}

/* The same in a sparse operand: holes are skipped unread, since reading one would allocate it, and
 * pages that exist are zero outside the elements. */
static size_t first_touched_sparse(const struct attn_share *share, size_t from, size_t to)
{
    while (from < to) {
        const off_t data = lseek(share->own[OUTPUTS], (off_t)from, SEEK_DATA);
        if (data < 0 || (size_t)data >= to)
            return to;
        const off_t hole = lseek(share->own[OUTPUTS], data, SEEK_HOLE);
        const size_t end = hole > data && (size_t)hole < to ? (size_t)hole : to;
        const size_t touched = first_touched(share, (size_t)data, end, 0);
        if (touched < end)
            return touched;
        from = end;
    }
    return to;
}

static size_t first_touched_of(const struct attn_share *share, uint32_t t, size_t from, size_t to)
{
    return share->operands[t].sparse ? first_touched_sparse(share, from, to)
                                     : first_touched(share, from, to, PRIME);
}

/* Bytes of an output's pages that hold no element: before, between and after its elements. */
static int check_gaps(const struct attn_share *share, const struct attn_instance *instance,
                      uint32_t t, char *why, size_t size)
{
    const struct attn_shared_operand *operand = &share->operands[t];
    const char *name = attn_role_name(instance->tensors[t].role);
    const size_t first = operand->offset + operand->start, end = operand->offset + operand->pages;
    struct attn_walk walk;
    size_t offset, cursor = operand->offset;

    attn_walk_begin(&walk, &instance->tensors[t], operand->element);
    while (attn_walk_next(&walk, &offset)) {
        const size_t next = first + offset;
        const size_t touched = first_touched_of(share, t, cursor, next);
        if (touched < next && touched < first) {
            snprintf(why, size, "writes before the start of %s (%zu bytes before)", name,
                     first - touched);
            return -1;
        }
        if (touched < next) {
            snprintf(why, size, "writes into a gap of %s at byte %zu", name, touched - first);
            return -1;
        }
        cursor = next + walk.run;
    }
    const size_t touched = first_touched_of(share, t, cursor, end);
    if (touched < end) {
        snprintf(why, size, "writes past the end of %s (%zu bytes beyond)", name,
                 (touched - first - operand->span) / operand->element * operand->element +
                     operand->element);
        return -1;
    }
    return 0;
}

enum attn_promise attn_share_check(const struct attn_share *share,
                                   const struct attn_instance *instance, char *why, size_t size)
{
    for (uint32_t t = 0; t < share->n_tensors; t++) {
        if (share->operands[t].output) {
            if (check_gaps(share, instance, t, why, size) != 0)
                return ATTN_PROMISE_BOUNDS;
        } else if (!inputs_equal(share, instance, t, 0) ||
                   (share->twin && !inputs_equal(share, share->twin, t, 1))) {
            snprintf(why, size, "modifies input %s", attn_role_name(instance->tensors[t].role));
            return ATTN_PROMISE_INPUTS;
        }
    }
    return ATTN_PROMISE_NONE;
}

static void collect(const struct attn_share *share, struct attn_instance *instance, int set)
{
    for (uint32_t t = 0; t < share->n_tensors; t++) {
        if (!share->operands[t].output)
            continue;
        unsigned char *to = instance->tensors[t].data;
        const unsigned char *from = first_element(share, t, set);
        struct attn_walk walk;
        size_t offset;
        attn_walk_begin(&walk, &instance->tensors[t], share->operands[t].element);
        while (attn_walk_next(&walk, &offset))
            memcpy(to + offset, from + offset, walk.run);
    }
}

void attn_share_collect(const struct attn_share *share, struct attn_instance *instance)
{
    collect(share, instance, 0);
}

void attn_share_collect_second(const struct attn_share *share, struct attn_instance *instance)
{
    collect(share, instance, 1);
}

void attn_share_free(struct attn_share *share)
{
    for (int f = INPUTS; f <= OUTPUTS; f++) {
        if (share->at[f])
            munmap(share->at[f], share->bytes[f]);
        if (share->fds[f] >= 0 && share->fds[f] != share->own[f])
            close(share->fds[f]);
        if (share->own[f] >= 0)
            close(share->own[f]);
    }
    *share = (struct attn_share){.fds = {-1, -1}, .own = {-1, -1}};
}

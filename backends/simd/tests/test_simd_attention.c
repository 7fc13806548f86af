/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_attention.c - each backend of the plugin, through its table, against two obvious loops
 * on random small problems: every mask and extra, odd sizes, any strides, operands flush against
 * guard pages. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "attnbench/rows.h"

#define PAGE        4096u
#define MAX_TENSORS 12

/* What scores of these sizes lose where they are summed in f16, a few products at a time. */
#define E_PARTIAL 0x1p-7

static const struct attn_backend *rung; /* the one under test */

struct operand {
    void *map;
    size_t mapped;
    size_t count; /* elements of its span */
};

struct trial {
    struct attn_problem problem;
    struct attn_tensor tensors[MAX_TENSORS];
    struct operand operands[MAX_TENSORS];
    uint64_t random;
    double e_p, e_exp; /* relative errors of a weight as it meets V, and of all in a denominator */
};

static uint64_t next(struct trial *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return t->random >> 11;
}

static int64_t below(struct trial *t, int64_t n)
{
    return (int64_t)(next(t) % (uint64_t)n);
}

static bool chance(struct trial *t, int64_t one_in)
{
    return below(t, one_in) == 0;
}

/* Roughly N(0,1): the sum of twelve uniforms less six. */
static float normal(struct trial *t)
{
    double sum = -6.0;
    for (int n = 0; n < 12; n++)
        sum += (double)next(t) * 0x1p-53;
    return (float)sum;
}

static size_t unit_of(uint32_t dtype)
{
    return dtype == ATTN_BOOL ? 1 : dtype == ATTN_I32 ? 4 : (size_t)attn_element_bytes(dtype);
}

/* Adds an operand: axes in a random order in memory, now and then a gap or a broadcast axis; flush
 * against an unreadable page at its end, or at its start. */
static struct attn_tensor *add(struct trial *t, uint32_t role, uint32_t dtype, uint32_t rank,
                               const int64_t *shape, bool broadcast)
{
    uint32_t n = t->problem.n_tensors++;
    struct attn_tensor *x = &t->tensors[n];
    *x = (struct attn_tensor){.role = role, .dtype = dtype, .rank = rank};
    uint32_t order[4] = {0, 1, 2, 3};
    for (uint32_t a = rank - 1; a > 0 && chance(t, 3); a--) {
        uint32_t other = (uint32_t)below(t, a + 1), kept = order[a];
        order[a] = order[other];
        order[other] = kept;
    }
    int64_t stride = 1, span = 1;
    for (uint32_t a = rank; a-- > 0;) {
        uint32_t axis = order[a];
        x->shape[axis] = shape[axis];
        bool spread = broadcast && chance(t, 3);
        x->stride[axis] = spread ? 0 : stride;
        if (shape[axis] > 0)
            span += spread ? 0 : (shape[axis] - 1) * stride;
        if (!spread)
            stride *= shape[axis] > 0 ? shape[axis] : 1;
        stride += chance(t, 6) ? 3 : 0;
    }
    size_t bytes = (size_t)span * unit_of(dtype);
    size_t body = (bytes + PAGE - 1) / PAGE * PAGE;
    char *map =
        mmap(NULL, body + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map, PAGE, PROT_NONE), 0);
    assert_int_equal(mprotect(map + PAGE + body, PAGE, PROT_NONE), 0);
    x->data = chance(t, 4) ? map + PAGE : map + PAGE + body - bytes;
    t->operands[n] = (struct operand){map, body + 2 * PAGE, (size_t)span};
    for (int64_t e = 0; e < span; e++) {
        if (dtype == ATTN_BOOL)
            ((uint8_t *)x->data)[e] = chance(t, 3) ? 0 : (uint8_t)(1 + below(t, 255));
        else if (dtype != ATTN_I32)
            attn_element_write(dtype, x->data, e, normal(t));
    }
    return x;
}

static int64_t at(const struct attn_tensor *x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return a * x->stride[0] + b * x->stride[1] + c * x->stride[2] + d * x->stride[3];
}

static void set(const struct attn_tensor *x, int64_t index, float to)
{
    attn_element_write(x->dtype, x->data, index, to);
}

static float value(const struct attn_tensor *x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return attn_element_read(x->dtype, x->data, at(x, a, b, c, d));
}

static float of_head(const struct attn_tensor *x, int64_t h)
{
    return attn_element_read(x->dtype, x->data, h * x->stride[0]);
}

static bool truth(const struct attn_tensor *x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return ((const uint8_t *)x->data)[at(x, a, b, c, d)] != 0;
}

static const struct attn_tensor *find(const struct trial *t, uint32_t role)
{
    return attn_tensor_find(&t->problem, role);
}

static bool allowed(const struct trial *t, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_problem *p = &t->problem;
    const struct attn_tensor *len = find(t, ATTN_LEN), *mask = find(t, ATTN_MASK);
    int64_t off = p->off, valid = p->sk;
    if (len) {
        int64_t index = b * len->stride[0] + (len->rank == 2 ? i * len->stride[1] : 0);
        valid = ((const int32_t *)len->data)[index];
    }
    if (p->flags & ATTN_FLAG_OFF_BR)
        off = valid - p->sq;
    if (j >= valid || (mask && !truth(mask, b, h, i, j)))
        return false;
    if (p->flags & ATTN_FLAG_CAUSAL && j > i + off)
        return false;
    if (p->flags & ATTN_FLAG_WINDOW && ((p->window_left >= 0 && j < i + off - p->window_left) ||
                                        (p->window_right >= 0 && j > i + off + p->window_right)))
        return false;
    return true;
}

static double score(const struct trial *t, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_problem *p = &t->problem;
    const struct attn_tensor *q = find(t, ATTN_Q), *k = find(t, ATTN_K);
    const struct attn_tensor *bias = find(t, ATTN_BIAS), *alibi = find(t, ATTN_ALIBI);
    int64_t g = h / (p->hq / p->hkv);
    double s = 0.0;
    for (int64_t c = 0; c < p->dk; c++)
        s += (double)value(q, b, h, i, c) * (double)value(k, b, g, j, c);
    s *= p->scale;
    if (p->flags & ATTN_FLAG_SOFTCAP)
        s = p->softcap * tanh(s / p->softcap);
    if (bias)
        s = isinf(value(bias, b, h, i, j)) ? -INFINITY : s + (double)value(bias, b, h, i, j);
    if (alibi) {
        const struct attn_tensor *len = find(t, ATTN_LEN);
        int64_t off = p->off;
        if (p->flags & ATTN_FLAG_OFF_BR)
            off = (len ? ((const int32_t *)len->data)[b * len->stride[0]] : p->sk) - p->sq;
        s -= (double)of_head(alibi, h) * fabs((double)(i + off - j));
    }
    return s;
}

/* Philox4x32-10, written from the paper's loop once more. */
static bool kept(const struct trial *t, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_problem *p = &t->problem;
    const struct attn_tensor *keep = find(t, ATTN_KEEP);
    if (!(p->flags & ATTN_FLAG_DROPOUT))
        return true;
    if (keep)
        return truth(keep, b, h, i, j);
    uint64_t index = (uint64_t)(((b * p->hq + h) * p->sq + i) * p->sk + j);
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)p->dropout_seed, (uint32_t)(p->dropout_seed >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t x = 0xD2511F53ull * c[0], y = 0xCD9E8D57ull * c[2];
        uint32_t r[4] = {(uint32_t)(y >> 32) ^ c[1] ^ key[0], (uint32_t)y,
                         (uint32_t)(x >> 32) ^ c[3] ^ key[1], (uint32_t)x};
        memcpy(c, r, sizeof c);
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return (double)(c[0] >> 8) * 0x1p-24 >= p->dropout_p;
}

/* What a result must be. */
struct expected {
    const char *what;
    int64_t h, i;
    uint32_t dtype;        /* it is rounded to */
    double value, size, e; /* size: of what was summed; e: the error allowed, relative to size */
};

static void expect_close(const struct trial *t, const struct expected *want, double got)
{
    const double value = want->value;
    double half_ulp = want->dtype == ATTN_F16 ? 0x1p-11 : want->dtype == ATTN_BF16 ? 0x1p-8 : 0.0;
    double least = want->dtype == ATTN_F16 ? 0x1p-24 : 1e-30;
    bool ok = isnan(value) ? isnan(got)
              : isinf(value)
                  ? got == value
                  : fabs(got - value) <= want->e * want->size + half_ulp * fabs(value) + least;
    const struct attn_problem *p = &t->problem;
    if (!ok)
        fail_msg("%s: expected %.9g, got %.9g (h %d i %d; hq %d hkv %d sq %d sk %d dk %d dv %d "
                 "flags %x tensors %d)",
                 want->what, value, got, (int)want->h, (int)want->i, (int)p->hq, (int)p->hkv,
                 (int)p->sq, (int)p->sk, (int)p->dk, (int)p->dv, (unsigned)p->flags,
                 (int)p->n_tensors);
}

static void check_row(const struct trial *t, int64_t b, int64_t h, int64_t i)
{
    const struct attn_problem *p = &t->problem;
    const struct attn_tensor *v = find(t, ATTN_V), *lse = find(t, ATTN_LSE);
    const struct attn_tensor *sink = find(t, ATTN_SINK), *out = find(t, ATTN_OUT);
    const struct attn_tensor *weights = find(t, ATTN_WEIGHTS);
    double joins = sink ? (double)of_head(sink, h) : -INFINITY;
    double *s = malloc(((size_t)p->sk + 1) * sizeof *s), max = joins, sum = 0.0;
    assert_non_null(s);
    for (int64_t j = 0; j < p->sk; j++) {
        s[j] = allowed(t, b, h, i, j) ? score(t, b, h, i, j) : -INFINITY;
        max = s[j] > max ? s[j] : max;
    }
    for (int64_t j = 0; j < p->sk; j++)
        sum += s[j] == -INFINITY ? 0.0 : exp(s[j] - max);
    sum += joins == -INFINITY ? 0.0 : exp(joins - max);
    for (int64_t c = 0; c < p->dv; c++) {
        struct expected want = {"out", h, i, out->dtype, 0.0, 0.0, t->e_p};
        for (int64_t j = 0; j < p->sk; j++) {
            if (s[j] == -INFINITY || !kept(t, b, h, i, j))
                continue;
            double x = (double)value(v, b, h / (p->hq / p->hkv), j, c);
            double w = exp(s[j] - max) / sum;
            w /= p->flags & ATTN_FLAG_DROPOUT ? 1.0 - p->dropout_p : 1.0;
            want.value += w * x;
            want.size += fabs(w * x);
        }
        want.size += fabs(want.value);
        expect_close(t, &want, (double)value(out, b, h, i, c));
    }
    for (int64_t j = 0; weights && j < p->sk; j++) {
        double weight = s[j] == -INFINITY ? 0.0 : exp(s[j] - max) / sum;
        double size = weight == 0.0 ? 0.0 : weight * (1.0 + fabs(max) + fabs(s[j]));
        const struct expected want = {"weight", h, i, weights->dtype, weight, size, t->e_exp};
        expect_close(t, &want, (double)value(weights, b, h, i, j));
    }
    if (lse) {
        double x = max == -INFINITY && sum == 0.0 ? -INFINITY : max + log(sum);
        const struct expected want = {"lse", h, i, ATTN_F32, x, 1.0 + fabs(max), t->e_exp};
        expect_close(t, &want, (double)((const float *)lse->data)[at(lse, b, h, i, 0)]);
    }
    free(s);
}

/* The only type of the rung, or 0. */
static uint32_t only_type(void)
{
    return strstr(rung->name, "bf16") ? ATTN_BF16 : strstr(rung->name, "fp16") ? ATTN_F16 : 0;
}

/* Sizes, masks and extras of one random problem. */
static void make_problem(struct trial *t)
{
    static const int64_t widths[] = {1, 5, 8, 16, 17, 40, 64, 80, 100, 256};
    struct attn_problem *p = &t->problem;
    *p = (struct attn_problem){.struct_size = sizeof *p, .op = ATTN_OP_ATTENTION};
    p->score = chance(t, 4) ? ATTN_SCORE_DOT : ATTN_SCORE_SCALED_DOT;
    p->dtype = only_type()    ? only_type()
               : chance(t, 2) ? ATTN_F32
               : chance(t, 2) ? ATTN_F16
                              : ATTN_BF16;
    p->b = 1 + below(t, 2);
    p->hkv = 1 + below(t, 2);
    p->hq = p->hkv * (1 + below(t, 3));
    p->sq = 1 + below(t, chance(t, 2) ? 5 : 40);
    p->sk = chance(t, 20) ? 0 : 1 + below(t, chance(t, 2) ? 20 : 150);
    if (chance(t, 20)) { /* more than one tile of the blocking's own choice */
        p->sq = 1 + below(t, 9);
        p->sk = 500 + below(t, 900);
    }
    p->dk = p->dq = widths[below(t, 10)];
    p->dv = widths[below(t, 10)];
    p->scale = chance(t, 8) ? -0.3 : 1.0 / sqrt((double)p->dk);
    p->flags = chance(t, 2) ? ATTN_FLAG_DETERMINISTIC : 0;
    if (chance(t, 3))
        p->flags |= ATTN_FLAG_CAUSAL;
    if (chance(t, 4)) {
        p->flags |= ATTN_FLAG_WINDOW;
        p->window_left = below(t, 40) - 1;
        p->window_right = below(t, 40) - 1;
    }
    if (chance(t, 4))
        p->off = below(t, 60) - 20;
    if (chance(t, 4)) {
        p->flags |= ATTN_FLAG_SOFTCAP;
        p->softcap = 0.5 + (double)below(t, 20);
    }
    if (chance(t, 5)) {
        p->flags |= ATTN_FLAG_DROPOUT;
        p->dropout_p = (double)below(t, 9) / 10.0;
        p->dropout_seed = next(t);
    }
}

static void add_lengths(struct trial *t)
{
    struct attn_problem *p = &t->problem;
    bool one = chance(t, 2);
    struct attn_tensor *len =
        add(t, ATTN_LEN, ATTN_I32, one ? 1 : 2, (int64_t[]){p->b, p->sq}, false);
    for (size_t e = 0; e < t->operands[p->n_tensors - 1].count; e++)
        ((int32_t *)len->data)[e] = (int32_t)below(t, p->sk + 1);
}

/* NaN and infinities: in K and V of keys that no row may see, or in any V. */
static void poison(struct trial *t)
{
    struct attn_problem *p = &t->problem;
    const struct attn_tensor *k = find(t, ATTN_K), *v = find(t, ATTN_V);
    bool anywhere = chance(t, 2);
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hkv; h++)
            for (int64_t j = 0; j < p->sk; j++) {
                bool seen = false;
                for (int64_t n = 0; n < p->hq / p->hkv * p->sq && !seen; n++)
                    seen = allowed(t, b, h * (p->hq / p->hkv) + n / p->sq, n % p->sq, j);
                float bad = chance(t, 2) ? NAN : INFINITY;
                if (!seen)
                    set(k, at(k, b, h, j, below(t, p->dk)), bad);
                if (!seen || (anywhere && chance(t, 8)))
                    set(v, at(v, b, h, j, below(t, p->dv)), bad);
            }
}

static void make_operands(struct trial *t)
{
    struct attn_problem *p = &t->problem;
    const int64_t cells[4] = {p->b, p->hq, p->sq, p->sk};
    const uint32_t type = p->dtype, other = chance(t, 2) ? ATTN_F32 : type;
    p->tensors = t->tensors;
    add(t, ATTN_Q, type, 4, (int64_t[]){p->b, p->hq, p->sq, p->dk}, false);
    add(t, ATTN_K, type, 4, (int64_t[]){p->b, p->hkv, p->sk, p->dk}, false);
    add(t, ATTN_V, type, 4, (int64_t[]){p->b, p->hkv, p->sk, p->dv}, false);
    struct attn_tensor *out =
        add(t, ATTN_OUT, type, 4, (int64_t[]){p->b, p->hq, p->sq, p->dv}, false);
    memset(out->data, 0xff, t->operands[p->n_tensors - 1].count * unit_of(type));
    if (chance(t, 2))
        add(t, ATTN_LSE, ATTN_F32, 3, cells, false);
    if (chance(t, 4)) {
        const struct attn_tensor *weights = add(t, ATTN_WEIGHTS, type, 4, cells, false);
        memset(weights->data, 0xff, t->operands[p->n_tensors - 1].count * unit_of(type));
    }
    if (chance(t, 3))
        add(t, ATTN_MASK, ATTN_BOOL, 4, cells, true);
    if (chance(t, 4)) {
        struct attn_tensor *bias = add(t, ATTN_BIAS, other, 4, cells, true);
        for (size_t e = 0; e < t->operands[p->n_tensors - 1].count; e++)
            if (chance(t, 7))
                set(bias, (int64_t)e, -INFINITY);
    }
    if (chance(t, 4)) { /* gentle, lest a weight underflow in f32 and not in double */
        struct attn_tensor *alibi = add(t, ATTN_ALIBI, other, 1, &p->hq, false);
        for (size_t e = 0; e < t->operands[p->n_tensors - 1].count; e++)
            set(alibi, (int64_t)e, 0.05f * attn_element_read(other, alibi->data, (int64_t)e));
    }
    if (chance(t, 4))
        add(t, ATTN_SINK, other, 1, &p->hq, false);
    if (p->flags & ATTN_FLAG_DROPOUT && chance(t, 2))
        add(t, ATTN_KEEP, ATTN_BOOL, 4, cells, true);
    if (chance(t, 3))
        add_lengths(t);
    const struct attn_tensor *len = find(t, ATTN_LEN);
    if (chance(t, 3) && !(len && len->rank == 2))
        p->flags |= ATTN_FLAG_OFF_BR;
    if (chance(t, 3))
        poison(t);
}

static int64_t live;

static void *counted_alloc(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    live++;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory)
        memset(memory, 0xff, bytes); /* NaN: nothing may be read before it is written */
    return memory;
}

static void counted_free(void *context, void *memory)
{
    (void)context;
    live--;
    free(memory);
}

static void run_trial(struct trial *t, uint32_t threads, const struct attn_option *options,
                      uint32_t n_options)
{
    const struct attn_backend *backend = rung;
    struct attn_services services = {.struct_size = sizeof services,
                                     .threads = threads,
                                     .options = options,
                                     .n_options = n_options,
                                     .alloc = counted_alloc,
                                     .free = counted_free};
    char why[256] = "";
    void *plan = NULL, *binding = NULL;
    struct attn_numerics numerics = {.struct_size = sizeof numerics};
    assert_int_equal(backend->supports(&t->problem, &services, why, sizeof why), ATTN_OK);
    assert_int_equal(backend->create(&t->problem, &services, &plan, why, sizeof why), ATTN_OK);
    backend->numerics(plan, &numerics);
    t->e_exp = 1e-5 + 4.0 * numerics.e_exp + (numerics.partial_type == ATTN_F16 ? E_PARTIAL : 0.0);
    t->e_p = t->e_exp + (numerics.p_type == ATTN_BF16 ? 0x1p-8 : 0.0);
    assert_int_equal(
        backend->bind(plan, t->tensors, t->problem.n_tensors, &binding, why, sizeof why), ATTN_OK);
    assert_int_equal(backend->run(binding, why, sizeof why), ATTN_OK);
    backend->release(binding);
    backend->destroy(plan);
    assert_int_equal(live, 0);
}

/* Copies an output's span, gaps included. */
static void *copy_of(const struct trial *t, uint32_t role, size_t *bytes)
{
    for (uint32_t n = 0; n < t->problem.n_tensors; n++) {
        if (t->tensors[n].role != role)
            continue;
        *bytes = t->operands[n].count * unit_of(t->tensors[n].dtype);
        void *copy = malloc(*bytes + 1);
        assert_non_null(copy);
        return memcpy(copy, t->tensors[n].data, *bytes);
    }
    return NULL;
}

static void free_trial(struct trial *t)
{
    for (uint32_t n = 0; n < t->problem.n_tensors; n++)
        munmap(t->operands[n].map, t->operands[n].mapped);
}

static bool machine_lacks_it(void)
{
    char why[256];
    if (rung->probe(NULL, why, sizeof why) == ATTN_OK)
        return false;
    print_message("%s: %s\n", rung->name, why);
    return true;
}

/* Small tiles and items, so that small problems cross their edges; the same bits from one thread
 * and from three, and with other items. */
static void test_random_problems(void **state)
{
    (void)state;
    if (machine_lacks_it())
        skip();
    const struct attn_option small[] = {{"key_block", "32"}, {"item_rows", "12"}};
    const struct attn_option items[] = {{"key_block", "32"}, {"item_rows", "48"}};
    for (uint64_t seed = 1; seed <= 700; seed++) {
        struct trial t = {.random = seed * 0x9E3779B97F4A7C15u};
        make_problem(&t);
        make_operands(&t);
        run_trial(&t, 1, small, seed % 5 ? 2 : 0);
        for (int64_t b = 0; b < t.problem.b; b++)
            for (int64_t h = 0; h < t.problem.hq; h++)
                for (int64_t i = 0; i < t.problem.sq; i++)
                    check_row(&t, b, h, i);
        if (seed % 5 && seed % 3 == 0) {
            size_t bytes = 0;
            void *first = copy_of(&t, ATTN_OUT, &bytes);
            run_trial(&t, 3, items, 2);
            assert_memory_equal(find(&t, ATTN_OUT)->data, first, 4);
            void *second = copy_of(&t, ATTN_OUT, &bytes);
            assert_memory_equal(first, second, bytes);
            free(first);
            free(second);
        }
        free_trial(&t);
    }
}

/* One head of plain scores: its problem, and q, k and v of one width. */
static void make_head(struct trial *t, uint32_t type, int64_t sq, int64_t sk, int64_t width)
{
    const int64_t rows[] = {1, 1, sq, width}, keys[] = {1, 1, sk, width};
    t->problem = (struct attn_problem){.struct_size = sizeof t->problem,
                                       .op = ATTN_OP_ATTENTION,
                                       .score = ATTN_SCORE_DOT,
                                       .dtype = type,
                                       .b = 1,
                                       .hq = 1,
                                       .hkv = 1,
                                       .sq = sq,
                                       .sk = sk,
                                       .dq = width,
                                       .dk = width,
                                       .dv = width,
                                       .scale = 1.0,
                                       .tensors = t->tensors};
    add(t, ATTN_Q, type, 4, rows, false);
    add(t, ATTN_K, type, 4, keys, false);
    add(t, ATTN_V, type, 4, keys, false);
}

/* +Inf and NaN in an allowed score make the row NaN, unless the bias forbids the cell; other rows
 * stay as they are. */
static void test_bad_scores(void **state)
{
    (void)state;
    if (machine_lacks_it())
        skip();
    for (int m = 0; m < 8; m++) {
        const uint32_t type = only_type() ? only_type() : m < 4 ? ATTN_F32 : ATTN_BF16;
        const int n = m % 4;
        struct trial t = {.random = 99};
        make_head(&t, type, 9, 70, 8);
        t.problem.flags = ATTN_FLAG_CAUSAL;
        t.problem.off = 60;
        const struct attn_tensor *k = &t.tensors[1];
        const struct attn_tensor *q = &t.tensors[0];
        struct attn_tensor *out = add(&t, ATTN_OUT, type, 4, (int64_t[]){1, 1, 9, 8}, false);
        add(&t, ATTN_LSE, ATTN_F32, 3, (int64_t[]){1, 1, 9}, false);
        add(&t, ATTN_WEIGHTS, type, 4, (int64_t[]){1, 1, 9, 70}, false);
        for (int64_t i = 0; i < 9; i++) /* so that the score below is +Inf, never -Inf */
            set(q, at(q, 0, 0, i, 3), 1.0f);
        const float large = type == ATTN_F16 ? 3e4f : 2e38f;
        set(k, at(k, 0, 0, 64, 3), n == 0 ? NAN : n == 2 ? large : INFINITY);
        struct attn_tensor *bias = add(&t, ATTN_BIAS, type, 4, (int64_t[]){1, 1, 9, 70}, false);
        for (int64_t i = 0; n == 3 && i < 9; i++)
            set(bias, at(bias, 0, 0, i, 64), -INFINITY);
        run_trial(&t, 1, NULL, 0);
        for (int64_t i = 0; i < 9; i++) {
            bool spoilt = n < 2 && i + 60 >= 64;
            assert_true(isnan(value(out, 0, 0, i, 2)) == spoilt);
            check_row(&t, 0, 0, i);
        }
        free_trial(&t);
    }
}

/* A row of ones times a gate that fits, though the sum of its keys' values times the gate does not:
 * rows of one tile, of several, and of parts that are joined. */
static void test_large_gates(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 64}, {9, 70}, {40, 1000}, {1, 6000}};
    if (machine_lacks_it())
        skip();
    for (int n = 0; n < 8; n++) {
        const uint32_t type = only_type() ? only_type() : n < 4 ? ATTN_F32 : ATTN_BF16;
        const int64_t rows[] = {1, 1, sizes[n % 4][0], 16};
        const float gate = type == ATTN_F16 ? 3e4f : 1e38f;
        struct trial t = {.random = 7};
        make_head(&t, type, rows[2], sizes[n % 4][1], 16);
        add(&t, ATTN_GATE, type, 4, rows, false);
        const struct attn_tensor *out = add(&t, ATTN_OUT, type, 4, rows, false);
        for (uint32_t x = 0; x < t.problem.n_tensors; x++)
            for (size_t e = 0; e < t.operands[x].count; e++)
                set(&t.tensors[x], (int64_t)e, x == 2 ? 1.0f : x == 3 ? gate : 0.0f);
        run_trial(&t, 1 + (uint32_t)n % 2, NULL, 0);
        for (int64_t i = 0; i < rows[2]; i++)
            for (int64_t c = 0; c < 16; c++)
                assert_true(fabs((double)value(out, 0, 0, i, c) / (double)gate - 1) <
                            t.e_p + 0x1p-8);
        free_trial(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_problems),
        cmocka_unit_test(test_bad_scores),
        cmocka_unit_test(test_large_gates),
    };
    int failed = 0;
    for (uint32_t n = 0; n < attn_plugin.n_backends; n++) {
        rung = attn_plugin.backends[n];
        failed += cmocka_run_group_tests_name(rung->name, tests, NULL, NULL);
    }
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backward_template.h - the gradients of attention over a vector type, after flash_template.h and
 * matrix_tile.h (backward.h says what a unit is). It gives an instance prepare_backward and
 * run_backward.
 *
 *   take k and v of the tile of keys                                    backward_take_keys
 *   for each query head of the group and each query tile that sees it:  backward_meet
 *     take q and dO                                                     backward_take_queries
 *     for each group of MR rows:                                        backward_weigh_group
 *       s = q k^T, dP = dO v^T                                          backward_scores
 *       p = 2^(s - lse), dS = p (dP - delta)                            backward_weigh
 *     dv += p^T dO, dk += dS^T q                                        backward_add_keys
 *     wait for the turn; dq += dS k                                     backward_add_queries
 *   store dk and dv                                                     backward_store_keys
 *
 * These steps know how operands lie: backward_floats.h and backward_pairs.h define them, and some
 * small ones beside them. Their products are those of matrix_multiply_vectors (matrix_vectors.h,
 * matrix_amx.h). Between them, p and dS lie in w->s and w->ds as floats, [rows][score_row];
 * pairs are narrowed at the end of backward_weigh_group, where their rows are in the first-level
 * cache.
 *
 * A forbidden cell has s = -inf until p = -0.0 marks it, and dS = 0. A product with 0 is NaN where
 * the other factor is not finite, so tiles with forbidden cells and such an operand go cell by cell
 * and skip these (backward_cells.h). */
#include "backward.h"

/* A tile of keys at work. */
struct backward_unit {
    struct attn_backward *job;
    const struct attn_backward_scratch *w;
    int64_t unit, b, g, tile;
    int64_t j0, keys; /* first key, and how many */
    bool finite;      /* all of k */
};

/* A query tile of one query head, with the unit's keys. Keys count from the first of the unit. */
struct backward_rows {
    const struct backward_unit *u;
    int64_t h, place, tile; /* head, its place in the group, query tile */
    int64_t i0, rows;
    int64_t lo, hi; /* keys that some row may see */
    bool full;      /* each row sees each of them, and p needs no more than the score */
    const float *lse, *delta;
    const struct attn_keys *keys; /* from key 0 on */
    float *dq;                    /* [rows][dk_row] */
};

/* Some rows of it, at most BACKWARD_GROUP: their scores, dP, p and dS are at work in the
 * first-level cache. */
#define BACKWARD_GROUP FLASH_MR
struct backward_group {
    int64_t r0;
    int count;
    int64_t lo, hi;   /* keys that some of these rows may see; lo >= hi: none */
    int64_t from, to; /* whole vectors around them */
};

#include "backward_cells.h"
#if FLASH_PAIRS
#include "backward_pairs.h"
#else
#include "backward_floats.h"
#endif
#include "backward_weigh.h"

/* Which keys, counted from the first of the unit, row r may see. Its interval is empty if all of
 * its scores are -inf, too. */
static struct attn_keys backward_row_keys(const struct backward_rows *x, int64_t r)
{
    const int64_t j0 = x->u->j0;
    struct attn_keys keys = {attn_clamp(x->keys[r].first - j0, 0, x->u->keys),
                             attn_clamp(x->keys[r].end - j0, 0, x->u->keys)};
    if (keys.first >= keys.end || x->lse[r] == INFINITY)
        keys = (struct attn_keys){0, 0};
    return keys;
}

static struct backward_group backward_group_at(const struct backward_rows *x, int64_t r0)
{
    struct backward_group group = {.r0 = r0, .lo = x->lo, .hi = x->hi};
    group.count = (int)attn_clamp(x->rows - r0, 1, BACKWARD_GROUP);
    if (!x->full) {
        group.lo = x->u->keys;
        group.hi = 0;
        for (int64_t r = r0; r < r0 + group.count; r++) {
            const struct attn_keys keys = backward_row_keys(x, r);
            if (keys.first < keys.end) {
                group.lo = keys.first < group.lo ? keys.first : group.lo;
                group.hi = keys.end > group.hi ? keys.end : group.hi;
            }
        }
    }
    group.from = group.lo / VF_LANES * VF_LANES;
    group.to = attn_round_up(group.hi, VF_LANES);
    if (group.lo >= group.hi)
        group.to = group.from = 0;
    return group;
}

/* p and dS of a row group. */
static void backward_weigh_group(const struct backward_rows *x, const struct backward_group *group)
{
    if (group->from < group->to)
        backward_scores(x, group);
    for (int r = 0; r < group->count; r++)
        if (x->full)
            backward_weigh_plain(x, group, group->r0 + r);
        else
            backward_weigh_marked(x, group, group->r0 + r);
    backward_end_weights(x, group);
}

/* The products with p and dS, over the keys that row groups see and the row groups that see keys.
 */
static void backward_add_parts(const struct backward_rows *x)
{
    struct attn_keys seen[ATTN_BACKWARD_GROUPS];
    int64_t groups = 0;
    for (int64_t r0 = 0; r0 < x->rows; r0 += BACKWARD_GROUP) {
        const struct backward_group group = backward_group_at(x, r0);
        seen[groups++] = (struct attn_keys){group.lo, group.hi};
    }
    for (int64_t j = x->lo, end; j < x->hi; j = end) {
        end = attn_clamp((j / BACKWARD_KEYS + 1) * BACKWARD_KEYS, 0, x->hi);
        int64_t first = 0, last = groups;
        while (first < last && !(seen[first].first < end && seen[first].end > j))
            first++;
        while (first < last && !(seen[last - 1].first < end && seen[last - 1].end > j))
            last--;
        if (first < last)
            backward_add_keys(x, j, end, first * BACKWARD_GROUP,
                              attn_clamp(last * BACKWARD_GROUP, 0, x->rows));
    }
}

static void backward_add_part_queries(const struct backward_rows *x)
{
    for (int64_t r0 = 0; r0 < x->rows; r0 += BACKWARD_GROUP) {
        const struct backward_group group = backward_group_at(x, r0);
        if (group.lo < group.hi)
            backward_add_queries(x, r0, r0 + group.count, group.lo, group.hi);
    }
}

/* Whether a product may meet a forbidden cell and an operand that is not finite. */
static bool backward_is_careful(const struct backward_rows *x)
{
    return (!x->full || backward_rounds(x)) && !(x->u->finite && backward_queries_finite(x));
}

static void backward_add_cells(const struct backward_rows *x)
{
    const struct attn_backward *job = x->u->job;
    for (int64_t r = 0; r < x->rows; r++) {
        const float *p = x->u->w->s + r * job->score_row, *ds = x->u->w->ds + r * job->score_row;
        for (int64_t j = x->lo; j < x->hi; j++)
            if (!backward_is_marked(p[j]))
                backward_add_cell(x, r, j, p[j], ds[j], x->dq + r * job->dk_row);
    }
}

/* The final dq of the rows, if it is asked for. */
static void backward_store_queries(const struct backward_rows *x)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_tensor *to = &job->operands.grad_q;
    for (int64_t r = 0; to->dtype && r < x->rows; r++)
        narrow(to, attn_row_start(to, x->u->b, x->h, x->i0 + r), to->stride[3], job->problem->dq,
               x->dq + r * job->dk_row, (float)job->problem->scale);
}

/* The keys of the unit and one query tile, whose rows see keys of the key tiles [first, last]. */
static void backward_meet(struct backward_rows *x, int64_t first, int64_t last)
{
    struct attn_backward *job = x->u->job;
    for (int64_t r = 0; r < x->rows; r++)
        x->full = x->full && x->lse[r] != INFINITY;
    backward_take_queries(x);
    for (int64_t r0 = 0; r0 < x->rows; r0 += BACKWARD_GROUP) {
        const struct backward_group group = backward_group_at(x, r0);
        backward_weigh_group(x, &group);
    }
    const bool careful = backward_is_careful(x);
    if (!careful && x->full)
        backward_add_keys(x, x->lo, x->hi, 0, x->rows);
    else if (!careful)
        backward_add_parts(x);
    if (x->u->tile == first)
        memset(x->dq, 0, (size_t)(x->rows * job->dk_row) * sizeof(float));
    else
        attn_backward_await(job, x->u->unit, x->place, x->tile);
    if (careful)
        backward_add_cells(x);
    else if (job->operands.grad_q.dtype && x->full)
        backward_add_queries(x, 0, x->rows, x->lo, x->hi);
    else if (job->operands.grad_q.dtype)
        backward_add_part_queries(x);
    if (x->u->tile == last)
        backward_store_queries(x);
    attn_backward_pass(job, x->u->unit, x->place, x->tile);
}

/* One query tile of the head at `place` of the group, if it sees keys of the unit. */
static void backward_visit(const struct backward_unit *u, int64_t place, int64_t tile)
{
    struct attn_backward *job = u->job;
    const struct attn_problem *p = job->problem;
    const struct attn_backward_seen *seen = &job->seen[u->b * job->query_tiles + tile];
    struct backward_rows x = {.u = u, .place = place, .tile = tile};
    if (seen->any.first >= seen->any.end)
        return;
    const int64_t first = seen->any.first / job->key_tile;
    const int64_t last = (seen->any.end - 1) / job->key_tile;
    if (u->tile < first || u->tile > last)
        return;
    x.h = u->g * job->flash.group + place;
    x.i0 = tile * job->query_tile;
    x.rows = attn_clamp(p->sq - x.i0, 1, job->query_tile);
    x.lo = attn_clamp(seen->any.first - u->j0, 0, u->keys);
    x.hi = attn_clamp(seen->any.end - u->j0, 0, u->keys);
    x.full = !job->finish && seen->all.first <= u->j0 + x.lo && seen->all.end >= u->j0 + x.hi;
    const int64_t row = (u->b * p->hq + x.h) * p->sq + x.i0;
    x.lse = job->lse + row;
    x.delta = job->delta + row;
    x.keys = job->keys + u->b * p->sq + x.i0;
    const int64_t slot = u->unit / job->key_tiles % job->slots;
    x.dq = job->dq + ((slot * job->flash.group + place) * job->query_tiles + tile) *
                         job->query_tile * job->dk_row;
    backward_meet(&x, first, last);
}

static void run_backward(struct attn_backward *job, const struct attn_backward_scratch *w,
                         int64_t unit)
{
    const int64_t head = unit / job->key_tiles, tile = unit % job->key_tiles;
    struct backward_unit u = {.job = job,
                              .w = w,
                              .unit = unit,
                              .b = head / job->problem->hkv,
                              .g = head % job->problem->hkv,
                              .tile = tile,
                              .j0 = tile * job->key_tile};
    u.keys = attn_clamp(job->problem->sk - u.j0, 1, job->key_tile);
    for (int64_t place = 0; job->operands.grad_alibi.dtype && place < job->flash.group; place++)
        job->slopes[unit * job->flash.group + place] = 0;
    u.finite = backward_take_keys(&u);
    backward_clear_keys(&u);
    /* From the last query tile on, which most units of a causal head see: all of them begin there,
     * and one that follows another does not wait for its own first one. */
    for (int64_t n = 0; n < job->flash.group * job->query_tiles; n++) {
        attn_backward_follow(job, unit, n);
        backward_visit(&u, n / job->query_tiles, job->query_tiles - 1 - n % job->query_tiles);
        attn_backward_lead(job, unit, n);
    }
    backward_store_keys(&u);
}

/* Whether every cell of a row is forbidden. Asked only where dO . OUT is not finite. */
static bool backward_sees_none(const struct attn_backward *job, int64_t b, int64_t h, int64_t i,
                               struct attn_keys keys)
{
    const struct attn_tensor *bias = &job->operands.bias;
    const uint8_t *mask = attn_mask_row(&job->operands.mask, b, h, i);
    for (int64_t j = keys.first; bias->dtype && j < keys.end; j++)
        if ((!mask || mask[j * job->operands.mask.stride[3]]) &&
            attn_element_read(bias->dtype, bias->data,
                              attn_row_start(bias, b, h, i) + j * bias->stride[3]) != -INFINITY)
            return false;
    return bias->dtype != 0;
}

/* dO . OUT of a row. */
static float backward_delta(const struct attn_backward *job, const struct attn_backward_scratch *w,
                            int64_t b, int64_t h, int64_t i)
{
    const struct attn_tensor *out = &job->operands.out, *dout = &job->operands.dout;
    const int64_t dv = job->problem->dv;
    vf sum = vf_set1(0);
    widen(dout, attn_row_start(dout, b, h, i), dout->stride[3], dv, w->dout);
    widen(out, attn_row_start(out, b, h, i), out->stride[3], dv, w->held);
    for (int64_t c = 0; c < dv; c += VF_LANES)
        sum = vf_fma(vf_load(w->dout + c), vf_load(w->held + c), sum);
    return vf_sum(sum);
}

/* Before all units: lse and delta of the rows of a query tile. dq of a tile that sees no key. */
static void prepare_backward(struct attn_backward *job, const struct attn_backward_scratch *w,
                             int64_t b, int64_t h, int64_t tile)
{
    const struct attn_problem *p = job->problem;
    const struct attn_tensor *given = &job->operands.lse, *dq = &job->operands.grad_q;
    const int64_t first = tile * job->query_tile,
                  end = attn_clamp(first + job->query_tile, 0, p->sq);
    const struct attn_backward_seen *seen = &job->seen[b * job->query_tiles + tile];
    const bool none = seen->any.first >= seen->any.end;
    for (int64_t i = first; i < end; i++) {
        const int64_t at = (b * p->hq + h) * p->sq + i;
        const struct attn_keys keys =
            attn_keys_trim(job->keys[b * p->sq + i], &job->operands.mask, b, h, i);
        const float lse =
            ((const float *)
                 given->data)[b * given->stride[0] + h * given->stride[1] + i * given->stride[2]];
        /* A row with an infinite sum of weights has NaN for its weights. */
        job->lse[at] = lse == INFINITY ? NAN : lse * LOG2_E;
        job->delta[at] = 0;
        const bool shut = keys.first == keys.end || lse == -INFINITY;
        if (!shut)
            job->delta[at] = backward_delta(job, w, b, h, i);
        if (shut || (!isfinite(job->delta[at]) && backward_sees_none(job, b, h, i, keys))) {
            job->lse[at] = INFINITY;
            job->delta[at] = 0;
        }
        if (none && dq->dtype) {
            memset(w->q, 0, (size_t)job->dk_row * sizeof(float));
            narrow(dq, attn_row_start(dq, b, h, i), dq->stride[3], p->dq, w->q, 1.0f);
        }
    }
}

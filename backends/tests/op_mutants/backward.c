/* SPDX-License-Identifier: Apache-2.0 */
/* backward.c - gradients of attention: one pass over the rows for dQ and one over the keys for dK
 * and dV, each in tiles, with the lse that is given and delta of the out that is given. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "op_mutant.h"

enum { TILE = 16 };

/* Which gradient a cell is computed for. */
enum pass { FOR_DQ, FOR_DK, FOR_DV, FOR_REST };

/* One query head at work. */
struct head {
    const struct attn_problem *p;
    const struct attn_operands *o;
    int64_t b, h, g;
    float *delta; /* [B,Hq,Sq] */
    float *dq;    /* [B,Hq,Sq,Dq] sums of the run */
    float *dk, *dv;
    float *dbias, *dsink, *dalibi;
    unsigned runs; /* before this one */
};

struct cell {
    bool seen;
    float p, kept, ds, dz;
};

static float at(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return op_mutant_get(t, attn_row_start(t, b, h, i) + c * t->stride[3]);
}

static float dot(const struct head *x, const struct attn_tensor *row, int64_t i,
                 const struct attn_tensor *key, int64_t j, int64_t width)
{
    float sum = 0;
    for (int64_t c = 0; c < width; c++)
        sum += at(row, x->b, x->h, i, c) * at(key, x->b, x->g, j, c);
    return sum;
}

static int64_t offset(const struct head *x, enum pass pass)
{
    if (bug(bwd_corner) || (bug(bwd_corner_dkv) && (pass == FOR_DK || pass == FOR_DV)))
        return 0;
    return attn_keys_offset(x->p, &x->o->len, x->b);
}

static bool in_window(const struct head *x, int64_t from, int64_t j, enum pass pass)
{
    const bool for_key = pass == FOR_DK || pass == FOR_DV;
    if (!(x->p->flags & ATTN_FLAG_WINDOW))
        return true;
    if (x->p->window_left >= 0 && j < from - x->p->window_left - (bug(bwd_window_left) && !for_key))
        return false;
    return x->p->window_right < 0 || j <= from + x->p->window_right ||
           (bug(bwd_window_right) && for_key);
}

/* Does query i see key j, as this pass has it? */
static bool sees(const struct head *x, int64_t i, int64_t j, enum pass pass)
{
    const int64_t from = i + offset(x, pass);
    const bool for_key = pass == FOR_DK || pass == FOR_DV;
    if (j >= attn_keys_valid(x->p, &x->o->len, x->b, i))
        return false;
    if (x->p->flags & ATTN_FLAG_CAUSAL &&
        j > from - ((bug(bwd_mask_dkv) && for_key) || (bug(bwd_mask_dq) && pass == FOR_DQ)))
        return false;
    return in_window(x, from, j, pass);
}

/* Is a pair left out of this pass by mistake? */
static bool is_lost(const struct head *x, int64_t i, int64_t j, enum pass pass)
{
    const int64_t keys = x->p->sk / TILE * TILE, queries = x->p->sq / TILE * TILE;
    if (pass == FOR_DQ)
        return (bug(bwd_key_tail) && j >= keys) || (bug(bwd_pair_dq) && i == 7 && j == 11);
    if (pass == FOR_REST)
        return false;
    return (bug(bwd_query_tail) && i >= queries) ||
           (bug(bwd_pair_dk) && pass == FOR_DK && i == 7 && j == 11) ||
           (bug(bwd_pair_dv) && pass == FOR_DV && i == 7 && j == 11);
}

static bool keeps(const struct head *x, int64_t i, int64_t j)
{
    const struct attn_problem *p = x->p;
    if (!(p->flags & ATTN_FLAG_DROPOUT))
        return true;
    if (bug(bwd_dropout_order) && !x->o->keep.dtype && p->sq == p->sk)
        return attn_dropout_keeps(p, &x->o->keep, x->b, x->h, j, i);
    return attn_dropout_keeps(p, &x->o->keep, x->b, x->h, i, j);
}

static float distance(const struct head *x, int64_t i, int64_t j, bool sum)
{
    const int64_t off = bug(bwd_slope_off) && sum ? 0 : attn_keys_offset(x->p, &x->o->len, x->b);
    return fabsf((float)(i + off - j));
}

/* The score of a pair, and what the softcap makes of its gradient. */
static float score(const struct head *x, int64_t i, int64_t j, float *factor)
{
    const struct attn_problem *p = x->p;
    const struct attn_tensor *bias = &x->o->bias, *alibi = &x->o->alibi;
    float s = (float)p->scale * dot(x, &x->o->q, i, &x->o->k, j, p->dk);
    const float added = bias->dtype ? at(bias, x->b, x->h, i, j) : 0;
    *factor = 1;
    if (p->flags & ATTN_FLAG_SOFTCAP) {
        const float cap = (float)p->softcap, t = tanhf(s / cap);
        const float u = bug(bwd_cap_after_bias) ? (cap * t + added) / cap : t;
        *factor = bug(bwd_cap_factor) ? 1 : 1 - u * u;
        s = cap * t;
    }
    s += added;
    if (alibi->dtype)
        s -= op_mutant_get(alibi, x->h * alibi->stride[0]) * distance(x, i, j, false);
    return s;
}

static float lse_of(const struct head *x, int64_t i)
{
    const struct attn_tensor *lse = &x->o->lse, *sink = &x->o->sink;
    const int64_t h = bug(bwd_lse_head) && x->h > 0 ? x->h - 1 : x->h;
    float given = op_mutant_get(lse, attn_row_start(lse, x->b, h, i));
    if (bug(bwd_lse_ceiling))
        given = fminf(given, 1e3f);
    if (bug(bwd_lse_floor) && given > -INFINITY)
        given = fmaxf(given, -1e4f);
    if (!bug(bwd_sink_lse) || !sink->dtype)
        return given;
    return given + log1pf(-expf(op_mutant_get(sink, x->h * sink->stride[0]) - given));
}

static float delta_of(const struct head *x, int64_t i)
{
    const int64_t h = bug(bwd_delta_head) && x->h > 0 ? x->h - 1 : x->h;
    const int64_t row = bug(bwd_delta_next) ? (i + 1) % x->p->sq : i;
    const float delta = x->delta[(x->b * x->p->hq + h) * x->p->sq + row];
    if (bug(bwd_no_delta))
        return 0;
    if (bug(bwd_delta_kept))
        return delta / (float)(1 - x->p->dropout_p);
    return bug(bwd_delta_bf16) ? op_mutant_bf16(delta) : delta;
}

static float product(const struct head *x, int64_t i, int64_t j)
{
    const struct attn_tensor *v = &x->o->v;
    float sum = 0;
    if (bug(bwd_order_by_sign) && at(v, x->b, x->g, j, 0) < 0) {
        for (int64_t c = x->p->dv; c-- > 0;)
            sum += at(&x->o->dout, x->b, x->h, i, c) * at(v, x->b, x->g, j, c);
        return sum;
    }
    if (!bug(bwd_v_width) || v->stride[2] != x->p->dv)
        return dot(x, &x->o->dout, i, v, j, x->p->dv);
    for (int64_t c = 0; c < x->p->dv; c++) {
        const int64_t row = attn_row_start(v, x->b, x->g, 0) + j * x->p->dk % (x->p->sk * x->p->dv);
        const int64_t last = attn_row_start(v, x->b, x->g, x->p->sk - 1) + x->p->dv - 1;
        sum +=
            at(&x->o->dout, x->b, x->h, i, c) * op_mutant_get(v, row + c < last ? row + c : last);
    }
    return sum;
}

/* A row without keys under the two ways to get it wrong. */
static bool is_empty_wrong(const struct head *x, int64_t i, float *lse)
{
    if (*lse != -INFINITY)
        return false;
    if (bug(bwd_empty_seen))
        *lse = 0;
    (void)x, (void)i;
    return bug(bwd_empty_seen) || bug(bwd_empty_nan);
}

/* The largest score of the tile that begins at key j; -inf: no key is seen. */
static float highest(const struct head *x, int64_t i, int64_t j)
{
    float most = -INFINITY, factor;
    for (int64_t key = j < 0 ? 0 : j; key < j + TILE && key < x->p->sk; key++)
        if (sees(x, i, key, FOR_REST))
            most = fmaxf(most, score(x, i, key, &factor));
    return most;
}

/* Keys that are left out because of their scores. */
static bool is_skipped(const struct head *x, int64_t i, int64_t j, float s, float p)
{
    const int64_t tile = j / TILE * TILE;
    float factor;
    if (bug(bwd_whole))
        return p >= 1;
    if (bug(bwd_tie))
        return j > 0 && sees(x, i, j - 1, FOR_REST) && score(x, i, j - 1, &factor) == s;
    if (bug(bwd_skip_before))
        return highest(x, i, tile) < highest(x, i, tile + TILE) - 12;
    return bug(bwd_skip_after) && highest(x, i, tile) < highest(x, i, tile - TILE) - 12;
}

static struct cell cell_of(const struct head *x, int64_t i, int64_t j, enum pass pass)
{
    float factor = 1 / (float)(1 - x->p->dropout_p);
    factor = bug(bwd_factor_bf16) ? op_mutant_bf16(factor) : factor;
    struct cell cell = {.seen = sees(x, i, j, pass) && !is_lost(x, i, j, pass)};
    float lse = lse_of(x, i), of_cap;
    const bool odd = is_empty_wrong(x, i, &lse);
    const bool anyway =
        bug(bwd_masked_times_0) || bug(bwd_masked_low) || bug(bwd_masked_1e4) || odd;
    if (!cell.seen && !(anyway && !is_lost(x, i, j, pass)))
        return cell;
    float s = score(x, i, j, &of_cap);
    if (!cell.seen && bug(bwd_masked_low))
        s = -10;
    if (odd && bug(bwd_empty_nan))
        s = -INFINITY;
    if (!cell.seen && bug(bwd_masked_1e4))
        s -= 1e4f;
    cell.p = bug(bwd_exp_apart) ? expf(s) * expf(-lse) : expf(s - lse);
    if (is_skipped(x, i, j, s, cell.p))
        return (struct cell){.seen = false};
    if (!cell.seen && bug(bwd_masked_times_0))
        cell.p *= 0;
    cell.seen = true;
    const bool kept = keeps(x, i, j), dropout = x->p->flags & ATTN_FLAG_DROPOUT;
    cell.kept = kept || bug(bwd_dv_dropped) ? cell.p * (dropout ? factor : 1) : 0;
    float dp = kept || bug(bwd_dp_dropped) ? product(x, i, j) : 0;
    if (dropout && !bug(bwd_dp_kept))
        dp *= factor;
    cell.ds = cell.p * (dp - delta_of(x, i));
    if (pass == FOR_REST && bug(bwd_bias_kept))
        cell.ds = cell.p * dp;
    if (bug(bwd_ds_f16))
        cell.ds = attn_f32_of_f16(attn_f16_of_f32(cell.ds));
    cell.dz = cell.ds * of_cap;
    cell.kept = bug(bwd_p_bf16) ? op_mutant_bf16(cell.kept) : cell.kept;
    return cell;
}

/* delta of the out that dropout would not have changed. */
static float delta_own(const struct head *x, int64_t i)
{
    float sum = 0, factor;
    for (int64_t j = 0; j < x->p->sk; j++)
        if (sees(x, i, j, FOR_REST))
            sum += expf(score(x, i, j, &factor) - lse_of(x, i)) * product(x, i, j);
    return sum;
}

static void prepare(const struct head *x)
{
    const int64_t columns = x->p->dv - (bug(bwd_delta_early) ? 2 : 0);
    for (int64_t i = 0; i < x->p->sq; i++) {
        float sum = 0;
        for (int64_t c = 0; c < columns; c++) {
            const float out = at(&x->o->out, x->b, x->h, i, c);
            sum += at(&x->o->dout, x->b, x->h, i, c) *
                   (bug(bwd_delta_rounded) ? op_mutant_bf16(out) : out);
        }
        if (bug(bwd_delta_own))
            sum = delta_own(x, i);
        x->delta[(x->b * x->p->hq + x->h) * x->p->sq + i] = sum;
    }
}

static void run_rows(const struct head *x)
{
    const struct attn_problem *p = x->p;
    const float scale = (float)(bug(bwd_scale_dq) ? p->scale * p->scale : p->scale);
    for (int64_t i = 0; i < p->sq; i++) {
        float *dq = x->dq + ((x->b * p->hq + x->h) * p->sq + i) * p->dq;
        const bool raced = bug(bwd_dq_race) && i == 5 + x->runs % 8;
        bool any = false;
        for (int64_t first = 0; first < p->sk; first += TILE)
            for (int64_t j = first; j < p->sk && j < first + TILE; j++) {
                const struct cell cell = cell_of(x, i, j, FOR_DQ);
                any = any || cell.seen;
                for (int64_t c = 0; cell.seen && c < p->dq && !(raced && first == TILE); c++)
                    dq[c] += cell.dz * at(&x->o->k, x->b, x->g, j, c);
            }
        for (int64_t c = 0; c < p->dq && (any || !bug(bwd_empty_dq)); c++) {
            const int64_t place =
                attn_row_start(&x->o->grad_q, x->b, x->h, i) + c * x->o->grad_q.stride[3];
            op_mutant_put(&x->o->grad_q, bug(bwd_offset_31) ? place & INT32_MAX : place,
                          scale * dq[c]);
        }
    }
}

/* Adds what one head has of dK and dV. Returns whether it sees the key. */
static bool run_key(const struct head *x, int64_t j)
{
    const struct attn_problem *p = x->p;
    float *dk = x->dk + j * p->dk, *dv = x->dv + j * p->dv;
    bool seen = false;
    if (bug(bwd_group_overwrites)) {
        memset(dk, 0, (size_t)p->dk * sizeof(float));
        memset(dv, 0, (size_t)p->dv * sizeof(float));
    }
    for (int64_t i = 0; i < p->sq; i++) {
        const struct cell of_k = cell_of(x, i, j, FOR_DK), of_v = cell_of(x, i, j, FOR_DV);
        for (int64_t c = 0; of_k.seen && c < p->dk; c++)
            dk[c] += of_k.dz * at(&x->o->q, x->b, x->h, i, c);
        for (int64_t c = 0; of_v.seen && c < p->dv; c++)
            dv[c] += of_v.kept * at(&x->o->dout, x->b, x->h, i, c);
        seen = seen || of_k.seen;
    }
    return seen;
}

static void put_key(const struct head *x, int64_t g, int64_t j)
{
    const struct attn_tensor *dk = &x->o->grad_k, *dv = &x->o->grad_v;
    const float scale = bug(bwd_scale_dk) ? 1 : (float)x->p->scale;
    for (int64_t c = 0; c < x->p->dk; c++)
        op_mutant_put(dk, attn_row_start(dk, x->b, g, j) + c * dk->stride[3],
                      scale * x->dk[j * x->p->dk + c]);
    for (int64_t c = 0; c < x->p->dv; c++)
        op_mutant_put(dv, attn_row_start(dv, x->b, g, j) + c * dv->stride[3],
                      x->dv[j * x->p->dv + c]);
}

/* The key head of the query head at work. */
static int64_t key_head(const struct head *x)
{
    return bug(bwd_group_index) ? x->h % x->p->hkv : x->h / (x->p->hq / x->p->hkv);
}

static void run_group(struct head *x, int64_t g)
{
    const struct attn_problem *p = x->p;
    const int64_t heads = p->hq / p->hkv;
    if (!bug(bwd_dk_adds) || x->b == 0)
        memset(x->dk, 0, (size_t)(p->sk * p->dk) * sizeof(float));
    memset(x->dv, 0, (size_t)(p->sk * p->dv) * sizeof(float));
    for (int64_t j = 0; j < p->sk; j++) {
        bool seen = false;
        for (x->h = g * heads; x->h < (g + 1) * heads; x->h += bug(bwd_group_dkv) ? 2 : 1) {
            x->g = key_head(x);
            seen = run_key(x, j) || seen;
        }
        if (seen || !bug(bwd_unseen))
            put_key(x, g, j);
    }
}

/* Gradients that are sums over rows: of the bias, the sink and the slopes. */
static void run_sums(const struct head *x)
{
    const struct attn_problem *p = x->p;
    const struct attn_tensor *dbias = &x->o->grad_bias, *sink = &x->o->sink;
    for (int64_t i = 0; i < p->sq; i++) {
        bool any = false;
        for (int64_t j = 0; j < p->sk; j++) {
            const struct cell cell = cell_of(x, i, j, FOR_REST);
            if (!cell.seen)
                continue;
            any = true;
            x->dalibi[x->h] += (bug(bwd_slope_sign) ? 1 : -1) * cell.ds * distance(x, i, j, true);
            if (!dbias->dtype)
                continue;
            const int64_t index[] = {x->b, x->h, i, j};
            int64_t place = 0;
            for (int a = 0; a < 4; a++)
                place = place * dbias->shape[a] + (dbias->shape[a] > 1 ? index[a] : 0);
            x->dbias[place] += bug(bwd_bias_capped) ? cell.dz : cell.ds;
        }
        if (!any && sink->dtype && bug(bwd_sink_empty))
            x->dsink[x->h] += expf(INFINITY) * 0;
        if (any && sink->dtype)
            x->dsink[x->h] += (bug(bwd_sink_sign) ? 1 : -1) * delta_of(x, i) *
                              expf(op_mutant_get(sink, x->h * sink->stride[0]) - lse_of(x, i));
    }
}

static int64_t bias_cells(const struct attn_problem *p)
{
    const struct attn_tensor *dbias = attn_tensor_find(p, ATTN_GRAD_BIAS);
    int64_t cells = dbias != NULL;
    for (int a = 0; dbias && a < 4; a++)
        cells *= dbias->shape[a];
    return cells;
}

static int64_t floats(const struct attn_problem *p)
{
    return p->b * p->hq * p->sq * (1 + p->dq) + p->sk * (p->dk + p->dv) + bias_cells(p) + 2 * p->hq;
}

static void put_sums(const struct head *x)
{
    const struct attn_tensor *t = &x->o->grad_bias;
    for (int64_t n = 0; n < bias_cells(x->p); n++) {
        int64_t rest = n, place = 0;
        for (int a = 3; a >= 0; rest /= t->shape[a--])
            place += rest % t->shape[a] * t->stride[a];
        op_mutant_put(t, place, x->dbias[n]);
    }
    for (int64_t h = 0; h < x->p->hq; h++) {
        if (x->o->grad_sink.dtype)
            op_mutant_put(&x->o->grad_sink, h * x->o->grad_sink.stride[0], x->dsink[h]);
        if (x->o->grad_alibi.dtype)
            op_mutant_put(&x->o->grad_alibi, h * x->o->grad_alibi.stride[0], x->dalibi[h]);
    }
}

static void lay_out(const struct attn_problem *p, float *memory, struct head *x)
{
    const int64_t rows = p->b * p->hq * p->sq;
    x->dq = memory;
    x->delta = x->dq + rows * p->dq;
    x->dk = x->delta + rows;
    x->dv = x->dk + p->sk * p->dk;
    x->dbias = x->dv + p->sk * p->dv;
    x->dsink = x->dbias + bias_cells(p);
    x->dalibi = x->dsink + p->hq;
    if (!bug(bwd_dq_adds))
        memset(x->dq, 0, (size_t)(rows * p->dq) * sizeof(float));
}

static void run(const struct attn_problem *p, const struct attn_operands *o, float *memory)
{
    static unsigned runs;
    struct head x = {.p = p, .o = o, .runs = runs++};
    lay_out(p, memory, &x);
    memset(x.dbias, 0, (size_t)(bias_cells(p) + 2 * p->hq) * sizeof(float));
    for (x.b = 0; x.b < p->b; x.b++) {
        if (bug(bwd_bias_last))
            memset(x.dbias, 0, (size_t)bias_cells(p) * sizeof(float));
        if (bug(bwd_sink_batch))
            memset(x.dsink, 0, (size_t)p->hq * sizeof(float));
        for (x.h = 0; x.h < p->hq; x.h++) {
            x.g = key_head(&x);
            prepare(&x);
            run_rows(&x);
            run_sums(&x);
        }
        if (bug(bwd_empty_next) && x.b > 0 && attn_keys_valid(p, &o->len, x.b - 1, 0) == 0)
            continue;
        for (int64_t g = 0; g < p->hkv; g++)
            run_group(&x, g);
    }
    put_sums(&x);
}

static const uint32_t takes[] = {ATTN_BIAS,      ATTN_LEN,        ATTN_ALIBI,
                                 ATTN_SINK,      ATTN_KEEP,       ATTN_GRAD_BIAS,
                                 ATTN_GRAD_SINK, ATTN_GRAD_ALIBI, 0};

const struct op_mutant op_mutant_backward = {.op = ATTN_OP_ATTENTION_BACKWARD,
                                             .takes = takes,
                                             .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW |
                                                      ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
                                                      ATTN_FLAG_DROPOUT,
                                             .floats = floats,
                                             .run = run};

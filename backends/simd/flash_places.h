/* SPDX-License-Identifier: Apache-2.0 */
/* flash_places.h - part of flash_template.h: disentangled scores, products of queries and keys with
 * tables of positions. The rows that a cell reads depend on its distance x = j - i alone.
 *
 *   columns      the rows of both tables that an item and a tile of keys meet, by rising distance.
 *                Neighbouring distances with the same rows share a column, so keys that are far
 *                from all rows of the item have one
 *   q_i.KR       w->c2p, a row for each query of a group, computed for the columns of the group
 *   k_j.QR       w->p2c, a row for each column, computed once for a tile, and only for the keys
 *                that some row of the item meets at these distances. With K in place, cell by cell
 *   s_ij         takes c2p[i][column of x] and p2c[column of x][j]. In a row the former lie side by
 *                side or are one number; the latter lie on a diagonal
 *
 * Both products run in the micro-kernel of the dot product. Each head is a group by itself, so row
 * r of an item is query row0 + r. */

static bool has_places(const struct attn_flash *job)
{
    return job->score == ATTN_SCORE_DISENTANGLED;
}

/* The rows of KR and of QR at distance x. */
static void find_places(const struct attn_flash *job, int64_t off, int64_t x, int32_t *kr,
                        int32_t *qr)
{
    const struct attn_tensor *table = &job->operands.rel_buckets;
    const int64_t rows = job->operands.score_kr.shape[1], span = rows / 2;
    int64_t d = attn_clamp(off - x + span, 0, rows - 1);
    int64_t turned = attn_clamp(x - off + span, 0, rows - 1);
    if (table->dtype) {
        const int64_t entry = attn_clamp(job->sk - 1 - x, 0, job->sq + job->sk - 2);
        d = ((const int32_t *)table->data)[entry * table->stride[0]];
        turned = attn_clamp(rows - d, 0, rows - 1);
    }
    *kr = (int32_t)d;
    *qr = (int32_t)(job->problem->variant == ATTN_POSITIONS_PAPER ? turned : d);
}

/* The distances at which rows of the block meet keys of the tile. A row computes whole vectors. */
static void find_distances(const struct attn_flash_scratch *w, const struct block *block,
                           struct tile *tile)
{
    int64_t first = INT64_MAX, end = INT64_MIN;
    for (int64_t r = 0; r < block->rows; r++) {
        const int64_t i = block->row0 + r;
        const int64_t lo = w->lo[r] > tile->j0 + tile->lo ? w->lo[r] : tile->j0 + tile->lo;
        const int64_t hi = w->hi[r] < tile->j0 + tile->hi ? w->hi[r] : tile->j0 + tile->hi;
        if (lo >= hi)
            continue;
        first = lo - i < first ? lo - i : first;
        end = hi - i > end ? hi - i : end;
    }
    tile->x_first = first < end ? first - (VF_LANES - 1) : 0;
    tile->x_end = first < end ? end + (VF_LANES - 1) : 0;
}

static void find_columns(const struct attn_flash *job, const struct attn_flash_scratch *w,
                         const struct block *block, struct tile *tile)
{
    const int64_t off = attn_keys_offset(job->problem, &job->operands.len, block->b);
    int64_t n = 0;
    find_distances(w, block, tile);
    for (int64_t x = tile->x_first; x < tile->x_end; x++) {
        int32_t kr, qr;
        find_places(job, off, x, &kr, &qr);
        if (n == 0 || kr != w->kr_row[n - 1] || qr != w->qr_row[n - 1]) {
            w->kr_row[n] = kr;
            w->qr_row[n] = qr;
            w->starts[n++] = (int32_t)(x - tile->x_first);
        }
        w->column[x - tile->x_first] = (int32_t)(n - 1);
    }
    w->starts[n] = (int32_t)(tile->x_end - tile->x_first);
    tile->columns = n;
}

/* Index of a row of a table of positions. */
static int64_t place_start(const struct attn_tensor *table, const struct block *block, int32_t row)
{
    return block->g * table->stride[0] + row * table->stride[1];
}

/* Rows of KR as packed keys, one for each column. Queries that meet K in place have the factor. */
static void pack_places(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block, const struct tile *tile)
{
    const struct attn_tensor *kr = &job->operands.score_kr;
    const int64_t width = attn_round_up(job->dk, VF_LANES);
    const float factor = block->direct ? 1.0f : job->packed;
    for (int64_t n = 0; n < tile->columns; n += VF_LANES) {
        for (int64_t m = 0; m < VF_LANES && n + m < tile->columns; m++)
            widen(kr, place_start(kr, block, w->kr_row[n + m]), kr->stride[2], job->dk,
                  w->held + m * width);
        pack_k_columns(w->held, width, 0, tile->columns - n, job->dk, factor,
                       w->kr + n / FLASH_NR * FLASH_NR * job->dk + n % FLASH_NR);
    }
}

/* `count` rows of QR from column n on as floats: in place, or copied. */
static void place_rows(const struct attn_flash *job, const struct attn_flash_scratch *w,
                       const struct block *block, int64_t n, int count, const float **to)
{
    const struct attn_tensor *qr = &job->operands.score_qr;
    const bool in_place = qr->dtype == ATTN_F32 && qr->stride[2] == 1;
    for (int r = 0; r < count; r++) {
        const int64_t at = place_start(qr, block, w->qr_row[n + r]);
        float *copy = w->held + r * attn_round_up(job->dk, VF_LANES);
        to[r] = in_place ? (const float *)qr->data + at : copy;
        if (!in_place)
            widen(qr, at, qr->stride[2], job->dk, copy);
    }
}

/* k.QR of the packed keys of a tile. */
static void places_meet_keys(const struct attn_flash *job, const struct attn_flash_scratch *w,
                             const struct block *block, const struct tile *tile)
{
    const int64_t least = tile->lo / VF_LANES * VF_LANES, most = attn_round_up(tile->hi, VF_LANES);
    const int64_t shift = tile->x_first + block->row0 - tile->j0; /* the key of the first row */
    struct span span = {.k = w->k, .dk = job->dk};
    for (int64_t n = 0; n < tile->columns; n += FLASH_MR) {
        const int count = (int)(tile->columns - n < FLASH_MR ? tile->columns - n : FLASH_MR);
        const int64_t from = w->starts[n] + shift;
        const int64_t to = w->starts[n + count] + shift + block->rows - 1;
        span.from = attn_clamp(from, least, most) / VF_LANES * VF_LANES;
        span.to = attn_round_up(attn_clamp(to, least, most), VF_LANES);
        span.s = w->p2c + n * LD;
        place_rows(job, w, block, n, count, span.q);
        score_product(count, &span);
    }
}

/* The positions of a tile, whose keys are packed or in place. */
static void take_places(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        const struct block *block, struct tile *tile)
{
    find_columns(job, w, block, tile);
    if (job->problem->parts != ATTN_PARTS_P2C)
        pack_places(job, w, block, tile);
    if (job->problem->parts != ATTN_PARTS_C2P && !block->direct)
        places_meet_keys(job, w, block, tile);
}

/* q.KR for the columns of a group. Returns the column that lies first in a row of c2p. */
static int32_t places_meet_queries(const struct attn_flash_scratch *w, const struct block *block,
                                   const struct tile *tile, const struct group *group,
                                   const struct span *queries)
{
    const int64_t i = block->row0 + group->r0, most = tile->x_end - 1;
    const int64_t from = tile->j0 + group->from - (i + group->count - 1);
    const int64_t to = tile->j0 + group->to - 1 - i;
    const int32_t n = w->column[attn_clamp(from, tile->x_first, most) - tile->x_first];
    const int32_t last = w->column[attn_clamp(to, tile->x_first, most) - tile->x_first];
    const int32_t base = n / FLASH_NR * FLASH_NR;
    struct span span = {.k = w->kr + base * queries->dk,
                        .dk = queries->dk,
                        .from = (n - base) / VF_LANES * VF_LANES,
                        .to = attn_round_up(last + 1 - base, VF_LANES),
                        .s = w->c2p};
    memcpy(span.q, queries->q, sizeof span.q);
    score_product(group->count, &span);
    return base;
}

/* Adds c2p of one query, which begins with column `base`. */
static void add_c2p(const struct attn_flash_scratch *w, const struct tile *tile,
                    const struct row *row, const float *c2p, int32_t base)
{
    const int64_t shift = tile->j0 - row->i - tile->x_first;
    for (int64_t j = row->lo / VF_LANES * VF_LANES; j < row->hi; j += VF_LANES) {
        const int32_t *at = w->column + shift + j;
        vf x;
        if (at[VF_LANES - 1] - at[0] == VF_LANES - 1)
            x = vf_loadu(c2p + at[0] - base);
        else if (at[VF_LANES - 1] == at[0])
            x = vf_set1(c2p[at[0] - base]);
        else
            x = vf_gather(c2p, at, base);
        vf_store(row->s + j, vf_add(vf_load(row->s + j), x));
    }
}

/* The diagonals that a vector of keys needs of p2c: row r of the group has, in lane l, lane l of
 * the vector at distance (its first one) + l. x[n] is the vector at the n-th distance, and lanes
 * are taken from later ones by the bits of their number. Row r is then at x[MR - 1 - r]. */
FLASH_INLINE void turn_lanes(const int bit, vf *x)
{
#pragma GCC unroll 32
    for (int n = 0; n < FLASH_MR + VF_LANES - 2 * bit; n++)
        x[n] = vf_mix(bit, x[n], x[n + bit]);
}

FLASH_INLINE void turn_diagonals(vf *x)
{
    turn_lanes(1, x);
    turn_lanes(2, x);
    turn_lanes(4, x);
    if (VF_LANES == 16)
        turn_lanes(8, x);
}

/* Adds p2c of a group. */
FLASH_APART void add_p2c(const struct attn_flash_scratch *w, const struct block *block,
                         const struct tile *tile, const struct group *group)
{
    enum { DISTANCES = FLASH_MR + VF_LANES - 1 };
    const int64_t most = tile->x_end - tile->x_first - 1;
    const int64_t shift =
        tile->j0 - (block->row0 + group->r0 + FLASH_MR - 1) - tile->x_first; /* of the last row */
    for (int64_t j = group->from; j < group->to; j += VF_LANES) {
        vf x[DISTANCES];
#pragma GCC unroll 32
        for (int n = 0; n < DISTANCES; n++) {
            const int64_t at = attn_clamp(shift + j + n, 0, most);
            x[n] = vf_load(w->p2c + w->column[at] * LD + j);
        }
        turn_diagonals(x);
#pragma GCC unroll 16
        for (int r = 0; r < FLASH_MR; r++) {
            const struct row *row = &group->rows[r];
            if (r < group->count && row->lo < j + VF_LANES && row->hi > j)
                vf_store(row->s + j, vf_add(vf_load(row->s + j), x[FLASH_MR - 1 - r]));
        }
    }
}

/* The dot product of two rows of `count` floats. */
FLASH_INLINE float dot_rows(const float *a, const float *b, int64_t count)
{
    vf sum = vf_set1(0.0f);
    int64_t c = 0;
    for (; c + VF_LANES <= count; c += VF_LANES)
        sum = vf_fma(vf_loadu(a + c), vf_loadu(b + c), sum);
    if (c < count)
        sum = vf_fma(vf_load_first(a + c, count - c), vf_load_first(b + c, count - c), sum);
    return vf_sum(sum);
}

/* Adds k.QR to the scores of a group, with K in place: a dot product for each cell. */
FLASH_APART void direct_p2c(const struct attn_flash_scratch *w, const struct block *block,
                            const struct tile *tile, const struct group *group)
{
    const struct attn_flash *job = group->job;
    const struct attn_tensor *k = &job->operands.k;
    float *copy = w->held + FLASH_MR * attn_round_up(job->dk, VF_LANES);
    int64_t at = attn_row_start(k, block->b, block->kv, tile->j0 + group->lo);
    for (int64_t j = group->lo; j < group->hi; j++, at += k->stride[2]) {
        const float *key = k->dtype == ATTN_F32 ? (const float *)k->data + at : copy, *place;
        if (key == copy)
            widen(k, at, 1, job->dk, copy);
        for (int r = 0; r < group->count; r++) {
            const struct row *row = &group->rows[r];
            if (j < row->lo || j >= row->hi)
                continue;
            place_rows(job, w, block, w->column[tile->j0 + j - row->i - tile->x_first], 1, &place);
            row->s[j] += dot_rows(key, place, job->dk) * job->packed;
        }
    }
}

/* Adds the products with positions to the scores of a group. */
static void add_places(const struct attn_flash_scratch *w, const struct block *block,
                       const struct tile *tile, const struct group *group,
                       const struct span *queries)
{
    const int64_t parts = group->job->problem->parts;
    if (parts != ATTN_PARTS_P2C) {
        const int32_t base = places_meet_queries(w, block, tile, group, queries);
        for (int r = 0; r < group->count; r++)
            add_c2p(w, tile, &group->rows[r], w->c2p + r * LD, base);
    }
    if (parts != ATTN_PARTS_C2P && block->direct)
        direct_p2c(w, block, tile, group);
    else if (parts != ATTN_PARTS_C2P)
        add_p2c(w, block, tile, group);
}

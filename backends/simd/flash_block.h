/* SPDX-License-Identifier: Apache-2.0 */
/* flash_block.h - part of flash_template.h: what an item is made of. Its rows come in groups of MR,
 * its keys in tiles. */

/* An item at work. */
struct block {
    int64_t b, g, kv;                   /* batch, group of query heads, key/value head */
    int64_t row0, rows;                 /* first folded row, and how many */
    int64_t lo, hi;                     /* union of the rows' intervals */
    int64_t near_lo, near_hi;           /* the same of their windows, without other global tokens */
    int64_t width;                      /* of a row of w->o: dv rounded up to a vector */
    bool direct;                        /* few rows: K and V are read in place (flash_direct.h) */
    bool careful;                       /* direct: V is not finite */
    int64_t part;                       /* of the keys; 0 if they are not split */
    const struct attn_flash_item *next; /* of this thread, or NULL */
};

/* The tile of keys at hand. */
struct tile {
    int64_t j0;             /* first key */
    int64_t lo, hi;         /* packed keys, relative to j0 */
    int64_t bad_lo, bad_hi; /* interval around keys whose V is not finite; empty: lo >= hi */
    const float *v;         /* of key j0: in place, or packed */
    int64_t v_key, v_panel; /* floats between keys, and between panels of NR columns */
    int64_t x_first, x_end; /* disentangled scores: distances, and their columns (flash_places.h) */
    int64_t columns;
};

/* One row and its scores with one tile. Keys count from the first one of the tile. */
struct row {
    int64_t h, i;   /* query head, query */
    int64_t lo, hi; /* the keys that it may see, lo <= hi; others are forbidden */
    bool gaps;      /* and so are some between them (flash_sparse.h) */
    float *s;
};

/* The group of rows at hand: as many as a micro-kernel takes. */
struct group {
    const struct attn_flash *job;
    int64_t b, j0, r0; /* r0: the first row in the block */
    int count;         /* rows, at most MR */
    int64_t lo, hi;    /* union of the rows' keys */
    int64_t from, to;  /* keys that the product computes: multiples of VF_LANES around lo, hi */
    int64_t clean_from, clean_to; /* panels whose keys all rows may see and whose raw scores are
                                     final, from and to included; empty: both are from */
    struct ahead *ahead;          /* what to prefetch meanwhile, or NULL */
    const struct meanwhile *meanwhile;
    float top[FLASH_MR * VF_LANES] __attribute__((aligned(64))); /* maxima, lane by lane */
    struct row rows[FLASH_MR];
};

/* The query of a row, and the place of its head in the group of query heads. */
FLASH_INLINE void find_row(const struct attn_flash *job, const struct block *block, int64_t r,
                           int64_t *place, int64_t *i)
{
    bool alone = job->group == 1; /* usual; needs no division */
    *i = alone ? block->row0 + r : (block->row0 + r) / job->group;
    *place = alone ? 0 : (block->row0 + r) % job->group;
}

/* From a row to the next one. */
FLASH_INLINE void next_row(const struct attn_flash *job, int64_t *place, int64_t *i)
{
    if (++*place == job->group) {
        *place = 0;
        ++*i;
    }
}

/* Query head and query of a row. */
static inline int64_t row_head(const struct attn_flash *job, const struct block *block, int64_t r)
{
    int64_t place, i;
    find_row(job, block, r, &place, &i);
    return block->g * job->group + place;
}

static inline int64_t row_query(const struct attn_flash *job, const struct block *block, int64_t r)
{
    int64_t place, i;
    find_row(job, block, r, &place, &i);
    return i;
}

static struct block make_block(const struct attn_flash *job, const struct attn_flash_item *item)
{
    return (struct block){.b = item->head / job->groups,
                          .g = item->head % job->groups,
                          .kv = item->head % job->groups / job->share,
                          .row0 = item->row0,
                          .rows = item->rows,
                          .part = item->part,
                          .width = attn_round_up(job->dv, VF_LANES),
                          .direct = job->direct};
}

/* Sets the rows of a group, from r0 on. Returns false if there are none. */
static bool take_rows(const struct block *block, struct group *group, int64_t r0)
{
    int64_t left = block->rows - r0;
    group->r0 = r0;
    group->count = left < FLASH_MR ? (int)left : FLASH_MR;
    return left > 0;
}

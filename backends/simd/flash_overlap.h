/* SPDX-License-Identifier: Apache-2.0 */
/* flash_overlap.h - part of flash_template.h: what flash_attend.h does, with three groups of rows
 * under way, so that tiles and vectors work at the same time:
 *
 *   tiles     scores of group n, then weights of group n - 2 times V
 *   vectors   meanwhile the weights of group n - 1, row by row between the steps of the tiles
 *
 * One stream of instructions does both. A step of four products keeps the tiles busy for 64 cycles.
 * It takes some 40 of the 512 instructions that the processor holds in flight, so the processor
 * reaches the weights of the next rows, which depend on nothing under way, long before the step is
 * done. The result of a row does not depend on the order. At both ends of a tile of keys, groups
 * have no neighbours: of 24 groups of an item this costs the time of one. */
#define AMX_BESIDE 2

/* A group under way. */
struct passage {
    struct attn_flash_scratch w; /* scores have a place of their own */
    struct group group;
    struct softmax softmax;
    struct meanwhile meanwhile; /* its weights, between the steps of other groups */
    bool live;                  /* some row sees a key of the tile */
    int weighed;                /* rows whose weights are done */
    int64_t due, steps;         /* each step makes count / steps of a row due */
};

/* Computes weights up to this row. */
static void weigh_until(struct passage *x, int64_t rows)
{
    const struct group *group = &x->group;
    const float unit = score_unit(group->job);
    for (int r = x->weighed; r < rows; r++)
        x->softmax.added[r] =
            weigh_pairs(group->rows[r].s, group->from, group->to, x->softmax.shift[r], unit);
    x->weighed = rows > x->weighed ? (int)rows : x->weighed;
}

static void weigh_step(void *passage)
{
    struct passage *x = passage;
    x->due += x->group.count;
    int64_t rows = x->due / x->steps;
    weigh_until(x, rows < x->group.count ? rows : x->group.count);
}

/* Steps of both products of a group with a tile of keys. */
static int64_t count_steps(const struct attn_flash *job, const struct block *block,
                           const struct tile *tile)
{
    int64_t keys = (tile->hi - tile->lo + AMX_BLOCK - 1) / AMX_BLOCK;
    int64_t columns = (block->width + AMX_BLOCK - 1) / AMX_BLOCK;
    return keys * (2 * pairs(job->dk) / AMX_INNER + columns);
}

/* Begins the weights of a group whose scores are final. Returns NULL if they are done at once. */
static const struct meanwhile *start_weights(const struct block *block, const struct tile *tile,
                                             struct passage *x)
{
    const struct group *group = &x->group;
    bool careful = meets_bad(block, tile, group);
    start_softmax(group, x->w.max + group->r0, &x->softmax);
    x->meanwhile = (struct meanwhile){.step = weigh_step, .what = x};
    x->weighed = 0;
    x->due = 0;
    x->steps = count_steps(group->job, block, tile);
    if (!narrowed_late(group, careful))
        return &x->meanwhile;
    weigh_scores(group, careful, x->softmax.shift, x->softmax.added);
    x->weighed = group->count;
    return NULL;
}

/* All groups of the block meet a tile. `group` holds what they have in common. */
static void attend_groups(const struct attn_flash_scratch *w, const struct block *block,
                          const struct tile *tile, const struct group *group)
{
    struct passage passages[1 + AMX_BESIDE];
    const int64_t groups = (block->rows + FLASH_MR - 1) / FLASH_MR;
    for (int64_t n = 0; n < groups + AMX_BESIDE; n++) {
        struct passage *scored = &passages[n % 3], *weighed = &passages[(n + 2) % 3];
        struct passage *joined = &passages[(n + 1) % 3];
        bool weighs = n >= 1 && n <= groups && weighed->live;
        const struct meanwhile *meanwhile = weighs ? start_weights(block, tile, weighed) : NULL;
        if (n < groups) {
            scored->w = *w;
            scored->w.s += n % 3 * FLASH_MR * LD;
            scored->group = *group;
            scored->group.meanwhile = meanwhile;
            take_rows(block, &scored->group, n * FLASH_MR);
            scored->live = score_group(&scored->w, block, tile, &scored->group);
        }
        if (n >= 2 && joined->live) {
            joined->group.meanwhile = meanwhile;
            join_group(&joined->w, block, tile, &joined->group, &joined->softmax);
        }
        if (weighs) {
            weigh_until(weighed, weighed->group.count);
            end_weights(&weighed->w, tile, &weighed->group, &weighed->softmax);
        }
    }
}

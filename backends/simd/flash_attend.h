/* SPDX-License-Identifier: Apache-2.0 */
/* flash_attend.h - part of flash_template.h: a tile of keys meets all groups of rows, one after the
 * other. flash_overlap.h takes its place where tiles and vectors work side by side. */

/* One tile of keys joins the outputs of all groups, which are like `group`. */
static void attend_groups(const struct attn_flash_scratch *w, const struct block *block,
                          const struct tile *tile, struct group *group)
{
    struct softmax softmax;
    for (int64_t r0 = 0; take_rows(block, group, r0); r0 += FLASH_MR) {
        if (!score_group(w, block, tile, group))
            continue;
        start_softmax(group, w->max + group->r0, &softmax);
        weigh_scores(group, meets_bad(block, tile, group), softmax.shift, softmax.added);
        end_weights(w, tile, group, &softmax);
        join_group(w, block, tile, group, &softmax);
    }
}

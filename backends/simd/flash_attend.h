/* SPDX-License-Identifier: Apache-2.0 */
/* flash_attend.h - part of flash_template.h: a tile of keys meets all groups of rows, one group
 * after the other. Tiles of AMX have flash_overlap.h instead. */
/* All groups of the block meet a tile. `group` holds what they have in common. */
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

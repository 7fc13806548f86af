/* SPDX-License-Identifier: Apache-2.0 */
/* landmarks_template.h - the small matrices of nystrom, after flash_template.h and matrix_tile.h:
 * means of segments, the weights between them, and the iterated inverse. */
#include "landmarks.h"

/* The part's head of a buffer. */
static float *landmark_head(const struct attn_landmark_part *part, int buffer)
{
    const struct attn_tensor *t = &part->landmarks->buffers[buffer];
    return (float *)t->data + attn_row_start(t, part->b, part->h, 0);
}

/* Means of the rows of each segment. `row` has room for a row. */
static void average(const struct attn_landmark_part *part, const struct attn_tensor *x, int buffer,
                    float *row)
{
    const struct attn_tensor *mean = &part->landmarks->buffers[buffer];
    const int64_t steps = x->shape[2], m = mean->shape[2], width = x->shape[3];
    float *to = landmark_head(part, buffer);
    for (int64_t l = 0; l < m; l++, to += mean->stride[2]) {
        const int64_t begin = l * steps / m, end = (l + 1) * steps / m;
        const vf count = vf_set1((float)(end - begin));
        for (int64_t i = begin; i < end; i++) {
            widen(x, attn_row_start(x, part->b, part->h, i), x->stride[3], width,
                  i == begin ? to : row);
            for (int64_t c = 0; i > begin && c < width; c += VF_LANES)
                vf_store(to + c, vf_add(vf_load(to + c), vf_load(row + c)));
        }
        for (int64_t c = 0; c < width; c += VF_LANES)
            vf_store(to + c, vf_div(vf_load(to + c), count));
    }
}

/* A row of m products becomes weights, which join `sums`. `factor` brings them to the log2 domain.
 * What lies beyond m in the last vector becomes 0. */
static void soften(float *s, int64_t m, float factor, float *sums)
{
    const int64_t wide = attn_round_up(m, VF_LANES);
    vf top = vf_set1(-INFINITY), sum = vf_set1(0);
    for (int64_t j = 0; j < wide; j++)
        s[j] = j < m ? factor * s[j] : -INFINITY;
    for (int64_t j = 0; j < wide; j += VF_LANES)
        top = vf_max(vf_load(s + j), top); /* NaN is left to the sum */
    top = vf_set1(vf_largest(top));
    for (int64_t j = 0; j < wide; j += VF_LANES) {
        const vf x = exp2_negative(vf_sub(vf_load(s + j), top));
        vf_store(s + j, x);
        sum = vf_add(sum, x);
    }
    sum = vf_set1(vf_sum(sum));
    for (int64_t j = 0; j < wide; j += VF_LANES) {
        const vf x = vf_div(vf_load(s + j), sum);
        vf_store(s + j, x);
        vf_store(sums + j, vf_add(vf_load(sums + j), x));
    }
}

/* Means of q and k, and A of a head. Returns its largest column sum. */
static float weigh_landmarks(const struct attn_landmark_part *part)
{
    const struct attn_landmarks *x = part->landmarks;
    const struct attn_tensor *means = &x->buffers[ATTN_MARK_Q_MEAN];
    const int64_t row = x->buffers[ATTN_MARK_A].stride[2], dk = x->problem->dk, m = x->m;
    float *sums = part->scratch, *turned = sums + row, *k = landmark_head(part, ATTN_MARK_K_MEAN);
    float *a = landmark_head(part, ATTN_MARK_A), most = 0;
    average(part, part->q, ATTN_MARK_Q_MEAN, turned);
    average(part, part->k, ATTN_MARK_K_MEAN, turned);
    memset(sums, 0, (size_t)((1 + dk) * row) * sizeof *sums);
    for (int64_t l = 0; l < m; l++)
        for (int64_t c = 0; c < dk; c++)
            turned[c * row + l] = k[l * means->stride[2] + c];
    matrix_multiply(&(struct matrix_product){.a = landmark_head(part, ATTN_MARK_Q_MEAN),
                                             .a_row = means->stride[2],
                                             .a_step = 1,
                                             .b = turned,
                                             .b_row = row,
                                             .c = a,
                                             .c_row = row,
                                             .rows = m,
                                             .columns = m,
                                             .depth = dk,
                                             .fresh = true});
    for (int64_t l = 0; l < m; l++)
        soften(a + l * row, m, (float)x->problem->scale * LOG2_E, sums);
    for (int64_t j = 0; j < m; j++)
        most = sums[j] > most || isnan(sums[j]) ? sums[j] : most;
    return most;
}

/* c = a b, all [m,m] with rows `row` apart. */
static void multiply_landmarks(int64_t m, int64_t row, const float *a, const float *b, float *c)
{
    matrix_multiply(&(struct matrix_product){.a = a,
                                             .a_row = row,
                                             .a_step = 1,
                                             .b = b,
                                             .b_row = row,
                                             .c = c,
                                             .c_row = row,
                                             .rows = m,
                                             .columns = m,
                                             .depth = m,
                                             .fresh = true});
}

/* to = c I - by x, with the columns that products round up to */
static void complement(int64_t m, int64_t row, float c, float by, const float *x, float *to)
{
    const vf less = vf_set1(-by);
    for (int64_t i = 0; i < m; i++) {
        const float own = c - by * x[i * row + i];
        for (int64_t j = 0; j < attn_round_up(m, FLASH_NR); j += VF_LANES)
            vf_store(to + i * row + j, vf_mul(less, vf_load(x + i * row + j)));
        to[i * row + i] = own;
    }
}

/* Z, which begins as A^T / norm, and Z G V of a head. The quarter of each iteration is taken
 * before its last product: it is a power of two. */
static void invert_landmarks(const struct attn_landmark_part *part, float norm)
{
    const struct attn_landmarks *x = part->landmarks;
    const struct attn_tensor *gv = &x->buffers[ATTN_MARK_GV];
    const int64_t row = x->buffers[ATTN_MARK_A].stride[2], m = x->m;
    const float *a = landmark_head(part, ATTN_MARK_A);
    float *z = part->scratch, *az = z + m * row, *t = az + m * row, *y = t + m * row;
    memset(z, 0, (size_t)(m * row) * sizeof *z);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < m; j++)
            z[j * row + i] = a[i * row + j] / norm;
    for (int64_t n = 0; n < x->problem->iterations; n++) {
        float *old = z;
        multiply_landmarks(m, row, a, z, az);
        complement(m, row, 7, 1, az, t);
        multiply_landmarks(m, row, az, t, y);
        complement(m, row, 15, 1, y, y);
        multiply_landmarks(m, row, az, y, t);
        complement(m, row, 3.25F, 0.25F, t, t);
        multiply_landmarks(m, row, z, t, y);
        z = y;
        y = old;
    }
    matrix_multiply(&(struct matrix_product){.a = z,
                                             .a_row = row,
                                             .a_step = 1,
                                             .b = landmark_head(part, ATTN_MARK_GV),
                                             .b_row = gv->stride[2],
                                             .c = landmark_head(part, ATTN_MARK_ZGV),
                                             .c_row = gv->stride[2],
                                             .rows = m,
                                             .columns = x->problem->dv,
                                             .depth = m,
                                             .fresh = true});
}

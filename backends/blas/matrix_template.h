/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_template.h - operands as matrices: GEMM, GEMV, and copies of matrices that BLAS cannot
 * use.
 *
 * Include it after softmax_template.h. */

/* A matrix as BLAS receives it. */
struct NAME(matrix) {
    const REAL *data;
    struct attn_blas_matrix form;
};

/* Where a product goes. Its rows are contiguous, or its columns if it is transposed. */
struct NAME(result) {
    REAL *data;
    struct attn_blas_matrix form;
};

/* Rows and columns of a view, `at` the first element. */
static struct NAME(matrix) matrix_at(const struct attn_tensor *view, int64_t at, int64_t rows,
                                     int64_t row_stride, int64_t columns, int64_t column_stride)
{
    struct NAME(matrix) matrix = {.data = (const REAL *)view->data + at};
    attn_blas_matrix(rows, columns, row_stride, column_stride, &matrix.form);
    return matrix;
}

/* A slice of an operand from `row` on. */
static struct NAME(matrix) slice(const struct attn_tensor *view, int64_t b, int64_t h, int64_t row,
                                 int64_t row_axis, int64_t rows, int64_t columns)
{
    int64_t at = b * view->stride[0] + h * view->stride[1] + row * view->stride[2];
    return matrix_at(view, at, rows, view->stride[row_axis], columns, view->stride[3]);
}

static struct NAME(matrix) flip(struct NAME(matrix) matrix)
{
    matrix.form.transposed = !matrix.form.transposed;
    return matrix;
}

/* C = alpha A B^T + beta C for A of rows x inner, B of columns x inner. */
static void multiply(struct NAME(matrix) a, struct NAME(matrix) b, int64_t rows, int64_t columns,
                     int64_t inner, REAL alpha, REAL beta, struct NAME(result) c)
{
    int flipped = c.form.transposed; /* column-major: what lies by rows is a transpose */
    GEMM(flipped ? CblasColMajor : CblasRowMajor,
         a.form.transposed != flipped ? CblasTrans : CblasNoTrans,
         b.form.transposed != flipped ? CblasNoTrans : CblasTrans, (int)rows, (int)columns,
         (int)inner, alpha, a.data, a.form.ld, b.data, b.form.ld, beta, c.data, c.form.ld);
}

/* y = alpha A x for A of rows x columns. */
static void multiply_vector(struct NAME(matrix) a, int64_t rows, int64_t columns, REAL alpha,
                            const REAL *x, int step, REAL *y)
{
    int flipped = a.form.transposed;
    /* zeroed, although beta is 0: some libraries scale what is there, and 0 * NaN is NaN */
    memset(y, 0, (size_t)rows * sizeof(*y));
    GEMV(CblasRowMajor, flipped ? CblasTrans : CblasNoTrans, (int)(flipped ? columns : rows),
         (int)(flipped ? rows : columns), alpha, a.data, a.form.ld, x, step, 0, y, 1);
}

/* Sets every row to the bias. A GEMM with beta 1 then adds to it. */
static void start_rows(const struct attn_tensor *bias, int64_t rows, int64_t width,
                       struct NAME(result) y)
{
    int64_t ld = y.form.ld;
    if (y.form.transposed) {
        for (int64_t o = 0; o < width; o++)
            for (int64_t s = 0; s < rows; s++)
                y.data[o * ld + s] = load_entry(bias, o * bias->stride[0]);
        return;
    }
    for (int64_t o = 0; o < width; o++)
        y.data[o] = load_entry(bias, o * bias->stride[0]);
    for (int64_t s = 1; s < rows; s++)
        memcpy(y.data + s * ld, y.data, (size_t)width * sizeof(*y.data));
}

/* y = x w^T + bias for rows of x in batch b. Without a bias, its dtype is 0. */
static void project(const struct attn_tensor *x, int64_t b, const struct attn_tensor *w,
                    const struct attn_tensor *bias, struct NAME(result) y)
{
    int64_t rows = x->shape[1], inner = x->shape[2], width = w->shape[0];
    if (rows == 0)
        return;
    if (bias->dtype)
        start_rows(bias, rows, width, y);
    multiply(matrix_at(x, b * x->stride[0], rows, x->stride[1], inner, x->stride[2]),
             matrix_at(w, 0, width, w->stride[0], inner, w->stride[1]), rows, width, inner, 1,
             bias->dtype ? 1 : 0, y);
}

/* The rows of all heads of a batch, multiplied by a matrix. */
struct NAME(turning) {
    const struct attn_tensor *x; /* [B,heads/group,rows,inner] */
    const struct attn_tensor *w; /* [heads,width,inner], or with the last two axes exchanged */
    int64_t heads, group, rows, inner, width;
    int w_axis;     /* the axis of w that is `width` */
    int transposed; /* in the result, rows are contiguous, not widths */
    REAL *to;       /* [heads*rows*width] */
};

/* Do the rows of all heads form one matrix: the rows of a head follow those of the previous head,
 * or heads follow each other within a row. Writes the row stride of that matrix. */
static int joins(const struct NAME(turning) * t, int64_t *stride, int *heads_first)
{
    const int64_t *x = t->x->stride;
    struct attn_blas_matrix unused;
    *heads_first = x[1] == t->rows * x[2];
    if (t->w->stride[0] != 0 || t->group != 1 || t->heads == 1 ||
        (!*heads_first && (t->transposed || x[2] != t->heads * x[1])))
        return 0;
    *stride = *heads_first ? x[2] : x[1];
    return attn_blas_matrix(t->heads * t->rows, t->inner, *stride, x[3], &unused) == 0;
}

/* x w^T for each head, in one GEMM if the heads share w and form one matrix. Returns a view of
 * [B,heads,rows,width], which is the same for every batch. */
static struct attn_tensor turn(const struct NAME(turning) * t, int64_t b)
{
    const struct attn_tensor *x = t->x, *w = t->w;
    struct attn_tensor view = {.data = t->to, .dtype = REAL_DTYPE, .rank = 4};
    int64_t stride = x->stride[2], width = t->width;
    int heads_first = 1, joined = joins(t, &stride, &heads_first);
    int64_t parts = joined ? 1 : t->heads, rows = joined ? t->heads * t->rows : t->rows;
    for (int64_t h = 0; h < parts; h++) {
        int64_t at = b * x->stride[0] + h / t->group * x->stride[1];
        struct NAME(result)
            to = {t->to + h * rows * width, {t->transposed, (int)(t->transposed ? rows : width)}};
        multiply(matrix_at(x, at, rows, stride, t->inner, x->stride[3]),
                 matrix_at(w, h * w->stride[0], width, w->stride[t->w_axis], t->inner,
                           w->stride[3 - t->w_axis]),
                 rows, width, t->inner, 1, 0, to);
    }
    view.stride[1] = joined && t->transposed ? t->rows : t->rows * width;
    view.stride[2] = t->transposed ? 1 : width;
    view.stride[3] = t->transposed ? rows : 1;
    if (joined && !heads_first) {
        view.stride[1] = width;
        view.stride[2] = t->heads * width;
    }
    return view;
}

/* Copies an operand densely to `to`, in the type of q. Broadcast outer axes stay broadcast. */
static void copy_operand(struct attn_tensor *view, uint32_t row_axis, REAL *to)
{
    struct attn_tensor from = *view;
    int64_t extent[4] = {1, 1, 1, 1}, stride[4] = {0}, run = 1;
    uint32_t shift = 4 - from.rank; /* axes count from the innermost one */
    for (uint32_t a = from.rank; a-- > 0;) {
        int broadcast = a < row_axis && from.stride[a] == 0;
        extent[a + shift] = broadcast ? 1 : from.shape[a];
        stride[a + shift] = from.stride[a];
        view->stride[a] = broadcast ? 0 : run;
        run *= extent[a + shift];
    }
    for (int64_t n0 = 0; n0 < extent[0]; n0++)
        for (int64_t n1 = 0; n1 < extent[1]; n1++)
            for (int64_t n2 = 0; n2 < extent[2]; n2++)
                for (int64_t n3 = 0; n3 < extent[3]; n3++)
                    *to++ = load_entry(&from, n0 * stride[0] + n1 * stride[1] + n2 * stride[2] +
                                                  n3 * stride[3]);
    view->dtype = REAL_DTYPE;
    view->data = to - run;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* reproducer.c - writes the data of a problem, its answers and its bounds as C, then
 * reproducer_main.c. */
#include "explain/reproducer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/diagnose.h"
#include "explain/reproducer_main.h"
#include "pack/make.h"
#include "reference/dtype.h"
#include "tensor/units.h"

/* How often a plan runs again that does not always give the same bits. */
enum { RERUNS = 1000 };

/* At most this many elements, answers and bounds together: a source of about 5 MB. */
static const double most_numbers = 0x1p18;

struct answers {
    double *values, *bounds; /* of one output in logical order; NULL: the tensor is an input */
    double *units;           /* of rounding, if the mean error has a limit; else NULL */
    int64_t count;
};

static int64_t elements(const struct attn_tensor *t)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < t->rank; a++)
        n *= t->shape[a];
    return n;
}

static bool is_output(const struct attn_problem *p, uint32_t role)
{
    return ref_output_of(ref_op_find(p->op), role) >= 0;
}

/* A process that died has declared nothing. Assume at least f32, functions within 4 ulp. */
static struct attn_numerics numerics_of(const struct attn_failure *failure)
{
    if (failure->numerics)
        return *failure->numerics;
    const uint32_t acc = failure->c->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    const double few = 8 * attn_dtype_roundoff(acc);
    return (struct attn_numerics){.struct_size = sizeof(struct attn_numerics),
                                  .acc_type = acc,
                                  .e_exp = few,
                                  .e_tanh = few,
                                  .e_log = few};
}

/* fill=census: out times the number of keys of a row is a whole number. */
static void clip_to_census(const struct attn_instance *in, const int64_t *allowed, double *bounds)
{
    const int64_t rows = ref_output_units(&in->problem, 0),
                  width = ref_output_width(&in->problem, 0);
    for (int64_t k = 0; k < rows * width; k++) {
        const int64_t n = allowed[k / width];
        if (n > 0)
            bounds[k] = fmin(bounds[k], 0.5 / (double)n);
    }
}

/* fill=exact: the answer is known to the bit. */
static void set_to_exact(const struct attn_instance *in, double *mean, double *values,
                         double *bounds)
{
    const int64_t rows = ref_output_units(&in->problem, 0),
                  width = ref_output_width(&in->problem, 0);
    for (int64_t row = 0; row < rows; row++)
        if (attn_exact_row(in, row, mean)) {
            memcpy(values + row * width, mean, (size_t)width * sizeof *mean);
            memset(bounds + row * width, 0, (size_t)width * sizeof *bounds);
        }
}

/* fill=rounding: the mean of signed errors has a limit. */
static void set_units(const struct attn_instance *in, const struct attn_numerics *numerics,
                      const int64_t *allowed, struct answers *out)
{
    const int64_t width = ref_output_width(&in->problem, 0);
    const double unit = attn_rounding_unit(in, numerics);
    for (int64_t k = 0; k < out->count; k++)
        if (attn_rounding_counts(allowed[k / width], out->values[k / width * width]))
            out->units[k] = unit * fabs(out->values[k]);
}

/* Room for the answers of tensor t, an output. */
static int answers_allocate(const struct attn_tensor *tensor, bool units, struct answers *a)
{
    a->count = elements(tensor);
    a->values = calloc((size_t)a->count + 1, sizeof *a->values);
    a->bounds = calloc((size_t)a->count + 1, sizeof *a->bounds);
    if (units)
        a->units = calloc((size_t)a->count + 1, sizeof *a->units);
    return a->values && a->bounds && (!units || a->units) ? 0 : -1;
}

/* From the order of units into that of the tensor. */
static int order(const struct attn_problem *p, int output, struct answers *a)
{
    struct attn_units units;
    double *ordered = calloc((size_t)a->count + 1, sizeof *ordered);
    if (!ordered)
        return -1;
    attn_units_of(p, output, &units);
    attn_units_in_order(&units, a->values, ordered);
    memcpy(a->values, ordered, (size_t)a->count * sizeof *ordered);
    attn_units_in_order(&units, a->bounds, ordered);
    memcpy(a->bounds, ordered, (size_t)a->count * sizeof *ordered);
    free(ordered);
    return 0;
}

/* Answers of every output. 0, or -1 with the reason. The caller frees what was allocated in either
 * case. */
static int compute(const struct attn_instance *in, const struct attn_numerics *numerics,
                   enum attn_fill knows, struct answers answers[ATTN_MAX_TENSORS], char *why,
                   size_t size)
{
    const struct attn_problem *p = &in->problem;
    const struct ref_op *op = ref_op_find(p->op);
    struct ref_request request = {
        .numerics = numerics, .fill = in->kind, .threads = 1, .given = in->given};
    struct ref_result r = {0};
    struct answers *of[REF_OUTPUTS] = {NULL};
    int result = -1;
    ref_request_all(p, &request);
    r.allowed = calloc((size_t)ref_requested_rows(p, &request) + 1, sizeof *r.allowed);
    double *mean = calloc((size_t)ref_output_width(p, 0) + 1, sizeof *mean);
    if (!r.allowed || !mean)
        goto no_memory;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const int o = ref_output_of(op, in->tensors[t].role);
        if (o < 0)
            continue;
        of[o] = &answers[t];
        if (answers_allocate(&in->tensors[t], o == 0 && knows == ATTN_FILL_ROUNDING, of[o]))
            goto no_memory;
        r.output[o] = (struct ref_values){of[o]->values, of[o]->bounds};
    }
    if (ref_compute(p, &request, &r, why, size) != ATTN_OK)
        goto out;
    if (knows == ATTN_FILL_CENSUS)
        clip_to_census(in, r.allowed, r.output[0].bound);
    if (knows == ATTN_FILL_EXACT)
        set_to_exact(in, mean, r.output[0].value, r.output[0].bound);
    if (of[0] && of[0]->units)
        set_units(in, numerics, r.allowed, of[0]);
    for (int o = 0; o < REF_OUTPUTS; o++)
        if (of[o] && order(p, o, of[o]))
            goto no_memory;
    result = 0;
    goto out;

no_memory:
    snprintf(why, size, "no memory for the answers of a reproducer");
out:
    free(mean);
    free(r.allowed);
    return result;
}

/* ---- writing ---- */

static void put_number(FILE *out, double value)
{
    if (isnan(value))
        fputs("NAN", out);
    else if (isinf(value))
        fputs(value > 0 ? "INFINITY" : "-INFINITY", out);
    else
        fprintf(out, "%a", value);
}

/* An empty array still gets one element, because C has no empty arrays. */
static void put_numbers(FILE *out, const char *name, const char *what, const double *values,
                        int64_t count)
{
    fprintf(out, "static const double %s_%s[] = {\n", name, what);
    for (int64_t n = 0; n < count; n++) {
        put_number(out, values[n]);
        fputs(n % 4 == 3 ? ",\n" : ", ", out);
    }
    fputs(count ? "};\n" : "0};\n", out);
}

static void put_bits(FILE *out, const char *name, const struct attn_tensor *t, size_t span)
{
    const size_t element = attn_dtype_size(t->dtype);
    fprintf(out, "static const uint%zu_t %s_bits[] = { /* %s */\n", 8 * element, name,
            attn_dtype_name(t->dtype));
    for (size_t n = 0; n < span / element; n++) {
        uint64_t bits = 0;
        memcpy(&bits, (const char *)t->data + n * element, element);
        fprintf(out, "0x%0*llx%s", (int)(2 * element), (unsigned long long)bits,
                n % 8 == 7 ? ",\n" : ", ");
    }
    fputs(span ? "};\n" : "0};\n", out);
}

/* Writes text into a comment without anything that ends the comment. */
static void put_comment(FILE *out, const char *text)
{
    for (; *text; text++) {
        fputc(*text, out);
        if (*text == '*' && text[1] == '/')
            fputc(' ', out);
    }
}

static void put_extents(FILE *out, const char *field, const int64_t *values, uint32_t rank)
{
    fprintf(out, ", .%s = {", field);
    for (uint32_t a = 0; a < rank; a++)
        fprintf(out, "%s%lld", a ? ", " : "", (long long)values[a]);
    fputc('}', out);
}

static void put_tensors(FILE *out, const struct attn_instance *in, const struct answers *answers)
{
    fputs("static const struct attn_tensor tensors[] = {\n", out);
    for (uint32_t t = 0; t < in->problem.n_tensors; t++) {
        const struct attn_tensor *x = &in->tensors[t];
        fprintf(out, "    {.role = %u, .dtype = %u, .rank = %u", x->role, x->dtype, x->rank);
        put_extents(out, "shape", x->shape, x->rank);
        put_extents(out, "stride", x->stride, x->rank);
        fputs("},\n", out);
    }
    fputs("};\nenum { N_TENSORS = sizeof tensors / sizeof *tensors };\n\n"
          "struct operand {\n    const char *name;\n    size_t bytes;\n"
          "    const void *bits;             /* of an input */\n"
          "    const double *answer, *bound; /* of an output */\n"
          "    const double *unit;           /* of rounding: the mean error is held to a limit */\n"
          "};\n"
          "static const struct operand operands[] = {\n",
          out);
    for (uint32_t t = 0; t < in->problem.n_tensors; t++) {
        const char *name = attn_role_name(in->tensors[t].role);
        fprintf(out, "    {\"%s\", %zu, ", name, in->operands[t].span);
        if (is_output(&in->problem, in->tensors[t].role))
            fprintf(out, "NULL, %s_answer, %s_bound, %s},\n", name, name,
                    answers[t].units ? "out_unit" : "NULL");
        else
            fprintf(out, "%s_bits, NULL, NULL, NULL},\n", name);
    }
    fputs("};\n", out);
}

static void put_problem(FILE *out, const struct attn_problem *p)
{
    const struct {
        const char *name;
        long long value;
    } whole[] = {{"op", p->op},
                 {"score", p->score},
                 {"dtype", p->dtype},
                 {"b", p->b},
                 {"hq", p->hq},
                 {"hkv", p->hkv},
                 {"sq", p->sq},
                 {"sk", p->sk},
                 {"dq", p->dq},
                 {"dk", p->dk},
                 {"dv", p->dv},
                 {"dh", p->dh},
                 {"off", p->off},
                 {"window_left", p->window_left},
                 {"window_right", p->window_right},
                 {"variant", p->variant},
                 {"weight_fn", p->weight_fn},
                 {"parts", p->parts},
                 {"chunk", p->chunk},
                 {"landmarks", p->landmarks},
                 {"iterations", p->iterations},
                 {"rounds", p->rounds},
                 {"buckets", p->buckets}};
    fprintf(out, "static struct attn_problem problem = {\n    .struct_size = sizeof problem,\n");
    for (size_t n = 0; n < sizeof whole / sizeof *whole; n++)
        fprintf(out, "    .%s = %lld,\n", whole[n].name, whole[n].value);
    fprintf(out, "    .flags = 0x%llx,\n    .scale = %a,\n    .softcap = %a,\n",
            (unsigned long long)p->flags, p->scale, p->softcap);
    fprintf(out, "    .eps = %a,\n    .lin_scale = %a,\n", p->eps, p->lin_scale);
    fprintf(out, "    .dropout_p = %a,\n    .dropout_seed = UINT64_C(%llu)};\n\n", p->dropout_p,
            (unsigned long long)p->dropout_seed);
}

/* "key=value,key=value" as the table that a plugin reads. */
static void put_options(FILE *out, const char *options)
{
    int n = 0;
    fputs("static const struct attn_option options[] = {", out);
    for (; *options; options += strcspn(options, ","), options += *options == ',', n++) {
        const int key = (int)strcspn(options, "="), all = (int)strcspn(options, ",");
        fprintf(out, "{\"%.*s\", \"%.*s\"}, ", key, options, all - key - 1, options + key + 1);
    }
    fprintf(out, "{NULL, NULL}};\nenum { N_OPTIONS = %d };\n", n);
}

static void put_opening(FILE *out, const struct attn_failure *failed)
{
    char line[ATTN_CASE_LINE_MAX];
    attn_case_canonical(failed->c, line, sizeof line);
    fprintf(out,
            "/* Reproduces what attnbench saw of backend %s on the case\n"
            " *   %s\n * ",
            failed->backend, line);
    put_comment(out, failed->verdict->reason);
    fputs("\n *\n * To compile and run it:\n"
          " *   cc -std=c11 -I PREFIX/include THIS.c -ldl -lm -o reproduce\n"
          " *   ./reproduce PLUGIN.so\n"
          " * Exit code 0: the numbers hold; 1: they do not, or more is changed than "
          "outputs;\n"
          " * 2: the plugin does not support the case.\n"
          " * A read or write past the end of an operand ends in a fault. */\n"
          "#define _GNU_SOURCE\n",
          out);
    static const char *const headers[] = {"dlfcn.h",    "fenv.h",   "inttypes.h", "math.h",
                                          "stdio.h",    "stdlib.h", "string.h",   "unistd.h",
                                          "sys/mman.h", NULL};
    for (int h = 0; headers[h]; h++)
        fprintf(out, "#include <%s>\n", headers[h]);
    fprintf(out, "\n#include \"attnbench/backend.h\"\n\n#define BACKEND \"%s\"\n", failed->backend);
    const double largest = attn_dtype_max(failed->c->dtype);
    fputs("#define OVERFLOWS ", out); /* from here on a value rounds to infinity */
    put_number(out, failed->c->dtype == ATTN_F64
                        ? INFINITY
                        : largest + attn_dtype_ulp(failed->c->dtype, largest) / 2);
    fprintf(out, "\n#define MOST_MEAN_ERROR %g /* in units of rounding */\n", ATTN_ROUNDING_MOST);
    fprintf(out, "enum { THREADS = %d, RERUNS = %d };\n", failed->threads,
            failed->reruns ? RERUNS : 0);
    put_options(out, failed->options);
}

static int put_all(FILE *out, const struct attn_instance *in, const struct answers *answers,
                   const struct attn_failure *failed)
{
    put_opening(out, failed);
    for (uint32_t t = 0; t < in->problem.n_tensors; t++) {
        const char *name = attn_role_name(in->tensors[t].role);
        if (is_output(&in->problem, in->tensors[t].role)) {
            put_numbers(out, name, "answer", answers[t].values, answers[t].count);
            put_numbers(out, name, "bound", answers[t].bounds, answers[t].count);
            if (answers[t].units)
                put_numbers(out, name, "unit", answers[t].units, answers[t].count);
        } else {
            put_bits(out, name, &in->tensors[t], in->operands[t].span);
        }
    }
    put_problem(out, &in->problem);
    put_tensors(out, in, answers);
    fputc('\n', out);
    const char *code = strstr(reproducer_main, "*/\n"); /* the end of what it says of itself */
    fputs(code ? strchr(strstr(code + 1, "*/\n"), '\n') : reproducer_main, out);
    return ferror(out) ? -1 : 0;
}

int attn_reproducer_write(const char *path, const struct attn_failure *failed, char *why,
                          size_t size)
{
    struct answers answers[ATTN_MAX_TENSORS] = {0};
    struct attn_instance *in = NULL;
    FILE *out = NULL;
    int result = -1;
    const struct attn_judgement *v = failed->verdict;
    const bool within = v->status == ATTN_FAIL && v->rows_checked > 0 && v->max_ratio <= 1;
    const enum attn_fill knows = within ? failed->c->fill : ATTN_FILL_NORMAL;
    if (within && !failed->reruns && knows != ATTN_FILL_CENSUS && knows != ATTN_FILL_EXACT &&
        knows != ATTN_FILL_ROUNDING) {
        snprintf(why, size,
                 "the numbers are within their bounds: only a relation between results fails, and "
                 "a reproducer has one result");
        return -1;
    }
    if (attn_instance_create(failed->c, failed->threads, &in, why, size))
        return -1;
    double numbers = 0;
    for (uint32_t t = 0; t < in->problem.n_tensors; t++)
        numbers += (double)in->operands[t].span / (double)attn_dtype_size(in->tensors[t].dtype);
    if (numbers > most_numbers) {
        snprintf(why, size, "the case has %.0f elements: it is too large to be written out as C",
                 numbers);
        goto out;
    }
    const struct attn_numerics numerics = numerics_of(failed);
    if (compute(in, &numerics, knows, answers, why, size))
        goto out;
    out = fopen(path, "w");
    const int failure = !out || put_all(out, in, answers, failed);
    if ((out && fclose(out)) || failure) {
        snprintf(why, size, "%s cannot be written: %s", path, strerror(errno));
        goto out;
    }
    result = 0;
out:
    for (int t = 0; t < ATTN_MAX_TENSORS; t++) {
        free(answers[t].values);
        free(answers[t].bounds);
        free(answers[t].units);
    }
    attn_instance_free(in);
    return result;
}

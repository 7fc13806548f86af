/* SPDX-License-Identifier: Apache-2.0 */
/* field.c - a mutant or a rogue on a file of cases, outside the harness: does its output differ
 * from that of the correct backend, and what do the rules of the field say of it.
 *
 *     mutant_field PLUGIN BUG[,BUG]... THREADS FILE.cases
 *
 * Prints {"bug": name, "case": name, "changed": bool, "accepted": [rule, ...]} a line. The last
 * bug may crash it; each one before has a process of its own, and prints nothing if it crashes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pack/make.h"
#include "pack/pack.h"
#include "plugin/loader.h"
#include "reference/dtype.h"
#include "rules.h"

#include "../services.h"

/* One run of the backend with a bug. */
static int run(const struct attn_backend *backend, const char *bug, uint32_t threads,
               const struct attn_instance *in, char *why, size_t size)
{
    const struct attn_option option = {"bug", bug};
    struct test_memory memory = {0};
    struct attn_services services = test_services_make(threads, &memory);
    services.options = &option;
    services.n_options = 1;
    void *plan, *binding;
    int status = backend->create(&in->problem, &services, &plan, why, size);
    if (status != ATTN_OK)
        return status;
    status = backend->bind(plan, in->tensors, in->problem.n_tensors, &binding, why, size);
    if (status == ATTN_OK) {
        status = backend->run(binding, why, size);
        backend->release(binding);
    }
    backend->destroy(plan);
    return status;
}

/* What the reference says of one output, laid out as the reference lays it out. */
struct answer {
    uint32_t role;
    const double *want;
    int64_t inner; /* elements of a row and head, or of a row of mha's out */
};

static int64_t offset(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t c)
{
    if (t->rank == 3 && t->role == ATTN_OUT) /* mha */
        return b * t->stride[0] + i * t->stride[1] + c * t->stride[2];
    return b * t->stride[0] + h * t->stride[1] + i * t->stride[2] +
           (t->rank == 4 ? c * t->stride[3] : 0);
}

/* sum p |v| of column c of a row. */
static double magnitude(const struct attn_problem *p, const double *weights, int64_t b, int64_t h,
                        int64_t c)
{
    const struct attn_tensor *v = attn_tensor_find(p, ATTN_V);
    const int64_t g = h / (p->hq / p->hkv);
    double sum = 0;
    for (int64_t j = 0; j < p->sk; j++)
        if (weights[j] > 0) {
            const double x = attn_dtype_load(v->dtype, v->data, offset(v, b, g, j, c));
            sum += weights[j] * (x < 0 ? -x : x);
        }
    return sum;
}

/* Fills got, or peer with all that is the same for every bug, from an output; returns how many
 * elements there are. */
static int64_t collect(const struct attn_instance *in, const struct answer *answer,
                       const double *weights, bool peer, struct rule_element *to)
{
    const struct attn_problem *p = &in->problem;
    const struct attn_tensor *t = attn_tensor_find(p, answer->role);
    const bool whole = t->rank == 3 && answer->role == ATTN_OUT;
    const int64_t heads = whole ? 1 : p->hq, rows = p->b * heads * p->sq;
    for (int64_t n = 0; n < rows * answer->inner; n++) {
        const int64_t c = n % answer->inner, row = n / answer->inner;
        /* attention counts rows b h i; mha has the heads of a row together: b i h */
        const bool mha = p->op == ATTN_OP_MHA;
        const int64_t h = mha ? row % heads : row / p->sq % heads;
        const int64_t i = mha ? row / heads % p->sq : row % p->sq, b = row / heads / p->sq;
        const double value = attn_dtype_load(t->dtype, t->data, offset(t, b, h, i, c));
        *(peer ? &to[n].peer : &to[n].got) = value;
        if (!peer) /* what follows is known */
            continue;
        to[n].want = answer->want[n];
        to[n].magnitude =
            answer->role == ATTN_OUT && !mha ? magnitude(p, weights + row * p->sk, b, h, c) : 0;
    }
    return rows * answer->inner;
}

/* Bytes of all operands, one behind the other: inputs too, which a run must leave alone. */
static unsigned char *snapshot(const struct attn_instance *in, size_t *bytes)
{
    *bytes = 0;
    for (uint32_t t = 0; t < in->problem.n_tensors; t++)
        *bytes += in->operands[t].mapped ? 0 : in->operands[t].span;
    unsigned char *copy = malloc(*bytes + 1), *at = copy;
    for (uint32_t t = 0; copy && t < in->problem.n_tensors; t++)
        if (!in->operands[t].mapped) {
            memcpy(at, in->tensors[t].data, in->operands[t].span);
            at += in->operands[t].span;
        }
    return copy;
}

static void prime(const struct attn_instance *in)
{
    for (uint32_t t = 0; t < in->problem.n_tensors; t++)
        if (in->operands[t].output && !in->operands[t].mapped)
            memset(in->tensors[t].data, 0xff, in->operands[t].span);
}

struct outputs {
    struct answer answers[REF_OUTPUTS];
    struct rule_element *elements[REF_OUTPUTS];
    int64_t counts[REF_OUTPUTS];
    int n;
};

static int collect_all(const struct attn_instance *in, const struct ref_result *ref, bool peer,
                       struct outputs *o)
{
    for (int n = 0; n < o->n; n++) {
        if (!o->elements[n]) {
            const int64_t rows = ref_output_units(&in->problem, 0) * in->problem.hq;
            o->elements[n] =
                calloc((size_t)(rows * o->answers[n].inner + 1), sizeof(*o->elements[n]));
        }
        if (!o->elements[n])
            return -1;
        o->counts[n] =
            collect(in, &o->answers[n], ref_values_of(&in->problem, ref, ATTN_WEIGHTS).value, peer,
                    o->elements[n]);
    }
    return 0;
}

static void print(const struct attn_instance *in, const char *bug, const struct outputs *o,
                  bool changed)
{
    bool accepted[RULES];
    for (int r = 0; r < RULES; r++)
        accepted[r] = true;
    for (int n = 0; n < o->n; n++) {
        const struct attn_tensor *t = attn_tensor_find(&in->problem, o->answers[n].role);
        rules_apply(o->elements[n], o->counts[n], t->dtype, in->problem.sk, accepted);
    }
    printf("{\"bug\": \"%s\", \"case\": \"%s\", \"changed\": %s, \"accepted\": [", bug, in->c.name,
           changed ? "true" : "false");
    const char *comma = "";
    for (int r = 0; r < RULES; r++)
        if (accepted[r]) {
            printf("%s\"%s\"", comma, rule_names[r]);
            comma = ", ";
        }
    printf("]}\n");
    fflush(stdout);
}

/* Room for the reference of every output that is there; weights in any case. */
static int make_reference(const struct attn_instance *in, struct ref_result *ref, struct outputs *o,
                          char *why, size_t size)
{
    const struct attn_problem *p = &in->problem;
    struct ref_request all = {.fill = in->kind, .threads = 1};
    ref_request_all(p, &all);
    for (int n = 0; n < ref_output_count(ref_op_find(p->op)); n++) {
        const uint32_t role = ref_op_find(p->op)->outputs[n].role;
        const int64_t width = ref_output_width(p, n);
        ref->output[n].value = calloc((size_t)(ref_output_units(p, n) * width + 1), sizeof(double));
        if (!ref->output[n].value)
            return -1;
        if (attn_tensor_find(p, role))
            o->answers[o->n++] = (struct answer){role, ref->output[n].value, width};
    }
    return ref_compute(p, &all, ref, why, size) == ATTN_OK ? 0 : -1;
}

/* What the reference and the correct backend say of a case. */
struct truth {
    struct ref_result ref;
    struct outputs outputs;
    unsigned char *before;
};

static int judge(const struct attn_backend *backend, const char *bug, uint32_t threads,
                 const struct attn_instance *in, struct truth *truth, char *why, size_t size)
{
    size_t bytes;
    prime(in);
    if (run(backend, bug, threads, in, why, size) != ATTN_OK ||
        collect_all(in, &truth->ref, false, &truth->outputs))
        return -1;
    unsigned char *after = snapshot(in, &bytes);
    if (!after)
        return -1;
    print(in, bug, &truth->outputs, memcmp(truth->before, after, bytes) != 0);
    free(after);
    return 0;
}

/* Every bug of the list, each from the same inputs: all but the last in a process of its own. */
static int judge_all(const struct attn_backend *backend, const char *list, uint32_t threads,
                     const struct attn_instance *in, struct truth *truth, char *why, size_t size)
{
    char bug[64];
    for (const char *comma; (comma = strchr(list, ',')); list = comma + 1) {
        snprintf(bug, sizeof(bug), "%.*s", (int)(comma - list), list);
        const pid_t child = fork();
        if (child == 0)
            _exit(judge(backend, bug, threads, in, truth, why, size) ? 1 : 0);
        if (child < 0 || waitpid(child, NULL, 0) < 0)
            return -1;
    }
    return judge(backend, list, threads, in, truth, why, size);
}

static int judge_case(const struct attn_backend *backend, const char *list, uint32_t threads,
                      const struct attn_case *c, char *why, size_t size)
{
    struct attn_instance *in;
    struct truth truth = {.outputs = {.n = 0}};
    size_t bytes;
    int status = -1;
    if (attn_instance_create(c, 1, &in, why, size))
        return -1;
    if (make_reference(in, &truth.ref, &truth.outputs, why, size) == 0 &&
        run(backend, "none", threads, in, why, size) == ATTN_OK &&
        collect_all(in, &truth.ref, true, &truth.outputs) == 0 &&
        (truth.before = snapshot(in, &bytes)))
        status = judge_all(backend, list, threads, in, &truth, why, size);
    free(truth.before);
    for (int n = 0; n < truth.outputs.n; n++)
        free(truth.outputs.elements[n]);
    for (int o = 0; o < REF_OUTPUTS; o++)
        free(truth.ref.output[o].value);
    attn_instance_free(in);
    return status;
}

int main(int argc, char **argv)
{
    struct attn_case_list cases = {0};
    struct attn_loaded loaded = {0};
    char why[512] = "usage: mutant_field PLUGIN BUG[,BUG]... THREADS FILE.cases";
    int status = 2;
    if (argc != 5 || attn_plugin_load(argv[1], &loaded, why, sizeof(why)) ||
        attn_case_parse_file(argv[4], &cases, why, sizeof(why)))
        goto out;
    const struct attn_backend *backend = loaded.plugin->backends[0]; /* the only one */
    status = 0;
    for (size_t n = 0; status == 0 && n < cases.count; n++)
        if ((cases.items[n].data && attn_pack_resolve(&cases.items[n], why, sizeof(why))) ||
            judge_case(backend, argv[2], (uint32_t)strtoul(argv[3], NULL, 10), &cases.items[n], why,
                       sizeof(why)))
            status = 1;
out:
    if (status)
        fprintf(stderr, "mutant_field: %s\n", why);
    attn_case_list_free(&cases);
    if (loaded.handle)
        attn_plugin_unload(&loaded);
    return status;
}

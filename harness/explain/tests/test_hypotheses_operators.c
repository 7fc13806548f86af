/* SPDX-License-Identifier: Apache-2.0 */
/* test_hypotheses_operators.c - wrong answers of operators other than attention are explained by
 * their mistake. */
#include "examined.h"

#include <math.h>

#include "tensor/units.h"

/* A problem with tensors of its own, to make a mistake in. */
struct copy {
    struct attn_problem problem;
    struct attn_tensor tensors[ATTN_MAX_TENSORS];
    float values[1 << 16];
};

static struct attn_tensor *copied(struct copy *x, uint32_t role)
{
    for (uint32_t t = 0; t < x->problem.n_tensors; t++)
        if (x->tensors[t].role == role)
            return &x->tensors[t];
    fail_msg("no tensor of role %u", role);
    return NULL;
}

static void drop(struct copy *x, uint32_t role)
{
    *copied(x, role) = x->tensors[--x->problem.n_tensors];
}

/* Every element of a dense f32 tensor through a function. */
static void each(struct copy *x, uint32_t role, float (*function)(float value, int64_t index))
{
    struct attn_tensor *t = copied(x, role);
    int64_t count = 1;
    for (uint32_t a = 0; a < t->rank; a++)
        count *= t->shape[a];
    assert_true(count <= (int64_t)(sizeof x->values / sizeof *x->values));
    for (int64_t n = 0; n < count; n++)
        x->values[n] = function(((const float *)t->data)[n], n);
    t->data = x->values;
}

static float zero(float value, int64_t index)
{
    (void)value, (void)index;
    return 0;
}

static float negative(float value, int64_t index)
{
    (void)index;
    return -value;
}

static float clipped(float value, int64_t index)
{
    (void)index;
    return fmaxf(value, -5);
}

static float as_log(float value, int64_t index)
{
    (void)index;
    return expf(value);
}

static void no_bonus(struct copy *x)
{
    each(x, ATTN_BONUS, zero);
}

static void late_decay(struct copy *x)
{
    const float *w = copied(x, ATTN_DECAY)->data;
    struct attn_tensor *u = copied(x, ATTN_BONUS);
    for (int64_t c = 0; c < u->shape[0]; c++)
        x->values[c] = ((const float *)u->data)[c] + w[c];
    u->data = x->values;
}

static void rate_is_log(struct copy *x)
{
    each(x, ATTN_DECAY, as_log);
}

static void lanes(struct copy *x)
{
    struct attn_tensor *t = copied(x, ATTN_DECAY);
    for (int64_t c = 0; c < t->shape[0]; c++)
        x->values[c] = ((const float *)t->data)[c % 32];
    t->data = x->values;
}

static void no_state(struct copy *x)
{
    drop(x, ATTN_STATE_IN);
}

static void other_form(struct copy *x)
{
    x->problem.variant = !x->problem.variant;
}

static void dropped_bonus(struct copy *x)
{
    drop(x, ATTN_BONUS);
}

static void clip(struct copy *x)
{
    each(x, ATTN_DECAY, clipped);
}

static float never_at_begin(float value, int64_t index)
{
    return index / 8 % 80 % 32 ? value : 0; /* [1,2,80,8] */
}

static void no_decay_at_begin(struct copy *x)
{
    each(x, ATTN_DECAY, never_at_begin);
}

static void column_0(struct copy *x)
{
    copied(x, ATTN_DECAY)->stride[3] = 0;
}

static void state_of_head_0(struct copy *x)
{
    copied(x, ATTN_STATE_IN)->stride[1] = 0;
}

static void turned_state(struct copy *x)
{
    struct attn_tensor *t = copied(x, ATTN_STATE_IN);
    const int64_t stride = t->stride[2];
    t->stride[2] = t->stride[3];
    t->stride[3] = stride;
}

static void twice_scaled(struct copy *x)
{
    x->problem.scale *= x->problem.scale;
}

static void no_f(struct copy *x)
{
    drop(x, ATTN_PROJ_F);
}

static void exchanged(struct copy *x)
{
    struct attn_tensor *e = copied(x, ATTN_PROJ_E), *f = copied(x, ATTN_PROJ_F);
    e->role = ATTN_PROJ_F;
    f->role = ATTN_PROJ_E;
}

static void projections_of_head_0(struct copy *x)
{
    copied(x, ATTN_PROJ_E)->stride[0] = 0;
}

static void all_of_head_0(struct copy *x)
{
    copied(x, ATTN_PROJ_E)->stride[0] = copied(x, ATTN_PROJ_F)->stride[0] = 0;
}

static void exactly(struct copy *x)
{
    x->problem.op = ATTN_OP_ATTENTION;
    for (uint32_t t = x->problem.n_tensors; t-- > 0;)
        if (x->tensors[t].role >= ATTN_PROJ_E)
            x->tensors[t] = x->tensors[--x->problem.n_tensors];
}

static void decayed_state(struct copy *x)
{
    struct attn_tensor *t = copied(x, ATTN_STATE_IN);
    const float *w = copied(x, ATTN_DECAY)->data;
    for (int64_t n = 0; n < t->shape[0] * t->shape[1] * 3; n++)
        x->values[n] = ((const float *)t->data)[n] - (n % 3 == 2 ? w[n / 3 % t->shape[1]] : 0);
    t->data = x->values;
}

static void turned_bias(struct copy *x)
{
    struct attn_tensor *t = copied(x, ATTN_BIAS);
    const int64_t stride = t->stride[2];
    t->stride[2] = t->stride[3];
    t->stride[3] = stride;
}

static void bonus_of_all(struct copy *x)
{
    struct attn_tensor *k = copied(x, ATTN_K);
    const float *u = copied(x, ATTN_BONUS)->data; /* [2,8] of [1,2,80,8] */
    for (int64_t n = 0; n < 2 * 80 * 8; n++)
        x->values[n] = ((const float *)k->data)[n] * u[n / 640 * 8 + n % 8];
    k->data = x->values;
    drop(x, ATTN_BONUS);
}

static void by_landmarks(struct copy *x)
{
    x->problem.scale = 1 / sqrt((double)x->problem.landmarks);
}

static void a_row_less(struct copy *x)
{
    x->problem.landmarks--;
    copied(x, ATTN_PROJ_E)->shape[1]--;
    copied(x, ATTN_PROJ_F)->shape[1]--;
}

static void no_length(struct copy *x)
{
    drop(x, ATTN_LEN);
}

static void a_step_less(struct copy *x)
{
    x->problem.iterations--;
}

static void root(struct copy *x)
{
    x->problem.scale = sqrt(x->problem.scale);
}

static void features_of_head_0(struct copy *x)
{
    copied(x, ATTN_FEATURES)->stride[0] = 0;
}

static float unscaled(float value, int64_t index)
{
    (void)index;
    return value * 2; /* dk^(1/4) */
}

static void scale_to_q(struct copy *x)
{
    each(x, ATTN_K, unscaled);
}

static void without_eps(struct copy *x)
{
    x->problem.eps = 0;
}

static void rotations_of_round_0(struct copy *x)
{
    copied(x, ATTN_ROTATIONS)->stride[2] = 0;
}

static void turned_rotations(struct copy *x)
{
    each(x, ATTN_ROTATIONS, negative);
}

static void no_gate(struct copy *x)
{
    drop(x, ATTN_GATE);
}

static void by_sequence(struct copy *x)
{
    x->problem.lin_scale = 1 / (double)x->problem.sq;
}

static void not_causal(struct copy *x)
{
    x->problem.flags = 0;
}

static void one_query(struct copy *x)
{
    struct attn_tensor *t = copied(x, ATTN_LIN_Q);
    *t = *copied(x, ATTN_Q);
    t->role = ATTN_LIN_Q;
}

static void no_delta(struct copy *x)
{
    each(x, ATTN_OUT, zero);
}

static void negative_delta(struct copy *x)
{
    each(x, ATTN_OUT, negative);
}

static void turned_dlse(struct copy *x)
{
    each(x, ATTN_GRAD_LSE, negative);
}

static void no_dlse(struct copy *x)
{
    drop(x, ATTN_GRAD_LSE);
}

static void lse_of_head_0(struct copy *x)
{
    copied(x, ATTN_LSE)->stride[1] = 0;
}

static float in_bits(float value, int64_t index)
{
    (void)index;
    return value * 1.44269504F;
}

static void lse_in_bits(struct copy *x)
{
    each(x, ATTN_LSE, in_bits);
}

/* Of [1,2,40] and [2]. */
static void lse_of_keys_alone(struct copy *x)
{
    struct attn_tensor *t = copied(x, ATTN_LSE);
    const float *lse = t->data, *sink = copied(x, ATTN_SINK)->data;
    for (int64_t n = 0; n < 2L * 40; n++)
        x->values[n] = lse[n] + log1pf(-expf(sink[n / 40] - lse[n]));
    t->data = x->values;
}

static const struct {
    const char *line;
    void (*mistake)(struct copy *x);
    const char *words;
} table[] = {
    {"op=wkv b=2 s=40 d=48", no_bonus, "with no bonus"},
    {"op=wkv b=2 s=40 d=48", late_decay, "with the past decayed once more before it is read"},
    {"op=wkv b=2 s=40 d=48", rate_is_log, "with exp of the decay as its rate"},
    {"op=wkv b=2 s=40 d=48", lanes, "with decay of channel c modulo 32"},
    {"op=wkv b=2 s=40 d=8 state_in=1", no_state, "with state_in left out"},
    {"op=wkv b=2 s=40 d=8 state_in=1", decayed_state, "with state_in decayed once more"},
    {"op=linear_decay h=2 s=80 d=8 bonus=1", bonus_of_all, "with the bonus for every step"},
    {"op=linear_decay h=2 s=80 d=8", other_form, "with decay=inclusive instead of exclusive"},
    {"op=linear_decay h=2 s=80 d=8 bonus=1", dropped_bonus, "with no bonus"},
    {"op=linear_decay h=2 s=80 d=8 fill=strong_decay", clip,
     "with logarithms of decay below -5 cut off there"},
    {"op=linear_decay h=2 s=80 d=8", no_decay_at_begin,
     "with no decay at the first step of each block of 32"},
    {"op=linear_decay h=2 s=80 d=8", column_0, "with decay of column 0 for all of them"},
    {"op=linear_decay h=2 s=80 d=8 state_in=1", state_of_head_0,
     "with state_in of head 0 for all of them"},
    {"op=linear_decay h=2 s=80 d=8 state_in=1", turned_state, "with state_in transposed"},
    {"op=linear_decay h=2 s=80 d=8 scale=0.3", twice_scaled, "the right answer times 0.3 (scale)"},
    {"op=linformer h=2 s=40 d=8 landmarks=10", no_f, "with proj_f left out"},
    {"op=linformer h=2 s=40 d=8 landmarks=10", exchanged, "with proj_e and proj_f exchanged"},
    {"op=linformer h=2 s=40 d=8 landmarks=10", projections_of_head_0,
     "with proj_e of head 0 for all of them"},
    {"op=linformer h=2 s=40 d=8 landmarks=10", all_of_head_0,
     "with proj_e and proj_f of head 0 for all of them"},
    {"op=linformer h=2 s=40 d=8 landmarks=10", exactly, "with op=attention: not approximated"},
    {"op=nystrom h=2 s=40 d=8 landmarks=10", exactly, "with op=attention: not approximated"},
    {"op=performer h=2 s=40 d=8 features=32", exactly, "with op=attention: not approximated"},
    {"op=chunked h=2 s=60 d=8 chunk=16 bias=normal", turned_bias, "with bias transposed"},
    {"op=linformer h=2 s=40 d=8 landmarks=10", by_landmarks, "(from landmarks)"},
    {"op=linformer h=2 s=40 d=8 landmarks=10", a_row_less, "with the last projected row left out"},
    {"op=linformer b=2 s=40 d=8 landmarks=10 mask=len:30/20", no_length, "with len left out"},
    {"op=nystrom h=2 s=40 d=8 landmarks=10", a_step_less, "with iterations=5 instead of 6"},
    {"op=nystrom h=2 s=40 d=8 landmarks=10", other_form, "with start=batch instead of head"},
    {"op=nystrom h=2 s=40 d=8 landmarks=10", root,
     "with the root of the scale applied to one of q and k"},
    {"op=performer h=2 s=40 d=16 features=32 params=head", features_of_head_0,
     "with features of head 0 for all of them"},
    {"op=performer h=2 s=40 d=16 features=32", scale_to_q,
     "with the root of the scale not applied to k"},
    {"op=performer h=2 s=40 d=16 features=32 eps=0.01", without_eps, "with no eps"},
    {"op=lsh h=2 s=64 d=8 chunk=8 buckets=8 rounds=2 hashes=none", rotations_of_round_0,
     "with rotations of round 0 for all of them"},
    {"op=lsh h=2 s=64 d=8 chunk=8 buckets=8 rounds=2 hashes=none", turned_rotations,
     "with rotations with the other sign"},
    {"op=lsh h=2 s=64 d=8 chunk=8 buckets=8 rounds=2 hashes=none", other_form,
     "with self=plain instead of last"},
    {"op=chunked h=2 s=60 d=8 chunk=16 gate=1", no_gate, "with gate left out"},
    {"op=chunked h=2 s=60 d=8 chunk=16 mask=causal", by_sequence,
     "with lin_scale 0.0166667 instead of 0.0625 (one over the sequence)"},
    {"op=chunked h=2 s=60 d=8 chunk=16 mask=causal", not_causal, "with causal left out"},
    {"op=chunked h=2 s=60 d=8 chunk=16", one_query, "with q in the place of lin_q"},
    {"op=attention_backward h=2 s=40 d=8", no_delta, "with no delta"},
    {"op=attention_backward h=2 s=40 d=8", negative_delta, "with delta with the other sign"},
    {"op=attention_backward h=2 s=40 d=8 dlse=1", turned_dlse, "with dlse with the other sign"},
    {"op=attention_backward h=2 s=40 d=8 dlse=1", no_dlse, "with dlse left out"},
    {"op=attention_backward h=3 s=40 d=8", lse_of_head_0, "with lse of head 0 for all of them"},
    {"op=attention_backward h=2 s=40 d=8", lse_in_bits, "with lse in another base"},
    {"op=attention_backward h=2 s=40 d=8 sink=1", lse_of_keys_alone,
     "with lse without the share of the sink"},
};

/* As answer, of gradients: of the lse and the out that the problem has. */
static void answer_gradients(struct attn_instance *in, const struct attn_problem *as)
{
    struct ref_request request = {.fill = REF_FILL_GENERIC, .threads = 2, .given = true};
    struct ref_result result = {0};
    struct attn_units units;
    char why[256];
    ref_request_all(as, &request);
    for (int o = 0; o < 3; o++)
        result.output[o].value = test_calloc(
            (size_t)(ref_output_units(as, o) * ref_output_width(as, o)), sizeof(double));
    if (ref_compute(as, &request, &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
    for (int o = 0; o < 3; o++) {
        attn_units_of(&in->problem, o, &units);
        for (int64_t n = 0; n < units.count * units.width; n++)
            attn_dtype_store(units.tensor->dtype, units.tensor->data,
                             attn_unit_offset(&units, n / units.width, n % units.width),
                             result.output[o].value[n]);
        test_free(result.output[o].value);
    }
}

static void mistakes_of_operators_are_named(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        static struct copy x;
        struct attn_instance *in = instance_of(table[n].line);
        x.problem = in->problem;
        memcpy(x.tensors, in->problem.tensors, in->problem.n_tensors * sizeof *x.tensors);
        x.problem.tensors = x.tensors;
        table[n].mistake(&x);
        if (x.problem.op == ATTN_OP_ATTENTION_BACKWARD)
            answer_gradients(in, &x.problem);
        else
            answer(in, &x.problem, attn_dtype_store);
        const struct attn_judgement v = judge(in);
        if (v.status != ATTN_FAIL || !strstr(v.reason, table[n].words))
            print_error("%s: expected \"%s\"\n", table[n].line, table[n].words);
        expect_within(v, table[n].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_of_operators_are_named),
    };
    return cmocka_run_group_tests_name("hypotheses_operators", tests, NULL, NULL);
}

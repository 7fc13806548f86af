// SPDX-License-Identifier: Apache-2.0
// skeleton.cc - a backend to start from: plain attention in f32; it refuses everything else. C++20.
//
// Put your kernel into `run`, list in `limits` what it does, and declare in `numerics` how it
// computes. backend.h says what each slot owns and promises, problem.h what its functions do.
#include <cmath>
#include <cstdio>
#include <limits>
#include <new>

#include "attnbench/problem.h"

namespace
{

// What it can do. attn_problem_check refuses the rest, what a later harness adds included.
constexpr attn_limits limits = {
    .ops = ATTN_BIT(ATTN_OP_ATTENTION),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT),
    .dtypes = ATTN_BIT(ATTN_F32),
};

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Row {
    float *data;
    int64_t step;
    float &operator[](int64_t c) const
    {
        return data[c * step];
    }
};

Row row(const attn_tensor &t, int64_t b, int64_t h, int64_t i)
{
    return {static_cast<float *>(t.data) + attn_row_start(&t, b, h, i), t.stride[3]};
}

float dot(Row x, Row y, int64_t n)
{
    float sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += x[c] * y[c];
    return sum;
}

// out of query i: the largest score first, then the weights. hq / hkv query heads share a key head.
void attend(const attn_problem &p, const attn_operands &o, int64_t b, int64_t h, int64_t i)
{
    const int64_t g = h / (p.hq / p.hkv);
    const Row q = row(o.q, b, h, i), out = row(o.out, b, h, i);
    const auto score = [&](int64_t j) {
        return static_cast<float>(p.scale) * dot(q, row(o.k, b, g, j), p.dk);
    };
    float largest = -infinity, sum = 0;
    for (int64_t j = 0; j < p.sk; j++)
        largest = score(j) > largest ? score(j) : largest;
    for (int64_t d = 0; d < p.dv; d++)
        out[d] = 0;
    for (int64_t j = 0; j < p.sk; j++) {
        const float s = score(j);
        if (s == -infinity)
            continue;
        const float weight = std::exp(s - largest);
        const Row v = row(o.v, b, g, j);
        sum += weight;
        for (int64_t d = 0; d < p.dv; d++)
            out[d] += weight * v[d];
    }
    for (int64_t d = 0; d < p.dv && sum != 0; d++) // a row without keys stays 0
        out[d] /= sum;
}

struct Plan {
    const attn_problem *problem;
};

struct Binding {
    const attn_problem *problem;
    attn_operands o;
};

// The only slot that is timed. Allocates nothing, throws nothing.
int run(void *binding, char *, size_t)
{
    const auto &made = *static_cast<const Binding *>(binding);
    const attn_problem &p = *made.problem;
    for (int64_t b = 0; b < p.b; b++)
        for (int64_t h = 0; h < p.hq; h++)
            for (int64_t i = 0; i < p.sq; i++)
                attend(p, made.o, b, h, i);
    return ATTN_OK;
}

// How it computes: the error bound is built from this. exp of glibc is within 1 ulp.
void numerics(const void *, attn_numerics *numerics)
{
    numerics->acc_type = ATTN_F32;
    numerics->denominator = 1;
    numerics->deterministic = 1;
    numerics->e_exp = 0x1p-22;
}

int supports(const attn_problem *problem, const attn_services *, char *why, size_t size)
{
    return attn_problem_check(problem, &limits, why, size);
}

// Large buffers belong to services->alloc, which counts them as workspace.
int create(const attn_problem *problem, const attn_services *, void **plan, char *why, size_t size)
{
    if ((*plan = new (std::nothrow) Plan{problem}))
        return ATTN_OK;
    std::snprintf(why, size, "no memory for a plan");
    return ATTN_OUT_OF_MEMORY;
}

int bind(void *plan, const attn_tensor *tensors, uint32_t n_tensors, void **binding, char *why,
         size_t size)
{
    auto *made = new (std::nothrow) Binding{static_cast<Plan *>(plan)->problem, {}};
    if (!made) {
        std::snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    attn_operands_set(&made->o, tensors, n_tensors);
    *binding = made;
    return ATTN_OK;
}

void release(void *binding)
{
    delete static_cast<Binding *>(binding);
}

void destroy(void *plan)
{
    delete static_cast<Plan *>(plan);
}

constexpr attn_backend backend = {
    .struct_size = sizeof(attn_backend),
    .exactness = ATTN_EXACT,
    .name = "skeleton",
    .description = "plain attention in f32, one row after the other",
    .supports = supports,
    .create = create,
    .numerics = numerics,
    .bind = bind,
    .run = run,
    .release = release,
    .destroy = destroy,
};

constexpr const attn_backend *backends[] = {&backend};

} // namespace

// `struct` is needed: the variable hides the type of the same name.
const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .n_backends = 1,
    .backends = backends,
};

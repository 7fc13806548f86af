/* SPDX-License-Identifier: Apache-2.0 */
/* unknowns.c - asks `supports` for what the ABI does not define, or only reserves. A backend that
 * accepts any of it would compute something else as soon as a later harness gives it a meaning.
 *
 * Each question is a problem that the backend accepts, changed in one place. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "worker/serve.h"
#include "worker/slots.h"

/* The first flag without a meaning: it and all flags above it are reserved or not defined. */
#define FIRST_UNKNOWN_FLAG 7

/* A weight function without a meaning. */
#define WEIGHT_FN_UNKNOWN 255

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Values that no version of the ABI uses so far. Known values plus 2^5, 2^8, 2^16 and 2^31 look
 * like these known values to code that keeps only the low bits. */
static const uint32_t beyond[] = {1u << 5, 1u << 8, 1u << 16, 1u << 31};
static const uint32_t types[] = {0, ATTN_F8_E4M3, ATTN_F8_E5M2, ATTN_I8, ATTN_U8, 12, 19, 31, 255};
static const uint32_t roles[] = {0,
                                 7,
                                 15,
                                 30,
                                 31,
                                 38,
                                 47,
                                 59,
                                 63,
                                 ATTN_CU_SEQLENS_Q,
                                 ATTN_CU_SEQLENS_K,
                                 ATTN_BLOCK_TABLE,
                                 ATTN_Q_SCALE,
                                 ATTN_K_SCALE,
                                 ATTN_V_SCALE,
                                 ATTN_K_ZERO,
                                 ATTN_V_ZERO,
                                 ATTN_PAST_K,
                                 ATTN_PAST_V,
                                 ATTN_PRESENT_K,
                                 ATTN_PRESENT_V,
                                 ATTN_GRAD_SCORE_M,
                                 ATTN_GRAD_SCORE_WV,
                                 ATTN_STREAM,
                                 97,
                                 255,
                                 ATTN_ROLE_USER - 1,
                                 ATTN_ROLE_USER,
                                 ATTN_MASK + (1u << 8),
                                 ATTN_MASK + (1u << 16),
                                 ATTN_MASK + (1u << 31)};

struct asking {
    struct attn_setup *setup;
    const struct attn_message_request *request;
    struct attn_message_reply *reply;
    /* The question: a copy of the request's problem with room for one tensor more. */
    struct attn_problem problem;
    struct attn_tensor tensors[ATTN_MAX_TENSORS + 1];
};

/* Makes the question the problem that the backend accepts. */
static void begin(struct asking *a)
{
    a->problem = a->request->problem;
    a->problem.struct_size = sizeof(a->problem);
    a->problem.n_tensors = a->request->n_tensors;
    a->problem.tensors = a->tensors;
    memcpy(a->tensors, a->request->tensors, sizeof(a->request->tensors));
}

/* Puts the question, and begins the next. Returns 0 if the backend refuses, else -1. The format
 * says what was asked for. */
__attribute__((format(printf, 2, 3))) static int refuses(struct asking *a, const char *format, ...)
{
    char why[384] = "", broken[128], what[128];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    attn_slot_enter(ATTN_SLOT_SUPPORTS);
    const int result =
        a->setup->backend->supports(&a->problem, &a->setup->services, why, sizeof(why));
    const int state = attn_slot_leave(broken, sizeof(broken));
    begin(a);
    if (result == ATTN_OK)
        attn_reply_set(a->reply, ATTN_FAIL,
                       "supports accepts %s; it must refuse what the backend does not know", what);
    else if (state != 0)
        attn_reply_set(a->reply, ATTN_FAIL, "%s, in supports", broken);
    return result == ATTN_OK || state != 0 ? -1 : 0;
}

static int ask_flags(struct asking *a)
{
    for (int bit = FIRST_UNKNOWN_FLAG; bit < 64; bit++) {
        a->problem.flags |= UINT64_C(1) << bit;
        a->problem.weight_fn = WEIGHT_FN_UNKNOWN; /* so that its flag is no known one, either */
        if (refuses(a, "flag bit %d, which has no meaning yet", bit) != 0)
            return -1;
    }
    return 0;
}

/* The op (which = 0) or the score (which = 1). */
static int ask_word(struct asking *a, int which)
{
    static const char *const names[] = {"op", "score"};
    static const uint32_t first[] = {11, 7}; /* without a meaning */
    uint32_t *word = which ? &a->problem.score : &a->problem.op;
    if (*word == 0) /* an operator without scores */
        return 0;
    uint32_t asked[COUNT(beyond) + 4] = {0, first[which], 31, 255};
    for (size_t n = 0; n < COUNT(beyond); n++)
        asked[4 + n] = *word + beyond[n];
    for (size_t n = 0; n < COUNT(asked); n++) {
        *word = asked[n];
        if (refuses(a, "%s %u, which has no meaning yet", names[which], (unsigned)asked[n]) != 0)
            return -1;
    }
    return 0;
}

/* Gives the problem, and all tensors of its type, another type. */
static void retype(struct asking *a, uint32_t type)
{
    for (uint32_t t = 0; t < a->problem.n_tensors; t++)
        if (a->tensors[t].dtype == a->problem.dtype)
            a->tensors[t].dtype = type;
    a->problem.dtype = type;
}

static int ask_types(struct asking *a)
{
    const uint32_t known = a->problem.dtype;
    for (size_t n = 0; n < COUNT(types) + COUNT(beyond); n++) {
        const uint32_t type = n < COUNT(types) ? types[n] : known + beyond[n - COUNT(types)];
        retype(a, type);
        if (refuses(a, "a problem of type %u, which no operand may have yet", (unsigned)type) != 0)
            return -1;
    }
    return 0;
}

static int ask_tensor(struct asking *a, uint32_t t)
{
    const char *name = a->request->operands[t].name;
    for (size_t n = 0; n < COUNT(types); n++) {
        const uint32_t type = types[n];
        a->tensors[t].dtype = type;
        if (refuses(a, "type %u of %s, which no operand may have yet", (unsigned)type, name) != 0)
            return -1;
    }
    for (uint32_t space = ATTN_CUDA; space <= ATTN_SYCL + 1; space++) {
        a->tensors[t].space = space;
        if (refuses(a, "%s in memory space %u, which is reserved", name, (unsigned)space) != 0)
            return -1;
    }
    a->tensors[t].device = 1;
    return refuses(a, "%s on device 1, where no operand may lie yet", name);
}

/* One operand more, of a role that has no meaning yet. */
static int ask_role(struct asking *a, uint32_t role)
{
    a->tensors[a->problem.n_tensors++] = (struct attn_tensor){
        .role = role, .dtype = ATTN_I32, .rank = 1, .shape = {1}, .stride = {1}};
    return refuses(a, "an operand of role %u, which has no meaning yet", (unsigned)role);
}

static int ask_roles(struct asking *a)
{
    for (size_t n = 0; n < COUNT(roles); n++)
        if (ask_role(a, roles[n]) != 0)
            return -1;
    return 0;
}

static int ask_struct_size(struct asking *a)
{
    static const uint32_t sizes[] = {0, 8, sizeof(struct attn_problem) - 1};
    for (size_t n = 0; n < COUNT(sizes); n++) {
        a->problem.struct_size = sizes[n];
        if (refuses(a, "a problem structure of %u bytes, which ends before fields that it reads",
                    (unsigned)sizes[n]) != 0)
            return -1;
    }
    return 0;
}

void attn_serve_unknowns(struct attn_setup *setup, const struct attn_message_request *request,
                         struct attn_message_reply *reply)
{
    struct asking a = {.setup = setup, .request = request, .reply = reply};
    begin(&a);
    if (ask_flags(&a) != 0 || ask_word(&a, 0) != 0 || ask_word(&a, 1) != 0 || ask_types(&a) != 0 ||
        ask_roles(&a) != 0 || ask_struct_size(&a) != 0)
        return;
    for (uint32_t t = 0; t < request->n_tensors; t++)
        if (ask_tensor(&a, t) != 0)
            return;
}

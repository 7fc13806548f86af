/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c - nothing from a worker is used before it has passed here. */
#include "host/reply.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "case/text.h"
#include "host/newer.h"
#include "reference/dtype.h"

struct attn_outcome attn_outcome_make(enum attn_status status, const char *format, ...)
{
    struct attn_outcome outcome = {.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(outcome.reason, sizeof(outcome.reason), format, args);
    va_end(args);
    return outcome;
}

static const char *signal_name(int sig, char *text, size_t size)
{
    const char *name = attn_signal_abbreviation(sig);
    if (name)
        snprintf(text, size, "SIG%s", name);
    else
        snprintf(text, size, "signal %d", sig);
    return text;
}

/* Rounded up to whole elements: a fault address is where the first byte was touched. */
static uint64_t whole_elements(uint64_t bytes, size_t element)
{
    return (bytes + element - 1) / element * element;
}

/* A fault in the guards or the pages of an operand. */
static struct attn_outcome operand_fault(const struct attn_message_fault *fault,
                                         const struct attn_tensor *tensor,
                                         const struct attn_operand *operand, size_t element)
{
    static const char *const verbs[] = {"touches", "reads", "writes"};
    const char *verb = verbs[fault->access], *name = attn_role_name(tensor->role);
    const char *slot = attn_slot_name(fault->slot);
    const int64_t at = fault->distance;
    struct attn_outcome outcome;

    if (at < 0)
        outcome = attn_outcome_make(ATTN_FAIL,
                                    "%s before the start of %s (%" PRIu64 " bytes before), in %s",
                                    verb, name, whole_elements(0 - (uint64_t)at, element), slot);
    else if ((uint64_t)at >= operand->span)
        outcome = attn_outcome_make(
            ATTN_FAIL, "%s past the end of %s (%" PRIu64 " bytes beyond), in %s", verb, name,
            whole_elements((uint64_t)at - operand->span + 1, element), slot);
    else
        outcome = attn_outcome_make(ATTN_FAIL, "writes to input %s at byte %" PRId64 ", in %s",
                                    name, at, slot);
    const bool inside = at >= 0 && (uint64_t)at < operand->span;
    outcome.broken = inside ? ATTN_PROMISE_INPUTS : ATTN_PROMISE_BOUNDS;
    return outcome;
}

struct attn_outcome attn_outcome_of_fault(const struct attn_message_fault *fault,
                                          const struct attn_instance *instance)
{
    char name[32];
    if (fault->slot >= ATTN_SLOT_COUNT || fault->access > ATTN_ACCESS_WRITE || fault->signal == 0 ||
        fault->signal >= NSIG)
        return attn_outcome_make(ATTN_ERROR, "the worker sent a malformed report of a fault");
    if (instance && fault->operand < instance->problem.n_tensors) {
        const struct attn_tensor *tensor = &instance->tensors[fault->operand];
        return operand_fault(fault, tensor, &instance->operands[fault->operand],
                             attn_dtype_size(tensor->dtype));
    }
    signal_name((int)fault->signal, name, sizeof(name));
    if (fault->has_address)
        return attn_outcome_make(ATTN_CRASH, "crashed in %s (%s at 0x%" PRIx64 ")",
                                 attn_slot_name(fault->slot), name, fault->address);
    return attn_outcome_make(ATTN_CRASH, "crashed in %s (%s)", attn_slot_name(fault->slot), name);
}

struct attn_outcome attn_outcome_of_exit(int wait_status, uint32_t slot)
{
    char name[32];
    if (WIFEXITED(wait_status))
        return attn_outcome_make(ATTN_CRASH, "exited with status %d in %s",
                                 WEXITSTATUS(wait_status), attn_slot_name(slot));
    return attn_outcome_make(ATTN_CRASH, "killed by %s in %s",
                             signal_name(WTERMSIG(wait_status), name, sizeof(name)),
                             attn_slot_name(slot));
}

static bool is_float_or_default(uint32_t dtype)
{
    return dtype == 0 || attn_dtype_is_float(dtype);
}

/* Partial sums in a type that the accumulation holds exactly, and of how many terms. */
static bool is_partial(const struct attn_numerics *n)
{
    return is_float_or_default(n->partial_type) &&
           (n->partial_type == 0 || n->partial_type == n->acc_type ||
            attn_dtype_size(n->partial_type) < attn_dtype_size(n->acc_type));
}

/* A declaration that the bound can be computed from: known enumerations, finite and not negative.
 */
static int numerics_check(const struct attn_numerics *n, char *why, size_t size)
{
    const struct {
        const char *name;
        bool good;
    } checks[] = {
        {"acc_type", is_float_or_default(n->acc_type)},
        {"score_type", is_float_or_default(n->score_type)},
        {"p_type", is_float_or_default(n->p_type)},
        {"proj_type", is_float_or_default(n->proj_type)},
        {"state_type", is_float_or_default(n->state_type)},
        {"p_normalised", n->p_normalised <= 1},
        {"denominator", n->denominator <= 2},
        {"acc_toward_zero", n->acc_toward_zero <= 1},
        {"out_toward_zero", n->out_toward_zero <= 1},
        {"ftz", n->ftz <= 1},
        {"empty_row", n->empty_row <= ATTN_EMPTY_INF},
        {"deterministic", n->deterministic <= 1},
        {"gaussian_by_norms", n->gaussian_by_norms <= 1},
        {"invariant", n->invariant <= (ATTN_INVARIANT_BATCH | ATTN_INVARIANT_THREADS)},
        {"key_tile", n->key_tile >= 0},
        {"chain", n->chain >= 0},
        {"splits", n->splits >= 0},
        {"u_in", isfinite(n->u_in) && n->u_in >= 0},
        {"e_exp", isfinite(n->e_exp) && n->e_exp >= 0},
        {"e_arg", isfinite(n->e_arg) && n->e_arg >= 0},
        {"e_tanh", isfinite(n->e_tanh) && n->e_tanh >= 0},
        {"e_log", isfinite(n->e_log) && n->e_log >= 0},
        {"tau", isfinite(n->tau) && n->tau >= 0},
        {"partial_type", is_partial(n)},
        {"partial_terms", (n->partial_terms > 0) == (n->partial_type > 0)},
        {"alibi_by_key", n->alibi_by_key <= 1},
        {"p_stochastic", n->p_stochastic <= 1},
        {"rescale_on_rise", n->rescale_on_rise <= 1},
        {"u_pv", isfinite(n->u_pv) && n->u_pv >= 0},
        {"e_f", isfinite(n->e_f) && n->e_f >= 0},
        {"a_f", isfinite(n->a_f) && n->a_f >= 0},
        {"decay_chunk", n->decay_chunk >= 0},
        {"bwd_lse", n->bwd_lse <= 1},
        {"bwd_delta", n->bwd_delta <= 1},
        {"ds_type", is_float_or_default(n->ds_type)},
        {"delta_type", is_float_or_default(n->delta_type)},
        {"grad_partial_type", is_float_or_default(n->grad_partial_type)},
        {"dq_acc_type", is_float_or_default(n->dq_acc_type)},
        {"grad_chain", n->grad_chain >= 0},
        {"query_tile", n->query_tile >= 0},
        {"dkv_acc_type", is_float_or_default(n->dkv_acc_type)},
    };
    for (size_t c = 0; c < sizeof(checks) / sizeof(checks[0]); c++) {
        if (!checks[c].good) {
            snprintf(why, size, "numerics declares an impossible %s", checks[c].name);
            return -1;
        }
    }
    return 0;
}

static bool is_time(double value)
{
    return isfinite(value) && value >= 0;
}

static bool are_ceilings(const struct attn_ceilings *c)
{
    if (c->n_rungs > ATTN_RUNGS_MAX || c->n_reads > ATTN_READS_MAX || !is_time(c->clock_ghz))
        return false;
    for (uint32_t r = 0; r < c->n_rungs; r++)
        if (!is_time(c->rungs[r].f32) || !is_time(c->rungs[r].f64) || !is_time(c->rungs[r].f16) ||
            !is_time(c->rungs[r].bf16))
            return false;
    for (uint32_t r = 0; r < c->n_reads; r++)
        if (!is_time(c->reads[r].gbs))
            return false;
    return true;
}

static bool is_device(const struct attn_device *d)
{
    return is_time(d->launch_ns) && is_time(d->copy_gbs) && is_time(d->clock_mhz) &&
           is_time(d->memory_clock_mhz) && is_time(d->temperature_c) && is_time(d->power_w);
}

int attn_reply_check(const struct attn_message_reply *reply, char *why, size_t size)
{
    const char *bad = NULL;
    if (reply->head.length != sizeof(*reply))
        bad = "length";
    else if (reply->status != ATTN_PASS && reply->status != ATTN_FAIL &&
             reply->status != ATTN_SKIP && reply->status != ATTN_OOM &&
             reply->status != ATTN_ERROR && reply->status != ATTN_SUSPECT)
        bad = "status";
    else if (reply->n_samples > ATTN_SAMPLES_MAX)
        bad = "number of samples";
    else if (reply->modified > ATTN_MAX_TENSORS)
        bad = "operand";
    else if (reply->broken > ATTN_PROMISE_STATE)
        bad = "promise";
    else if (!is_time(reply->seconds))
        bad = "time";
    else if (reply->last >= ATTN_STATES || reply->drawn > ATTN_STATES)
        bad = "state";
    else if (!are_ceilings(&reply->ceilings))
        bad = "ceiling";
    else if (!is_device(&reply->before) || !is_device(&reply->after))
        bad = "device";
    for (uint32_t s = 0; !bad && s < reply->n_samples; s++)
        if (!is_time(reply->samples_ns[s]) || !is_time(reply->cpu_ns[s]) ||
            reply->iterations[s] < 1)
            bad = "sample";
    if (bad) {
        snprintf(why, size, "the worker sent a reply with an impossible %s", bad);
        return -1;
    }
    return reply->has_numerics ? numerics_check(&reply->numerics, why, size) : 0;
}

int attn_sample_check(const struct attn_message_sample *message, char *why, size_t size)
{
    const struct attn_live_sample *s = &message->sample;
    const char *bad = NULL;
    if (message->head.length != sizeof(*message))
        bad = "length";
    else if (!is_time(s->wall_ns) || !is_time(s->processor_ns) || !is_time(s->device_ns))
        bad = "time";
    else if (s->iterations < 1)
        bad = "number of runs";
    else if (s->clock > ATTN_CLOCK_DEVICE)
        bad = "clock";
    if (!bad)
        return 0;
    snprintf(why, size, "the worker sent a sample with an impossible %s", bad);
    return -1;
}

/* Makes the text of a fixed field safe in place. */
static void text_clean(char *text, size_t size)
{
    char copy[512];
    attn_text_take(copy, size < sizeof(copy) ? size : sizeof(copy), text, size);
    memcpy(text, copy, strlen(copy) + 1);
}

int attn_backend_info_check(struct attn_backend_info *info, char *why, size_t size)
{
    if (info->n_options > ATTN_OPTIONS_MAX || info->exactness > ATTN_NONE || info->device > 1) {
        snprintf(why, size, "the worker sent an impossible description of a backend");
        return -1;
    }
    /* A bool that holds neither 0 nor 1 must not be read as one. */
    unsigned char available;
    memcpy(&available, &info->available, sizeof(available));
    info->available = available != 0;
    text_clean(info->name, sizeof(info->name));
    text_clean(info->description, sizeof(info->description));
    text_clean(info->version, sizeof(info->version));
    text_clean(info->reason, sizeof(info->reason));
    for (uint32_t o = 0; o < info->n_options; o++) {
        struct attn_option_info *option = &info->options[o];
        text_clean(option->key, sizeof(option->key));
        text_clean(option->choices, sizeof(option->choices));
        text_clean(option->fallback, sizeof(option->fallback));
        text_clean(option->help, sizeof(option->help));
    }
    return 0;
}

void attn_plan_info_take(struct attn_plan_info *info, const struct attn_message_reply *reply,
                         const char *protection)
{
    *info = (struct attn_plan_info){
        .has_numerics = reply->has_numerics != 0,
        .numerics = reply->numerics,
        .workspace_bytes = reply->workspace_bytes,
        .threads_seen = reply->threads_seen,
        .fresh = reply->fresh != 0,
    };
    attn_text_take(info->path, sizeof(info->path), reply->path, sizeof(reply->path));
    attn_text_take(info->source_text, sizeof(info->source_text), reply->source,
                   sizeof(reply->source));
    info->numerics.source = reply->has_source ? info->source_text : NULL;
    snprintf(info->protection, sizeof(info->protection), "%s", protection);
}

void attn_device_take(struct attn_device *to, const struct attn_device *from)
{
    *to = *from;
    attn_text_take(to->throttled, sizeof(to->throttled), from->throttled, sizeof(from->throttled));
}

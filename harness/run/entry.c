/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c - records of verdicts, rounds and timings. */
#include "run/entry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "case/operator.h"
#include "reference/dtype.h"
#include "results/kept.h"
#include "results/record.h"
#include "run/declared_off.h"

/* A figure is marked if the harness's own cost is a larger part of it than this. */
static const double overhead_share = 0.01;

static const char *cache_name(enum attn_cache cache)
{
    return cache == ATTN_HOT ? "hot" : "cold";
}

static const char *backend_of(const struct attn_entry *entry)
{
    return entry->contestant ? entry->contestant->info.name : ATTN_KEPT_REFERENCE;
}

static const char *options_of(const struct attn_entry *entry)
{
    return entry->contestant ? entry->contestant->options : "";
}

/* A command line that grows word by word. */
struct words {
    char *text;
    size_t size, used;
};

static void add_text(struct words *words, const char *text, size_t length)
{
    const size_t room = words->size - words->used - 1;
    const size_t n = length < room ? length : room;
    memcpy(words->text + words->used, text, n);
    words->used += n;
    words->text[words->used] = '\0';
}

static void add_word(struct words *words, const char *word)
{
    if (words->used > 0)
        add_text(words, " ", 1);
    add_text(words, word, strlen(word));
}

/* Adds one word of a shell, in single quotes if it holds a character that a shell would read. */
static void add_quoted(struct words *words, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+.,:=/@%";
    if (*word && word[strspn(word, plain)] == '\0') {
        add_word(words, word);
        return;
    }
    add_word(words, "'");
    for (; *word; word++) {
        if (*word == '\'')
            add_text(words, "'\\''", 4);
        else
            add_text(words, word, 1);
    }
    add_text(words, "'", 1);
}

bool attn_entry_sampled(const struct attn_entry *entry)
{
    return entry->verdict.sampled;
}

/* Does the result depend on the seed of samples? */
static bool needs_seed(const struct attn_entry *entry)
{
    return attn_entry_sampled(entry) || attn_fill_is_whole(entry->c->fill) ||
           attn_fill_is_whole(entry->fill);
}

void attn_entry_clear(struct attn_entry *entry)
{
    if (entry->smaller)
        attn_case_free(entry->smaller);
    free(entry->smaller);
    entry->smaller = NULL;
    entry->failed_smaller = false;
}

struct attn_case attn_entry_failed_case(const struct attn_entry *entry)
{
    struct attn_case failed = entry->failed_smaller ? *entry->smaller : *entry->c;
    if (entry->fill != ATTN_FILL_NORMAL)
        failed.fill = entry->fill;
    return failed;
}

void attn_entry_repro(const struct attn_entry *entry, int threads, char *text, size_t size)
{
    char line[ATTN_CASE_LINE_MAX], word[2 * ATTN_PATH_MAX];
    struct words words = {.text = text, .size = size};
    const char *options = options_of(entry);
    add_word(&words, entry->broke_timed ? "attnbench bench -o RUN" : "attnbench verify");
    if (entry->contestant) {
        if (*entry->contestant->target)
            add_quoted(&words, entry->contestant->target);
        if (entry->contestant->named) {
            snprintf(word, sizeof word, "%s%s%s", entry->contestant->label,
                     *entry->contestant->label ? "=" : "", entry->contestant->plugin);
            add_word(&words, "--plugin");
            add_quoted(&words, word);
        }
        if (!*entry->contestant->target) {
            snprintf(word, sizeof word, "%s%s%s", backend_of(entry), *options ? ":" : "", options);
            add_word(&words, "-b");
            add_quoted(&words, word);
        }
        snprintf(word, sizeof word, "--threads %d", threads);
        add_word(&words, word);
    }
    if (needs_seed(entry)) {
        snprintf(word, sizeof word, "--sample-seed %llu", (unsigned long long)entry->sample_seed);
        add_word(&words, word);
    }
    const struct attn_case failed = attn_entry_failed_case(entry);
    attn_case_canonical(&failed, line, sizeof line);
    add_quoted(&words, line);
}

static void put(json_t *record, const char *key, json_t *value)
{
    json_object_set_new(record, key, value);
}

/* What a pack holds, as a case line without its path: sizes, operator, masks. */
static void put_pack(json_t *r, const struct attn_case *c)
{
    char line[ATTN_CASE_LINE_MAX];
    struct attn_case held = *c;
    held.data = NULL;
    held.data_hash[0] = '\0';
    attn_case_canonical(&held, line, sizeof line);
    put(r, "pack", json_string(line));
}

/* The fields of every record, and its status and reason. */
static json_t *common(const char *type, const struct attn_entry *entry,
                      const struct attn_session *session, enum attn_status status,
                      const char *reason)
{
    char line[ATTN_CASE_LINE_MAX], repro[ATTN_REPRO_MAX];
    attn_case_canonical(entry->c, line, sizeof line);
    attn_entry_repro(entry, session->settings.threads, repro, sizeof repro);
    attn_record_begin();
    json_t *r = json_object();
    if (!r)
        return NULL;
    put(r, "type", json_string(type));
    put(r, "case", json_string(line));
    if (entry->c->data)
        put_pack(r, entry->c);
    put(r, "name", json_string(entry->c->name));
    put(r, "id", json_string(entry->id));
    put(r, "backend", json_string(backend_of(entry)));
    put(r, "options", json_string(options_of(entry)));
    put(r, "threads", json_integer(session->settings.threads));
    put(r, "status", json_string(attn_status_name(status)));
    put(r, "reason", json_string(reason));
    put(r, "repro", json_string(repro));
    put(r, "path", json_string(entry->plan.path));
    put(r, "sample_seed", json_integer((json_int_t)entry->sample_seed));
    return r;
}

const char *attn_exactness_name(uint32_t exactness)
{
    return exactness == ATTN_EXACT ? "exact" : exactness == ATTN_NONE ? "none" : "approximate";
}

static json_t *numerics_json(const struct attn_plan_info *plan)
{
    if (!plan->has_numerics)
        return json_null();
    const struct attn_numerics *n = &plan->numerics;
    json_t *o = json_object();
    const struct {
        const char *key;
        uint32_t type;
    } types[] = {{"acc_type", n->acc_type},
                 {"score_type", n->score_type},
                 {"p_type", n->p_type},
                 {"proj_type", n->proj_type},
                 {"partial_type", n->partial_type},
                 {"state_type", n->state_type},
                 {"ds_type", n->ds_type},
                 {"delta_type", n->delta_type},
                 {"grad_partial_type", n->grad_partial_type},
                 {"dq_acc_type", n->dq_acc_type},
                 {"dkv_acc_type", n->dkv_acc_type}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type)
            put(o, types[i].key, json_string(attn_dtype_name(types[i].type)));
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"key_tile", (double)n->key_tile},
                   {"chain", (double)n->chain},
                   {"splits", (double)n->splits},
                   {"partial_terms", n->partial_terms},
                   {"score_stores", n->score_stores},
                   {"u_in", n->u_in},
                   {"u_pv", n->u_pv},
                   {"e_exp", n->e_exp},
                   {"e_arg", n->e_arg},
                   {"e_tanh", n->e_tanh},
                   {"e_log", n->e_log},
                   {"e_f", n->e_f},
                   {"a_f", n->a_f},
                   {"decay_chunk", (double)n->decay_chunk},
                   {"bwd_lse", n->bwd_lse},
                   {"bwd_delta", n->bwd_delta},
                   {"grad_chain", (double)n->grad_chain},
                   {"query_tile", (double)n->query_tile},
                   {"tau", n->tau},
                   {"p_normalised", n->p_normalised},
                   {"denominator", n->denominator},
                   {"acc_toward_zero", n->acc_toward_zero},
                   {"out_toward_zero", n->out_toward_zero},
                   {"ftz", n->ftz},
                   {"gaussian_by_norms", n->gaussian_by_norms},
                   {"alibi_by_key", n->alibi_by_key},
                   {"p_stochastic", n->p_stochastic},
                   {"rescale_on_rise", n->rescale_on_rise},
                   {"empty_row", n->empty_row},
                   {"deterministic", n->deterministic},
                   {"invariant", n->invariant}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value != 0)
            put(o, numbers[i].key, attn_json_number(numbers[i].value));
    if (n->source)
        put(o, "source", json_string(n->source));
    return o;
}

bool attn_entry_keep_numerics(struct attn_entry *entry, const struct attn_plan_info *verified)
{
    struct attn_plan_info *plan = &entry->plan;
    if (verified->has_numerics) {
        plan->has_numerics = true;
        plan->numerics = verified->numerics;
        memcpy(plan->source_text, verified->source_text, sizeof plan->source_text);
        plan->numerics.source = verified->numerics.source ? plan->source_text : NULL;
        return true;
    }
    if (!entry->promised || !plan->has_numerics)
        return true;
    const unsigned refusals = attn_json_refusals();
    json_t *now = numerics_json(plan);
    const bool equal = json_equal(now, entry->promised) || attn_json_refusals() != refusals;
    json_decref(now);
    return equal;
}

static json_t *sizes_json(const struct attn_case *c)
{
    json_t *o = json_object();
    put(o, "op", json_string(attn_case_op(c)->name));
    if (attn_case_op(c)->scores)
        put(o, "score", json_string(attn_case_score(c)->name));
    put(o, "dtype", json_string(attn_dtype_name(c->dtype)));
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"b", c->b},   {"hq", c->hq}, {"hkv", c->hkv}, {"sq", c->sq},
                 {"sk", c->sk}, {"dq", c->dq}, {"dk", c->dk},   {"dv", c->dv}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        put(o, sizes[i].key, json_integer(sizes[i].value));
    put(o, "causal", json_boolean(c->causal));
    return o;
}

static void put_check(json_t *checks, const char *name, bool done, bool ok)
{
    if (done)
        put(checks, name, json_string(ok ? "pass" : "fail"));
}

static json_t *approximation_json(const struct ref_approximation *a)
{
    const struct {
        const char *key;
        double value;
    } figures[] = {{"rel_fro", a->rel_fro},         {"max_row", a->max_row},
                   {"cosine_min", a->cosine_min},   {"cosine_median", a->cosine_median},
                   {"tv_mean", a->tv_mean},         {"tv_max", a->tv_max},
                   {"mass_kept", a->mass_kept},     {"negative_mass", a->negative_mass},
                   {"flops_ratio", a->flops_ratio}, {"bytes_ratio", a->bytes_ratio}};
    json_t *o = json_object();
    put(o, "rows", json_integer(a->rows));
    for (size_t f = 0; f < sizeof figures / sizeof *figures; f++)
        put(o, figures[f].key, attn_json_number(figures[f].value));
    return o;
}

json_t *attn_verify_record(const struct attn_entry *entry, const struct attn_session *session)
{
    const struct attn_judgement *v = &entry->verdict;
    json_t *r = common("verify", entry, session, v->status, v->reason);
    if (!r)
        return NULL;
    bool judged = v->rows_checked > 0;
    put(r, "max_ratio", judged ? attn_json_number(v->max_ratio) : json_null());
    put(r, "median_ratio", judged ? attn_json_number(v->median_ratio) : json_null());
    put(r, "grade", v->grade > 0 ? attn_json_number(v->grade) : json_null());
    put(r, "slack", v->slack > 0 ? attn_json_number(v->slack) : json_null());
    put(r, "max_abs", judged ? attn_json_number(v->max_abs) : json_null());
    put(r, "max_rel", judged ? attn_json_number(v->max_rel) : json_null());
    put(r, "rms", judged ? attn_json_number(v->rms) : json_null());
    put(r, "delta", judged ? attn_json_number(v->delta) : json_null());
    put(r, "worst", json_string(v->worst));
    put(r, "rows_checked", json_integer(v->rows_checked));
    put(r, "rows_total", json_integer(v->rows_total));
    put(r, "rows_counted", json_integer(v->rows_counted));
    put(r, "rows_every", json_integer(v->rows_every));
    put(r, "keys_every", json_integer(v->keys_every));
    json_t *checks = json_object();
    const struct ref_output *outputs = ref_op_find(entry->c->op)->outputs;
    for (int o = 0; outputs[o].role; o++)
        put_check(checks, outputs[o].name, judged && v->has >> o & 1, v->ok >> o & 1);
    put_check(checks, "placement_end", entry->end_done, entry->end_ok);
    put_check(checks, "placement_start", entry->start_done, entry->start_ok);
    put_check(checks, "fresh", entry->plan.fresh, true);
    for (enum attn_fill f = ATTN_FILL_CENSUS; f < ATTN_FILL_COUNT; f++)
        put_check(checks, attn_fill_name(f), entry->fills_done >> f & 1, entry->fills_ok >> f & 1);
    for (enum attn_check k = 0; k < ATTN_CHECK_COUNT; k++)
        put_check(checks, attn_check_name(k), entry->checks_done >> k & 1,
                  entry->checks_ok >> k & 1);
    put(r, "checks", checks);
    put(r, "declared_off", attn_declared_off_json(&entry->plan, entry->c));
    put(r, "expected", json_boolean(v->status == ATTN_SKIP && entry->harmless));
    put(r, "protection", json_string(entry->plan.protection));
    put(r, "numerics", numerics_json(&entry->plan));
    if (entry->contestant && attn_case_op(entry->c)->stochastic)
        put(r, "bound", json_string("stochastic"));
    put(r, "exactness",
        json_string(entry->contestant ? attn_exactness_name(entry->contestant->info.exactness)
                                      : "exact"));
    put(r, "sizes", sizes_json(entry->c));
    put(r, "seconds", entry->seconds > 0 ? attn_json_number(entry->seconds) : json_null());
    put(r, "verifying_s", attn_json_number(entry->verifying_s));
    if (attn_case_asks(entry->c, ATTN_WEIGHTS) && entry->contestant) {
        char name[ATTN_KEPT_NAME_MAX];
        bool named = entry->kept &&
                     attn_kept_name(entry->id, backend_of(entry), options_of(entry), name) == 0;
        put(r, "weights_file", named ? json_string(name) : json_null());
    }
    if (entry->approximation.rows > 0)
        put(r, "approximation", approximation_json(&entry->approximation));
    if (entry->smallest)
        put(r, "smallest", json_string(entry->smallest));
    return r;
}

static json_t *samples_json(const double *samples, int n)
{
    json_t *a = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(a, attn_json_number(samples[i]));
    return a;
}

static json_t *reading_json(const struct attn_device *d)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:s}", "clock_mhz", d->clock_mhz, "memory_clock_mhz",
                     d->memory_clock_mhz, "temperature_c", d->temperature_c, "power_w", d->power_w,
                     "throttled", d->throttled);
}

json_t *attn_round_record(const struct attn_entry *entry, const struct attn_session *session,
                          enum attn_cache cache, int round, const struct attn_bench_reply *reply,
                          struct attn_round_seconds seconds)
{
    json_t *r = common("round", entry, session, entry->verdict.status, entry->verdict.reason);
    if (!r)
        return NULL;
    put(r, "round", json_integer(round));
    put(r, "cache", json_string(cache_name(cache)));
    put(r, "samples_ns", samples_json(reply->samples_ns, reply->n));
    if (reply->n > 0 && reply->cpu_ns[0] > 0)
        put(r, "cpu_ns", samples_json(reply->cpu_ns, reply->n));
    json_t *iterations = json_array();
    for (int i = 0; i < reply->n; i++)
        json_array_append_new(iterations, json_integer(reply->iterations[i]));
    put(r, "iterations", iterations);
    if (reply->after.struct_size > 0)
        put(r, "device",
            json_pack("{s:o, s:o, s:I, s:f, s:f}", "before", reading_json(&reply->before), "after",
                      reading_json(&reply->after), "cache_bytes",
                      (json_int_t)reply->after.cache_bytes, "launch_ns", reply->after.launch_ns,
                      "copy_gbs", reply->after.copy_gbs));
    put(r, "timing_s", attn_json_number(seconds.timing));
    put(r, "judging_s", attn_json_number(seconds.judging));
    put(r, "workspace_bytes", json_integer((json_int_t)entry->plan.workspace_bytes));
    put(r, "threads_seen", json_integer(entry->plan.threads_seen));
    put(r, "time", attn_json_number(attn_now() - session->began));
    return r;
}

json_t *attn_common_record(const char *type, const struct attn_entry *entry,
                           const struct attn_session *session)
{
    return common(type, entry, session, entry->verdict.status, entry->verdict.reason);
}

static void put_peak(json_t *r, const struct attn_entry *entry)
{
    put(r, "peak_bytes",
        entry->peak_known ? json_integer((json_int_t)entry->peak_bytes) : json_null());
    put(r, "peak_reason", json_string(entry->peak_reason));
}

json_t *attn_peak_record(const struct attn_entry *entry, const struct attn_session *session)
{
    json_t *r = attn_common_record("peak", entry, session);
    if (!r)
        return NULL;
    put_peak(r, entry);
    put(r, "taken_bytes", json_integer((json_int_t)entry->taken_bytes));
    return r;
}

static void put_count(json_t *r, const struct attn_entry *entry)
{
    put(r, "instructions",
        entry->instructions > 0 ? json_integer((json_int_t)entry->instructions) : json_null());
    put(r, "instructions_reason", json_string(entry->count_reason));
}

json_t *attn_count_record(const struct attn_entry *entry, const struct attn_session *session)
{
    json_t *r = attn_common_record("count", entry, session);
    if (r)
        put_count(r, entry);
    return r;
}

json_t *attn_untimed_record(const struct attn_entry *entry, const struct attn_session *session,
                            const char *reason)
{
    return common("untimed", entry, session, entry->verdict.status, reason);
}

double attn_least_known(const double *values, size_t n)
{
    double least = 0;
    for (size_t i = 0; i < n; i++)
        if (values[i] > 0 && (least <= 0 || values[i] < least))
            least = values[i];
    return least;
}

bool attn_entry_summary(const struct attn_entry *entry, enum attn_cache cache,
                        struct attn_summary *summary)
{
    const double *samples[ATTN_ROUNDS_MAX];
    size_t counts[ATTN_ROUNDS_MAX];
    for (int i = 0; i < entry->n_rounds[cache]; i++) {
        samples[i] = entry->rounds[cache][i].samples_ns;
        counts[i] = (size_t)entry->rounds[cache][i].n;
    }
    return entry->n_rounds[cache] > 0 &&
           attn_summarise(samples, counts, (size_t)entry->n_rounds[cache], summary) == 0;
}

json_t *attn_bench_record(const struct attn_entry *entry, const struct attn_session *session,
                          enum attn_cache cache)
{
    struct attn_summary s;
    if (!attn_entry_summary(entry, cache, &s))
        return NULL;
    json_t *r = common("bench", entry, session, entry->verdict.status, entry->verdict.reason);
    if (!r)
        return NULL;
    put(r, "cache", json_string(cache_name(cache)));
    json_t *time = json_object();
    put(time, "median", attn_json_number(s.median));
    put(time, "min", attn_json_number(s.min));
    put(time, "p10", attn_json_number(s.p10));
    put(time, "p90", attn_json_number(s.p90));
    bool known = s.rounds > 1; /* one round has no interval */
    put(time, "ci95", known ? json_pack("[f, f]", s.lo, s.hi) : json_null());
    put(time, "n", json_integer((json_int_t)s.n));
    put(r, "time_ns", time);
    json_t *rounds = json_array();
    double cpu_ns[ATTN_ROUNDS_MAX];
    for (int i = 0; i < entry->n_rounds[cache]; i++) {
        json_array_append_new(
            rounds, samples_json(entry->rounds[cache][i].samples_ns, entry->rounds[cache][i].n));
        cpu_ns[i] = entry->rounds[cache][i].cpu_ns;
    }
    const double least = attn_least_known(cpu_ns, (size_t)entry->n_rounds[cache]);
    if (least > 0)
        put(r, "least_cpu_ns", attn_json_number(least));
    put(r, "samples_ns", rounds);
    put(r, "flops", attn_json_number(entry->flops));
    put(r, "bytes", json_integer((json_int_t)entry->bytes));
    /* one operation a nanosecond is 1 GFLOP/s, one byte a nanosecond 1 GB/s */
    bool none = entry->contestant->info.exactness == ATTN_NONE;
    put(r, "gflops", none ? json_null() : attn_json_number(entry->flops / s.median));
    put(r, "gbs", none ? json_null() : attn_json_number((double)entry->bytes / s.median));
    put(r, "workspace_bytes", json_integer((json_int_t)entry->plan.workspace_bytes));
    put_peak(r, entry);
    if (session->settings.count)
        put_count(r, entry);
    const struct attn_device *d = &entry->device;
    if (d->struct_size > 0)
        put(r, "device",
            json_pack("{s:I, s:f, s:f, s:I}", "cache_bytes", (json_int_t)d->cache_bytes,
                      "launch_ns", d->launch_ns, "copy_gbs", d->copy_gbs, "taken_bytes",
                      (json_int_t)entry->taken_bytes));
    put(r, "timing_s", attn_json_number(entry->timing_s[cache]));
    put(r, "judging_s", attn_json_number(entry->judging_s[cache]));
    put(r, "threads_seen", json_integer(entry->plan.threads_seen));
    put(r, "overhead_marked", json_boolean(!none && entry->harness_ns > overhead_share * s.median));
    put(r, "sizes", sizes_json(entry->c));
    put(r, "exactness", json_string(attn_exactness_name(entry->contestant->info.exactness)));
    return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* conformance.c - makes a statement from records, reads one, and holds two against each other. */
#include "report/conformance.h"

#include <math.h>
#include <sha2.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "case/text.h"
#include "report/conformance_text.h"
#include "report/power.h"
#include "report/text.h"
#include "results/record.h"

/* Of repetitions with other sampled rows, power and errors differ a little. */
#define POWER_SLACK 0.01
#define ERROR_SLACK 1.5

/* ---- hashes ---- */

static json_t *digest_json(SHA2_CTX *hash)
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    char text[2 * SHA256_DIGEST_LENGTH + 1];
    SHA256Final(digest, hash);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return json_string(text);
}

static void hash_text(SHA2_CTX *hash, const char *text, char end)
{
    SHA256Update(hash, (const uint8_t *)text, strlen(text));
    SHA256Update(hash, (const uint8_t *)&end, 1);
}

static json_t *hash_of_list(const json_t *list)
{
    SHA2_CTX hash;
    size_t i;
    json_t *item;
    SHA256Init(&hash);
    json_array_foreach(list, i, item) hash_text(&hash, json_string_value(item), '\n');
    return digest_json(&hash);
}

/* Over all fields but the hash itself. */
static json_t *seal_of(const json_t *statement)
{
    json_t *copy = json_copy((json_t *)statement);
    SHA2_CTX hash;
    json_object_del(copy, "sha256");
    char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    SHA256Init(&hash);
    hash_text(&hash, text ? text : "", '\n');
    free(text);
    json_decref(copy);
    return digest_json(&hash);
}

/* ---- from records to a statement ---- */

/* The verdicts of one backend with its options; records of every other type are left out. */
static json_t *verdicts_of(const json_t *records, const json_t *backend)
{
    json_t *list = json_array(), *record;
    size_t i;
    json_array_foreach(records, i, record)
    {
        if (strcmp(attn_field_text(record, "type"), "verify") == 0 &&
            strcmp(attn_field_text(record, "backend"), attn_field_text(backend, "name")) == 0 &&
            strcmp(attn_field_text(record, "options"), attn_field_text(backend, "options")) == 0)
            json_array_append(list, record);
    }
    return list;
}

static void add_one(json_t *counts, const char *name)
{
    json_object_set_new(counts, name,
                        json_integer(json_integer_value(json_object_get(counts, name)) + 1));
}

/* Words of a case line that are no features: sizes, inputs, and what operators and types say. */
static bool is_plain(const char *key)
{
    static const char *const plain[] = {"b",     "hq",   "hkv",  "sq",     "sk",   "dq",
                                        "dk",    "dv",   "dh",   "dl",     "e",    "op",
                                        "dtype", "seed", "data", "sha256", "fill", "rounds"};
    for (size_t p = 0; p < sizeof plain / sizeof plain[0]; p++)
        if (strcmp(plain[p], key) == 0)
            return true;
    return false;
}

/* "mask=causal+window:4:0" -> mask=causal, mask=window; "softcap=30" -> softcap. */
static void add_word(json_t *features, const char *key, char *value)
{
    if (strchr("0123456789.-", *value)) {
        add_one(features, key);
        return;
    }
    for (char *part; (part = strsep(&value, "+"));) {
        json_t *name;
        part[strcspn(part, ":")] = '\0';
        name = json_sprintf("%s=%s", key, part);
        add_one(features, json_string_value(name));
        json_decref(name);
    }
}

static void add_features(json_t *features, const json_t *record)
{
    const double hq = attn_field_number(record, "sizes.hq");
    char *line = strdup(attn_field_text(record, "case")), *rest = line;
    for (char *word; line && (word = strsep(&rest, " "));) {
        char *value = strchr(word, '=');
        if (!value)
            continue;
        *value++ = '\0';
        if (!is_plain(word))
            add_word(features, word, value);
    }
    if (hq != attn_field_number(record, "sizes.hkv"))
        add_one(features, "gqa");
    free(line);
}

/* The line of an operator and type, added when new. */
static json_t *operator_of(json_t *list, const char *op, const char *dtype)
{
    size_t i;
    json_t *line;
    json_array_foreach(list, i, line)
    {
        if (strcmp(attn_field_text(line, "op"), op) == 0 &&
            strcmp(attn_field_text(line, "dtype"), dtype) == 0)
            return line;
    }
    json_array_append_new(list, json_pack("{s:s,s:s,s:{}}", "op", op, "dtype", dtype, "counts"));
    return json_array_get(list, json_array_size(list) - 1);
}

/* Checks and power, by operator and type. */
static int add_power(json_t *operators, const json_t *verdicts, const json_t *machine, char *why,
                     size_t size)
{
    struct attn_view view;
    struct attn_power_table table;
    if (attn_view_create(verdicts, machine, &view, why, size) != 0)
        return -1;
    const int status = attn_power_table_create(&view, &table);
    attn_view_free(&view);
    if (status != 0) {
        snprintf(why, size, "no memory for a statement");
        return -1;
    }
    for (size_t n = 0; n < table.count; n++) {
        const struct attn_power_line *l = &table.lines[n];
        json_object_update_new(operator_of(operators, l->op, l->dtype),
                               json_pack("{s:I,s:I,s:I,s:I}", "checks_made",
                                         (json_int_t)l->checks_made, "checks_apply",
                                         (json_int_t)l->checks_apply, "power_refused",
                                         (json_int_t)l->refused, "power_of", (json_int_t)l->of));
    }
    attn_power_table_free(&table);
    return 0;
}

static double larger(double a, double b)
{
    return b > a || isnan(a) ? b : a;
}

static json_t *names_of(const json_t *counts)
{
    json_t *list = json_array(), *value;
    const char *key;
    json_object_foreach((json_t *)counts, key, value) json_array_append_new(list, json_string(key));
    return list;
}

static json_t *backend_json(const json_t *records, const json_t *machine, const json_t *info,
                            char *why, size_t size)
{
    static const char *const copied[] = {"name",   "offered",       "options",  "version",
                                         "plugin", "plugin_sha256", "exactness"};
    const char *source = attn_field_text(info, "source_sha256");
    json_t *b = json_object(), *counts = json_object(), *operators = json_array();
    json_t *features = json_object(), *verdicts = verdicts_of(records, info), *record;
    double grade = NAN, ratio = NAN;
    SHA2_CTX hash;
    size_t i, unexpected = 0;
    SHA256Init(&hash);
    for (size_t c = 0; c < sizeof copied / sizeof copied[0]; c++)
        json_object_set_new(b, copied[c], json_string(attn_field_text(info, copied[c])));
    if (*source)
        json_object_set_new(b, "source_sha256", json_string(source));
    json_array_foreach(verdicts, i, record)
    {
        const char *status = attn_field_text(record, "status");
        hash_text(&hash, attn_field_text(record, "id"), ' ');
        hash_text(&hash, status, '\n');
        add_one(counts, status);
        add_one(json_object_get(operator_of(operators, attn_field_text(record, "sizes.op"),
                                            attn_field_text(record, "sizes.dtype")),
                                "counts"),
                status);
        unexpected += strcmp(status, "skip") == 0 && !attn_field_true(record, "expected");
        if (strcmp(status, "pass") != 0)
            continue;
        add_features(features, record);
        grade = larger(grade, attn_field_number(record, "grade"));
        ratio = larger(ratio, attn_field_number(record, "max_ratio"));
    }
    const json_int_t passed = json_integer_value(json_object_get(counts, "pass"));
    const json_int_t skipped = json_integer_value(json_object_get(counts, "skip"));
    const json_int_t all = (json_int_t)json_array_size(verdicts);
    json_object_set_new(b, "conforms",
                        json_boolean(passed > 0 && passed + skipped == all && !unexpected));
    json_object_set_new(b, "unexpected_skips", json_integer((json_int_t)unexpected));
    json_object_set_new(b, "counts", counts);
    json_object_set_new(b, "operators", operators);
    json_object_set_new(b, "features", names_of(features));
    json_object_set_new(b, "grade", attn_json_number(grade));
    json_object_set_new(b, "max_ratio", attn_json_number(ratio));
    json_object_set_new(b, "results_sha256", digest_json(&hash));
    const int status = add_power(operators, verdicts, machine, why, size);
    json_decref(features);
    json_decref(verdicts);
    if (status == 0)
        return b;
    json_decref(b);
    return NULL;
}

static json_t *machine_json(const json_t *machine)
{
    return json_pack("{s:s,s:O?,s:s,s:s,s:s,s:O?}", "cpu", attn_field_text(machine, "cpu.model"),
                     "flags", attn_field_at(machine, "cpu.flags"), "kernel",
                     attn_field_text(machine, "kernel"), "libc", attn_field_text(machine, "libc"),
                     "compiler", attn_field_text(machine, "compiler"), "threads",
                     json_object_get(machine, "threads"));
}

json_t *attn_conformance_make(const json_t *records, const json_t *machine,
                              const struct attn_conformance_suite *suite, char *why, size_t size)
{
    json_t *list = json_array(), *info;
    size_t i;
    json_array_foreach(attn_field_at(machine, "backends"), i, info)
    {
        if (strcmp(attn_field_text(info, "exactness"), "none") == 0)
            continue;
        json_t *backend = backend_json(records, machine, info, why, size);
        if (!backend) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, backend);
    }
    json_t *s = json_pack(
        "{s:i,s:O?,s:s,s:{s:s,s:I,s:o},s:{s:i,s:i},s:o,s:o}", "statement", 1, "attnbench",
        json_object_get(machine, "attnbench"), "date", attn_field_text(machine, "date"), "suite",
        "name", suite->name, "cases", (json_int_t)json_array_size(suite->ids), "sha256",
        hash_of_list(suite->ids), "mutation_score", "refused", ATTN_MUTANTS_REFUSED, "planted",
        ATTN_MUTANTS_PLANTED, "machine", machine_json(machine), "backends", list);
    if (s && strcmp(suite->name, "cases") == 0)
        json_object_set(json_object_get(s, "suite"), "lines", (json_t *)suite->lines);
    if (s)
        json_object_set_new(s, "sha256", seal_of(s));
    else
        snprintf(why, size, "no memory for a statement");
    return s;
}

/* ---- reading one ---- */

static json_t *load(const char *text, size_t length, enum attn_exit *code, char *why, size_t size)
{
    json_error_t error;
    json_t *s = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    *code = ATTN_EXIT_USAGE;
    attn_text_clean(error.text);
    if (!s)
        snprintf(why, size, "line %d of the statement: %s", error.line, error.text);
    else if (attn_field_number(s, "statement") != 1 ||
             !json_is_array(json_object_get(s, "backends")))
        snprintf(why, size, "this is no statement, or one of a later version");
    else {
        json_t *seal = seal_of(s);
        const bool whole = json_equal(seal, json_object_get(s, "sha256"));
        json_decref(seal);
        if (whole) {
            attn_json_clean(s);
            return s;
        }
        *code = ATTN_EXIT_NUMERICS;
        snprintf(why, size, "the statement has been edited: its sha256 is that of another one");
    }
    json_decref(s);
    return NULL;
}

/* Is the text of the file what the object says? */
static int check_text(const char *text, size_t length, const json_t *statement, char *why,
                      size_t size)
{
    char *made = NULL;
    size_t n = 0;
    FILE *out = attn_text_open(&made, &n);
    int status = out ? attn_conformance_put_markdown(out, statement) : -1;
    if (!out || fclose(out) != 0 || status != 0) {
        snprintf(why, size, "no memory for the text of the statement");
        status = -1;
    } else if (n != length || memcmp(made, text, n) != 0) {
        snprintf(why, size,
                 "the text has been edited: it does not say what the object in its comment says");
        status = -1;
    }
    free(made);
    return status;
}

json_t *attn_conformance_parse(const char *text, size_t length, enum attn_exit *code, char *why,
                               size_t size)
{
    *code = ATTN_EXIT_USAGE;
    if (strspn(text, " \t\r\n") < length && text[strspn(text, " \t\r\n")] == '{')
        return load(text, length, code, why, size);
    const char *begin = strstr(text, ATTN_STATEMENT_BEGIN);
    const char *end = begin ? strstr(begin, ATTN_STATEMENT_END) : NULL;
    const char *object = end ? strstr(begin, ATTN_STATEMENT_OBJECT) : NULL;
    const char *stop = object ? strstr(object, " -->") : NULL;
    if (!end || !stop || stop > end) {
        snprintf(why, size,
                 "there is no statement in this file: 'verify --statement FILE' writes "
                 "one");
        return NULL;
    }
    if (strstr(begin + 1, ATTN_STATEMENT_BEGIN)) {
        snprintf(why, size, "there is more than one statement in this file");
        return NULL;
    }
    object += strlen(ATTN_STATEMENT_OBJECT);
    json_t *s = load(object, (size_t)(stop - object), code, why, size);
    if (!s)
        return NULL;
    end += strlen(ATTN_STATEMENT_END);
    if (check_text(begin, (size_t)(end - begin), s, why, size) == 0)
        return s;
    *code = ATTN_EXIT_NUMERICS;
    json_decref(s);
    return NULL;
}

/* ---- two of them ---- */

__attribute__((format(printf, 4, 5))) static enum attn_exit
say(enum attn_exit code, char *why, size_t size, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(why, size, format, list);
    va_end(list);
    return code;
}

static bool same(const json_t *a, const json_t *b, const char *path)
{
    const json_t *x = attn_field_at(a, path), *y = attn_field_at(b, path);
    return x && y && json_equal(x, y);
}

/* The backend of a statement with this name and these options. */
static const json_t *backend_of(const json_t *statement, const json_t *like)
{
    size_t i;
    json_t *b;
    json_array_foreach(json_object_get(statement, "backends"), i, b)
    {
        if (same(b, like, "name") && same(b, like, "options"))
            return b;
    }
    return NULL;
}

enum attn_exit attn_conformance_fits(const json_t *statement, const json_t *here, bool cross,
                                     char *why, size_t size)
{
    static const struct {
        const char *path, *what;
    } facts[] = {{"attnbench.version", "version of attnbench"},
                 {"suite.name", "suite"},
                 {"suite.cases", "number of cases"},
                 {"suite.sha256", "set of cases"},
                 {"mutation_score", "mutation score"},
                 {"machine.cpu", "processor"},
                 {"machine.flags", "set of vector extensions"},
                 {"machine.threads", "number of threads"}};
    const json_t *list = json_object_get(statement, "backends");
    size_t i;
    json_t *b;
    for (size_t f = 0; f < sizeof facts / sizeof facts[0]; f++)
        if (!same(statement, here, facts[f].path) &&
            !(cross && strncmp(facts[f].path, "machine.", 8) == 0))
            return say(ATTN_EXIT_BASELINE, why, size,
                       "the statement cannot be repeated here: its %s is another one (%.100s)",
                       facts[f].what, attn_field_text(statement, facts[f].path));
    if (json_array_size(list) == 0)
        return say(ATTN_EXIT_NUMERICS, why, size, "the statement is about no backend");
    json_array_foreach(list, i, b)
    {
        const json_t *mine = backend_of(here, b);
        if (backend_of(statement, b) != b)
            return say(ATTN_EXIT_NUMERICS, why, size, "the statement names %.64s twice",
                       attn_field_text(b, "name"));
        if (!mine || !same(b, mine, "plugin_sha256"))
            return say(ATTN_EXIT_NUMERICS, why, size,
                       "the statement is about another plugin: that of %.64s here has sha256 %.64s",
                       attn_field_text(b, "name"), attn_field_text(mine, "plugin_sha256"));
        if (strcmp(attn_field_text(b, "source_sha256"), attn_field_text(mine, "source_sha256")) !=
            0)
            return say(ATTN_EXIT_NUMERICS, why, size,
                       "the statement is about another file: that of %.64s here has sha256 %.64s",
                       attn_field_text(b, "name"), attn_field_text(mine, "source_sha256"));
    }
    return ATTN_EXIT_OK;
}

/* Does the statement claim more than was found here, beyond what samples explain? What is no number
 * claims, too. */
static bool claims_more(const json_t *stated, const json_t *found, char *what, size_t size)
{
    const double made = attn_field_number(stated, "checks_made");
    const double of = attn_field_number(stated, "power_of");
    const double power = attn_field_number(stated, "power_refused") / fmax(of, 1);
    const double here_made = attn_field_number(found, "checks_made");
    const double here_of = attn_field_number(found, "power_of");
    const double here = attn_field_number(found, "power_refused") / fmax(here_of, 1);
    if (!(made <= here_made))
        snprintf(what, size, "%.0f checks were made; here it was %.0f", made, here_made);
    else if (!(fabs(of - here_of) <= POWER_SLACK * here_of))
        snprintf(what, size, "%.0f usual mistakes apply; here it was %.0f", of, here_of);
    else if (!(power <= here + POWER_SLACK))
        snprintf(what, size, "%.1f %% of usual mistakes would be refused; here it was %.1f %%",
                 100 * power, 100 * here);
    else
        return false;
    return true;
}

static enum attn_exit operator_agrees(const json_t *stated, const json_t *found, char *why,
                                      size_t size)
{
    const char *op = attn_field_text(stated, "op"), *dtype = attn_field_text(stated, "dtype");
    char what[128];
    if (!same(stated, found, "op") || !same(stated, found, "dtype") ||
        !same(stated, found, "counts"))
        return say(ATTN_EXIT_NUMERICS, why, size,
                   "the statement's counts for %.32s in %.16s are not those found here", op, dtype);
    /* Without verdicts there are no checks. */
    if (!attn_field_at(found, "checks_apply"))
        return ATTN_EXIT_OK;
    if (!same(stated, found, "checks_apply"))
        return say(ATTN_EXIT_NUMERICS, why, size,
                   "the statement's number of checks that apply to %.32s in %.16s is not the one "
                   "found here",
                   op, dtype);
    if (claims_more(stated, found, what, sizeof what))
        return say(ATTN_EXIT_INCONCLUSIVE, why, size,
                   "the statement says of %.32s in %.16s that %s", op, dtype, what);
    return ATTN_EXIT_OK;
}

/* An error that is stated must not be far below the one found. */
static bool error_agrees(const json_t *stated, const json_t *found, const char *field)
{
    const double x = attn_field_number(stated, field), y = attn_field_number(found, field);
    return isnan(x) ? isnan(y) : y <= x * ERROR_SLACK && x <= y * ERROR_SLACK;
}

static enum attn_exit backend_agrees(const json_t *stated, const json_t *found, char *why,
                                     size_t size)
{
    static const char *const exact[] = {"exactness",        "conforms", "counts",
                                        "unexpected_skips", "features", "offered",
                                        "version",          "plugin",   "results_sha256"};
    const json_t *list = json_object_get(stated, "operators");
    const json_t *others = json_object_get(found, "operators");
    const char *name = attn_field_text(stated, "name");
    enum attn_exit code = ATTN_EXIT_OK;
    size_t i;
    json_t *line;
    for (size_t f = 0; f < sizeof exact / sizeof exact[0]; f++)
        if (!same(stated, found, exact[f]))
            return say(ATTN_EXIT_NUMERICS, why, size,
                       "the statement's '%s' of %.64s is not the one found here", exact[f], name);
    if (json_array_size(list) != json_array_size(others))
        return say(ATTN_EXIT_NUMERICS, why, size,
                   "the statement has other operators and types of %.64s than were found here",
                   name);
    json_array_foreach(list, i, line)
    {
        const enum attn_exit one = operator_agrees(line, json_array_get(others, i), why, size);
        if (one == ATTN_EXIT_NUMERICS)
            return one;
        code = one ? one : code;
    }
    if (code == ATTN_EXIT_OK &&
        (!error_agrees(stated, found, "grade") || !error_agrees(stated, found, "max_ratio")))
        return say(ATTN_EXIT_INCONCLUSIVE, why, size,
                   "the statement's errors of %.64s are not those found here", name);
    return code;
}

/* The first field that one has and the other has not, in objects and lists of these; NULL: none. */
static const char *odd_field(const json_t *stated, const json_t *found)
{
    const char *key, *odd = NULL;
    json_t *value;
    json_object_foreach((json_t *)stated, key, value)
    {
        const json_t *other = json_object_get(found, key);
        odd = other ? odd_field(value, other) : key;
        if (odd)
            return odd;
    }
    for (size_t i = 0; i < json_array_size(stated); i++)
        if ((odd = odd_field(json_array_get(stated, i), json_array_get(found, i))))
            return odd;
    return NULL;
}

enum attn_exit attn_conformance_agrees(const json_t *statement, const json_t *again, char *why,
                                       size_t size)
{
    enum attn_exit code = ATTN_EXIT_OK;
    const char *odd = odd_field(statement, again);
    size_t i;
    json_t *b;
    odd = odd ? odd : odd_field(again, statement);
    if (odd)
        return say(ATTN_EXIT_NUMERICS, why, size,
                   "the statement and what was found here differ by a field, '%.64s'", odd);
    json_array_foreach(json_object_get(statement, "backends"), i, b)
    {
        const enum attn_exit one = backend_agrees(b, backend_of(again, b), why, size);
        if (one == ATTN_EXIT_NUMERICS)
            return one;
        code = one ? one : code;
    }
    return code;
}

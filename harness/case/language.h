/* SPDX-License-Identifier: Apache-2.0 */
/* language.h - shared by the files of the case language: words, messages, the rules of the keys.
 * Private to this folder. */
#ifndef ATTN_CASE_LANGUAGE_H
#define ATTN_CASE_LANGUAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sha2.h>

#include "case/case.h"
#include "reference/score.h"

#define ATTN_CASE_SIZE_MAX INT32_MAX /* of one size: libraries below us count in int */

/* A piece of a line, not terminated. Columns count from 1. */
struct attn_word {
    const char *text;
    size_t length, column;
};

/* Where a text came from and where a message about it goes. */
struct attn_origin {
    const char *file; /* NULL: the command line */
    int line;
    bool pack; /* the sizes come from a pack, and parts may name its tensors */
    char *why;
    size_t size;
};

/* Receives canonical text: a buffer that is never overrun, a hash, or both. */
struct attn_sink {
    char *text;
    size_t size, length;
    SHA2_CTX *hash;
    bool path; /* write data= even if the hash replaces it */
};

/* ---- words.c: messages and values ---- */

/* Writes "file:line:column: " and the message; always returns -1. */
int attn_case_error(const struct attn_origin *origin, size_t column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "unknown WHAT 'word'", with the nearest candidate, or else with the legal values. */
int attn_word_unknown(const struct attn_origin *origin, struct attn_word word, const char *what,
                      const char *const *candidates, size_t count, const char *values);

/* The length of a word that a message shows: the precision of a %.*s. */
int attn_word_shown(struct attn_word word);

bool attn_word_is(struct attn_word word, const char *text);

/* Cuts the next part off `rest`, up to `separator`. False if there is none left. A word of n
 * separators has n + 1 parts, some perhaps empty. */
bool attn_word_split(struct attn_word *rest, char separator, struct attn_word *part);

/* Values: 0, or -1 with a message. Whole numbers have no sign other than -, no leading zero. */
int attn_word_integer(struct attn_word word, int64_t min, int64_t max, int64_t *value,
                      const struct attn_origin *origin);
int attn_word_unsigned(struct attn_word word, uint64_t *value, const struct attn_origin *origin);
int attn_word_real(struct attn_word word, double *value, const struct attn_origin *origin);

/* ---- keys.c: the table ---- */

enum {
    ATTN_KEY_SIZE = 1,    /* whole numbers, -1: not given; ranges are legal */
    ATTN_KEY_TENSORS = 2, /* a pack's tensors say it: not given together with a pack */
    ATTN_KEY_PATH = 4,    /* names a pack: not in a pack's own line */
    ATTN_KEY_WHOLE = 8,   /* '/' is part of the value: cannot be linked to another key */
    ATTN_KEY_RANGE = 16   /* not a size, but ranges are legal */
};

struct attn_choice {
    const char *name;
    uint32_t value;
};

#define ATTN_KEY_TARGETS 3

struct attn_key_rule {
    /* Reads a value into the case. */
    int (*parse)(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                 const struct attn_origin *origin);
    /* Writes " key=value" if the value is not the default. NULL: a shorthand. */
    void (*write)(const struct attn_case_key *key, const struct attn_case *c,
                  struct attn_sink *sink);
    unsigned flags;
    size_t offset; /* of the field in struct attn_case */

    /* sizes (int64_t; -1: not given): least legal value, and the default, -1: none */
    int64_t min;
    int64_t (*fallback)(const struct attn_case *c);

    /* choices: names and values, ended by a NULL name; bytes of the field; default */
    const struct attn_choice *choices;
    size_t width;
    uint32_t initial;

    /* shorthands: the keys that it sets */
    const char *targets[ATTN_KEY_TARGETS];

    /* parameters of operators: the index in attn_case.param, and the first operator's row */
    size_t slot;
    const struct ref_param *param;
};

/* Keys of the language itself, sorted, ended by a NULL name. The keys of operators are not among
 * them; attn_case_keys has all keys. */
extern const struct attn_case_key attn_language_keys[];

/* The words of fill=, in the order of enum attn_fill. */
extern const struct attn_choice attn_fill_choices[];

int64_t attn_key_size(const struct attn_case_key *key, const struct attn_case *c);

/* ---- table.c: all keys, those of operators among them ---- */

/* The key of a name, or NULL. The index of a key in attn_case_keys. */
const struct attn_case_key *attn_key_find(struct attn_word name);
size_t attn_key_index(const struct attn_case_key *key);

/* All names, for suggestions; returns their number. */
size_t attn_key_names(const char *names[], size_t max);

/* Do only some operators accept a key? Then writes "'KEY' needs op=A or op=B". */
bool attn_key_has_owners(const struct attn_case_key *key);
void attn_key_owners(const char *key, char *text, size_t size);

/* Scores of one kind, each as PREFIXname, joined with `joint`: "score=bilinear or score=additive".
 */
typedef bool attn_score_kind(const struct ref_score *score);
void attn_score_names(attn_score_kind *kind, const char *prefix, const char *joint, char *text,
                      size_t size);

/* Output n of those that a case of some operator may ask for, each once; NULL beyond the last. */
const struct ref_output *attn_optional_output(size_t n);

/* ---- params.c: parameters of operators ---- */

int attn_parse_param(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                     const struct attn_origin *origin);
void attn_write_param(const struct attn_case_key *key, const struct attn_case *c,
                      struct attn_sink *sink);

/* Refuses a parameter that the case's operator does not have. Forgets parameters that are given
 * their default. 0, or -1 with the wrong key and the reason. */
int attn_params_resolve(struct attn_case *c, const char **key, char *why, size_t size);

/* Is every parameter in its range, and does it go with the score? `pack`: those that are not given
 * may still be unknown. 0, or -1 with the wrong key and the reason. */
int attn_params_judge(const struct attn_case *c, bool pack, const char **key, char *why,
                      size_t size);

/* ---- mask.c and sets.c: values made of parts ---- */

int attn_parse_mask(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                    const struct attn_origin *origin);
int attn_parse_bias(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                    const struct attn_origin *origin);
int attn_parse_out(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                   const struct attn_origin *origin);
int attn_parse_view(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                    const struct attn_origin *origin);
int attn_parse_prune(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                     const struct attn_origin *origin);
void attn_write_mask(const struct attn_case_key *key, const struct attn_case *c,
                     struct attn_sink *sink);
void attn_write_bias(const struct attn_case_key *key, const struct attn_case *c,
                     struct attn_sink *sink);
void attn_write_out(const struct attn_case_key *key, const struct attn_case *c,
                    struct attn_sink *sink);
void attn_write_view(const struct attn_case_key *key, const struct attn_case *c,
                     struct attn_sink *sink);
void attn_write_prune(const struct attn_case_key *key, const struct attn_case *c,
                      struct attn_sink *sink);

/* ---- path.c: data= and sha256= ---- */

int attn_parse_data(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                    const struct attn_origin *origin);
int attn_parse_sha256(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                      const struct attn_origin *origin);
void attn_write_data(const struct attn_case_key *key, const struct attn_case *c,
                     struct attn_sink *sink);
void attn_write_sha256(const struct attn_case_key *key, const struct attn_case *c,
                       struct attn_sink *sink);

/* ---- canonical.c: writing ---- */

void attn_sink_text(struct attn_sink *sink, const char *text);
void attn_sink_format(struct attn_sink *sink, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* at most 63 bytes */
void attn_sink_real(struct attn_sink *sink, double value);
void attn_sink_key(struct attn_sink *sink, const struct attn_case_key *key); /* " key=" */

/* ---- check.c ---- */

/* Makes a case with nothing given yet. */
void attn_case_init(struct attn_case *c);

/* Fills in every default. 0, or -1 with the wrong key and the reason. */
int attn_case_resolve(struct attn_case *c, bool pack, const char **key, char *why, size_t size);

/* attn_case_check that also names the wrong key. `pack`: sizes may still be unknown. */
int attn_case_judge(const struct attn_case *c, bool pack, const char **key, char *why, size_t size);

/* ---- line.c ---- */

/* attn_case_parse_line that also gives the name on the line, "" for none. Sets origin->pack. */
int attn_case_parse_named(const char *text, size_t length, struct attn_origin *origin,
                          struct attn_case_list *list, char name[ATTN_CASE_NAME_MAX]);

#endif

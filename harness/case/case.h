/* SPDX-License-Identifier: Apache-2.0 */
/* case.h - the case language: one line of text is one problem, the same on every machine.
 *
 * The grammar is in cases/README.md. A parsed case is complete: every default is resolved, so that
 * no reader has to know the rules. Its canonical form (sorted keys, defaults left out) is its
 * identity. */
#ifndef ATTN_CASE_H
#define ATTN_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

#define ATTN_CASE_NAME_MAX  64
#define ATTN_CASE_LINE_MAX  4096      /* bytes of one line */
#define ATTN_CASE_FILE_MAX  (1 << 20) /* bytes of a file */
#define ATTN_CASE_LIST_MAX  256       /* entries of len:N/N/... and prune:i/j/... */
#define ATTN_CASE_ID_LEN    16        /* hex digits */
#define ATTN_CASE_PARAMS    32        /* keys that are operators' own, of all operators together */
#define ATTN_CASE_ROLES     128       /* one past the largest role of an output */

/* Cases of all files together. The preset fuzz takes few: a million
 * are a minute under a sanitizer, and the many are alike. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define ATTN_CASE_COUNT_MAX 20000
#else
#define ATTN_CASE_COUNT_MAX 1000000
#endif

/* AXES of a boolean mask or a bias: these axes of b h q k are full, the others are 1. */
enum { ATTN_AXIS_B = 1, ATTN_AXIS_H = 2, ATTN_AXIS_Q = 4, ATTN_AXIS_K = 8, ATTN_AXES_ALL = 15 };

/* Whole numbers of a list. They never change, so the copies of a case share them. */
struct attn_case_numbers {
    _Atomic int owners; /* copies may be freed on any thread */
    int64_t at[];
};

enum attn_len_mode { ATTN_LEN_NONE, ATTN_LEN_LIST, ATTN_LEN_RAND, ATTN_LEN_RAND_2D, ATTN_LEN_PACK };
enum attn_global_mode { ATTN_GLOBAL_NONE, ATTN_GLOBAL_FIRST, ATTN_GLOBAL_RAND, ATTN_GLOBAL_PACK };
enum attn_layout { ATTN_LAYOUT_BHSD, ATTN_LAYOUT_BSHD, ATTN_LAYOUT_BHDS };
enum attn_weights_init { ATTN_WEIGHTS_NORMAL, ATTN_WEIGHTS_STIEFEL };
enum attn_fill { /* attn_fill_meaning says what each is */
                 ATTN_FILL_NORMAL,
                 ATTN_FILL_UNIFORM,
                 ATTN_FILL_ONES,
                 ATTN_FILL_ZEROS,
                 ATTN_FILL_SMOOTH,
                 ATTN_FILL_CENSUS,
                 ATTN_FILL_SPIKE,
                 ATTN_FILL_POISON,
                 ATTN_FILL_EXACT,
                 ATTN_FILL_ONE_HOT,
                 ATTN_FILL_STAIR_UP,
                 ATTN_FILL_STAIR_DOWN,
                 ATTN_FILL_ROUNDING,
                 ATTN_FILL_OVERFLOW,
                 ATTN_FILL_NEGATIVE,
                 ATTN_FILL_CONSTANT,
                 ATTN_FILL_CANCEL,
                 ATTN_FILL_TINY,
                 ATTN_FILL_WHOLE,
                 ATTN_FILL_FEW_QUERIES,
                 ATTN_FILL_STRONG_DECAY,
                 ATTN_FILL_TINY_PHI,
                 ATTN_FILL_CLUSTERS,
                 ATTN_FILL_CANCEL_DELTA,
                 ATTN_FILL_BIG_GRAD,
                 ATTN_FILL_TINY_GRAD,
                 ATTN_FILL_SPARSE_GRAD,
                 ATTN_FILL_SPARSE_KEYS,
                 ATTN_FILL_ZERO_GRAD,
                 ATTN_FILL_TWO_HOT,
                 ATTN_FILL_COUNT
};

enum {                          /* parts of view= */
       ATTN_VIEW_GAPS = 1,      /* padding after each innermost row, for inputs and outputs */
       ATTN_VIEW_PERMUTED = 2,  /* axes in another memory order than the layout's */
       ATTN_VIEW_BROADCAST = 4, /* K and V shared by all batches: stride 0 */
       ATTN_VIEW_OFFSET1 = 8,   /* data starts one element after an aligned address */
       ATTN_VIEW_HUGE = 16      /* offsets beyond 2^31 elements, through a sparse mapping */
};

struct attn_case {
    char name[ATTN_CASE_NAME_MAX]; /* as given, or "" */
    uint32_t op, score, dtype;     /* ABI enumerations */
    int64_t b, hq, hkv, sq, sk, dq, dk, dv, dh, e;
    double scale;       /* resolved: 1/sqrt(dk) or 1 if not given; 0 while dk is not known */
    bool scale_given;   /* given, and not the default */
    bool scale_by_keys; /* given as 1/sk; false once resolved */
    double softcap;     /* 0: none */

    bool causal, window, off_br;
    int64_t off; /* past:N, else 0 */
    int64_t window_left, window_right;
    enum attn_len_mode len;
    int n_len; /* entries of the list; with ATTN_LEN_PACK the rank of the pack's tensor, 1 or 2 */
    struct attn_case_numbers *len_list; /* of ATTN_LEN_LIST, repeated over b when shorter */
    bool mask_bool;
    double mask_p; /* probability that a cell is allowed */
    unsigned mask_axes;
    enum attn_global_mode global;
    int64_t n_global;                   /* ATTN_GLOBAL_FIRST: so many tokens */
    double global_p;                    /* ATTN_GLOBAL_RAND: probability that a token is global */
    bool global_proj;                   /* q_global, k_global, v_global */
    int n_dilation;                     /* 0: the window is not dilated */
    struct attn_case_numbers *dilation; /* repeated over hq when shorter */

    bool bias_normal;
    unsigned bias_axes;
    bool bias_const; /* one number for all cells: */
    double bias_value;
    bool bias_by_keys; /* given as -log(sk); false once resolved */
    bool alibi, sink;
    bool dropout, keep; /* keep: by a mask that is given. No word says so: a check sets it */
    double dropout_p;

    enum attn_layout layout;
    bool cross;       /* kv=cross: x_k is a tensor of its own (mha) */
    bool params_head; /* params=head: one M, W_q, W_k, w_v per query head */
    bool proj_bias;
    int n_prune;
    struct attn_case_numbers *prune; /* ascending; NULL: none */
    enum attn_weights_init weights;
    uint64_t out[ATTN_CASE_ROLES / 64]; /* bit r: out= asks for role r; see attn_case_asks */
    enum attn_fill fill;
    unsigned view;
    uint64_t seed;
    /* Which rows are sampled, and which rows of fill=few_queries have which query. Not part of the
     * language: who makes an instance sets it. */
    uint64_t sample_seed;
    bool residual, wo;

    /* Operators' own parameters as given; NULL: none is given. attn_case_param reads them
     * (case/operator.h). */
    struct attn_case_numbers *param;

    /* data=FILE. In a case line from a .cases file the path is relative to that file and is
     * resolved by the parser. Sizes are -1 (of op=mha hq and hkv may be
     * given) until the pack is opened (attn_pack_resolve), which sets
     * the type and the default scale, too. dh is 0 if the score is not additive; e is 0 if the op
     * is not mha. pack_*: parts that name the pack's own tensors. mask_bool, bias_normal, alibi and
     * sink then stay false. */
    char *data;         /* NULL: none. Owned by the case */
    char data_hash[65]; /* SHA-256 of the pack's bytes in hex, "" until resolved */
    bool pack_mask, pack_bias, pack_alibi, pack_sink, pack_dilation;

    /* where the case was written, for messages */
    char *file; /* NULL: the command line. Owned by the case */
    int line;
};

struct attn_case_list {
    struct attn_case *items;
    size_t count, capacity;
};

void attn_case_list_free(struct attn_case_list *list);
void attn_case_free(struct attn_case *c);
int attn_case_copy(struct attn_case *to, const struct attn_case *from); /* 0, or -1: no memory */

/* Replaces a list of a case by `count` numbers; by NULL if there are none. 0, or -1: no memory, and
 * *list is unchanged. */
int attn_case_numbers_set(struct attn_case_numbers **list, const int64_t *numbers, int count);

/* Do two lists of `count` numbers hold the same numbers? */
bool attn_case_numbers_equal(const struct attn_case_numbers *a, const struct attn_case_numbers *b,
                             int count);

/* Replaces the lists of a case by the lists of `twin` that hold the same numbers. */
void attn_case_share_lists(struct attn_case *c, const struct attn_case *twin);

/* All functions below return 0, or -1 with a message in (why, size). It names file, line, column,
 * the wrong word and, if one is near, the legal word. On failure nothing is appended. */

/* Parses one line (with or without "name:") and appends every case that it multiplies out to.
 * `file` NULL: the command line. A path in data= is relative to the folder of `file`; without
 * `file` it is used as it is. An empty line or a comment appends nothing. */
int attn_case_parse_line(const char *text, size_t length, const char *file, int line,
                         struct attn_case_list *list, char *why, size_t size);

/* Parses a .cases file. */
int attn_case_parse_file(const char *path, struct attn_case_list *list, char *why, size_t size);

/* Parses a pack's case line: exactly one case, no name, no lists, no sizes except hq and hkv, which
 * op=mha needs. The other sizes stay -1. */
int attn_case_parse_pack_line(const char *text, const char *file, struct attn_case *out, char *why,
                              size_t size);

/* Checks what needs all sizes: hkv divides hq, len within sk, widths, br with 2-D len... The parser
 * calls it; the pack reader calls it again when it has filled in the sizes. */
int attn_case_check(const struct attn_case *c, char *why, size_t size);

/* Writes the canonical form, without name; for a pack with `data=` and its hash as `sha256=`. The
 * text parses back to the same case. If it does not fit, it ends in "...", so that part of a case
 * is never read as another case. Returns its full length, as snprintf. */
size_t attn_case_canonical(const struct attn_case *c, char *text, size_t size);

/* First 16 hex digits of the canonical form's SHA-256 (its data= path left out, its hash kept). */
void attn_case_id(const struct attn_case *c, char id[ATTN_CASE_ID_LEN + 1]);

/* Short label for tables and axes: the name if there is one, else the canonical form. */
const char *attn_case_label(const struct attn_case *c, char *text, size_t size);

/* Does out= ask for the output of a role? Asks for it. */
bool attn_case_asks(const struct attn_case *c, uint32_t role);
void attn_case_ask(struct attn_case *c, uint32_t role);

/* Bytes that all operands of the case take, inputs and outputs, dense; UINT64_MAX on overflow. */
uint64_t attn_case_bytes(const struct attn_case *c);

/* FLOPs by the convention of the case's operator, from the exact number of allowed cells. */
double attn_case_flops(const struct attn_case *c, int64_t nnz);

/* The word of a fill in the case language; one line on what it puts into the inputs. */
const char *attn_fill_name(enum attn_fill fill);
const char *attn_fill_meaning(enum attn_fill fill);

/* Are all rows, or all keys, judged under it at any size? */
bool attn_fill_is_whole(enum attn_fill fill);

/* Is it tried on a case that was sampled, or that was not? */
bool attn_fill_is_due(enum attn_fill fill, bool sampled);

/* Does the fill fit the case? If not, writes what the fill needs into (why, size), unless NULL. The
 * fills from ATTN_FILL_CENSUS on choose scores or values, so they do not fit every case. */
bool attn_fill_fits(const struct attn_case *c, enum attn_fill fill, char *why, size_t size);

/* Keys, for completion and help: name, values, default, meaning. Sorted by name, terminated by a
 * NULL name. They are the keys of the language and those that operators' tables add. */
struct attn_key_rule;
struct attn_case_key {
    const char *name, *values, *fallback, *help;
    const struct attn_key_rule *rule; /* private to this folder */
};
const struct attn_case_key *attn_case_keys(void);

/* The candidate nearest to `word` by edit distance; NULL if none is near enough to suggest. */
const char *attn_nearest(const char *word, const char *const *candidates, size_t count);

/* Glob with * and ? over the whole text. */
bool attn_glob(const char *pattern, const char *text);

#endif

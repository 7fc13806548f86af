/* SPDX-License-Identifier: Apache-2.0 */
/* confine.h - what keeps a worker's process to itself: rungs that the kernel may give or refuse.
 *
 * README.md says what each is worth. A level asks for rungs; those that this kernel refuses are
 * left out, each with its reason. isolate.h has the first. */
#ifndef ATTN_HOST_CONFINE_H
#define ATTN_HOST_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum attn_confine {
    ATTN_CONFINE_AUTO, /* strict; limits where there is a GPU, whose driver has not been tried in it
                        */
    ATTN_CONFINE_OFF,
    ATTN_CONFINE_LIMITS, /* nothing that a plugin could miss */
    ATTN_CONFINE_STRICT  /* no files to write, no network, no files without a name */
};

/* In the order in which they are taken. As bits: 1u << rung. */
enum attn_rung_name {
    ATTN_RUNG_USER, /* a user namespace: no power over processes outside */
    ATTN_RUNG_PID,  /* a pid namespace: none outside can be named; all inside die with the worker */
    ATTN_RUNG_NET,  /* a network namespace and one of System V's objects */
    ATTN_RUNG_MOUNT,    /* a mount namespace: all that is mounted is read-only */
    ATTN_RUNG_LANDLOCK, /* no file is written by path, no signal leaves */
    ATTN_RUNG_SECCOMP,  /* calls that README.md lists fail */
    ATTN_RUNG_NAMES
};

/* The level of all workers of this program, to be chosen before the first. */
void attn_confine_choose(enum attn_confine level);
/* The level chosen, never AUTO. */
enum attn_confine attn_confine_level(void);
/* "off" "limits" "strict" */
const char *attn_confine_level_name(enum attn_confine level);

struct attn_confinement {
    uint32_t rungs;              /* taken, as bits */
    int errors[ATTN_RUNG_NAMES]; /* of those refused: the kernel's error number */
};

/* What of a level, not AUTO, this kernel gives. Tried once for each, in a child. */
const struct attn_confinement *attn_confine_possible(enum attn_confine level);

/* The level in words, with the rungs that are taken and those that are refused: "limits: user
 * namespace; refused: pid namespace (Operation not permitted)". */
void attn_confine_describe(enum attn_confine level, char *text, size_t size);

/* What keeps plugins from the host's memory, in words, for machine.json. */
const char *attn_isolate_level(void);

/* The calling process, which must have one thread and be in its user namespace, takes those of the
 * rungs `wanted` from NET on. It then has no capabilities but that to read what root may read. */
void attn_confine_self(uint32_t wanted, struct attn_confinement *taken);

/* Part of the rung PID, in a process of the namespace: /proc shows this namespace, to this process
 * and its children. Returns 0, or an error number: in some containers parts of /proc are covered,
 * and the kernel does not let another one show them. */
int attn_confine_proc(void);

/* The steps of attn_confine_self; each returns 0, or an error number. */
int attn_confine_mounts(void);
int attn_confine_landlock(void);
int attn_confine_calls(void);

#endif

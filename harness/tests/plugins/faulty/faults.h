/* SPDX-License-Identifier: Apache-2.0 */
/* faults.h - what faulty.c can be told to do. */
#ifndef ATTN_TEST_FAULTS_H
#define ATTN_TEST_FAULTS_H

#include "../base.h"

struct fault {
    const char *name;
    void (*commit)(void);
};

/* A file each; after the last comes one without a name. */
extern const struct fault faults_of_ends[], faults_of_memory[], faults_of_messages[],
    faults_of_state[], faults_of_processes[];

/* The wish: what to do, and with what. */
extern char fault_kind[32], fault_argument[512];

/* The operands, from bind to release. */
extern const struct base_binding *fault_bound;

/* Prints "done KIND" if so. */
void fault_done(int yes);

void fault_pause(void); /* for ever */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* machines.h - which runs may stand in one series. Private to this folder. */
#ifndef ATTN_MACHINES_H
#define ATTN_MACHINES_H

#include <jansson.h>

/* What of machine.json makes times of two runs comparable (report/comparable.h): processor, build,
 * compiler, threads, protocol, devices. Left out is what a history is about, or what ratios to an
 * anchor cancel: the plugins and their versions, ceilings and throttling, the date. A new string,
 * the same for the same machine; NULL without memory. */
char *attn_machine_identity(const json_t *machine);

/* Gives machines names. `list` is that of attn_index_machines: in the order of first runs. A
 * machine takes the name of the first that it is comparable with. Returns an object: for each
 * number of a machine its name, "1", "2", ...; and in *named, for each name {name, text,
 * differences (from machine 1)}. NULL without memory. */
json_t *attn_machines_name(const json_t *list, json_t **named);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - the process behind a worker: spawned, watched, ended. Internal to the host.
 *
 * process.c starts and ends it, watch.c waits for what it does, exchange.c turns that into an
 * outcome. */
#ifndef ATTN_PROCESS_H
#define ATTN_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/clock.h"
#include "host/protocol.h"
#include "host/types.h"

/* Processes that a plugin may have at once. */
enum { CHILDREN_MOST = 256 };

struct attn_worker {
    struct attn_worker_config config; /* strings are copies; limits are resolved */
    pid_t pid;                        /* 0: no process */
    pid_t place;     /* where the plugin is: `pid`, or a child of it in a pid namespace */
    uint32_t number; /* of the last message to it */
    int socket;
    int log_pipe;           /* read end, -1: none or at its end */
    int log_file;           /* -1: none */
    uint64_t log_written;   /* bytes */
    uint64_t log_discarded; /* bytes beyond the cap */
    uint32_t slot;          /* enum attn_slot: the last it told of */
    bool phased;            /* it has told of one: from then on a plugin may speak in its place */
    uint64_t rss;           /* bytes, when last looked at */
    double rss_time;        /* when that was */
    uint32_t children;      /* that the plugin has, and theirs, when last looked at */
    uint64_t below;         /* bytes of all together, if they may be over the limit; else 0 */
    double children_time;   /* when that was */
    double deadline;        /* of the exchange */
    double seen;            /* when the clock was last looked at in it */
    double stopped;         /* seconds in it in which the worker was stopped */
    union {
        struct attn_message_head head;
        struct attn_message_place place;
        struct attn_message_phase phase;
        struct attn_message_backend backend;
        struct attn_message_fault fault;
        struct attn_message_reply reply;
        struct attn_message_sample sample;
        struct attn_message_sync sync;
        unsigned char bytes[ATTN_MESSAGE_MAX];
    } in; /* the last message */
};

/* Starts the program; it has not been told anything yet. Returns 0, or -1 with the reason and
 * errno. */
int attn_process_start(struct attn_worker *worker, char *why, size_t size);

/* Ends the process: closes the socket, sends `signal` to the group (0: none), waits `grace`
 * seconds, kills the rest of the group, reaps, closes the log. Returns the wait status. */
int attn_process_end(struct attn_worker *worker, int signal, double grace);

enum attn_event {
    ATTN_EVENT_MESSAGE, /* in worker->in; its head has been checked */
    ATTN_EVENT_GARBAGE, /* a message of impossible length */
    ATTN_EVENT_GONE,    /* exited, or closed its socket */
    ATTN_EVENT_TIMEOUT,
    ATTN_EVENT_OOM,  /* worker->rss is over the limit */
    ATTN_EVENT_CROWD /* worker->children is over CHILDREN_MOST */
};

/* Begins an exchange: its time runs from now on. In the foreground only a forwarded signal sets a
 * deadline. */
void attn_process_set_out(struct attn_worker *worker);

/* Waits for the next event, and meanwhile watches log and memory. Time does not count in which this
 * process was stopped, as by Ctrl-Z, nor time in which the worker was, up to as much again as its
 * timeout: a plugin can stop itself. */
enum attn_event attn_process_wait(struct attn_worker *worker);

/* Empties the log pipe, with at most `reads` reads of 64 KiB. */
void attn_log_drain(struct attn_worker *worker, int reads);

/* Whether the process has ended. Does not reap it. */
bool attn_process_exited(const struct attn_worker *worker);

/* attn_workers_forward of worker.h. */
void attn_process_forward(int signal);

/* `deadline`, or an earlier time where a signal has been forwarded. */
double attn_process_deadline(double deadline);

/* One request, and what it wants besides the reply. */
struct attn_exchange {
    const struct attn_message_head *message;
    bool live; /* a SAMPLE ends the exchange, too: it is in worker->in, and the request goes on */
    const int *fds; /* two descriptors to send along, or NULL */
    const struct attn_instance *instance;
    struct attn_plugin_info *info; /* receives BACKEND messages, or NULL: none are expected */
};

/* Sends one message and waits for its reply. On PASS, worker->in.reply holds the checked reply, or,
 * if `live`, worker->in.sample a checked sample: the head's type tells.
 * Whenever the state of the worker is in doubt, its process is ended. */
struct attn_outcome attn_exchange(struct attn_worker *worker, const struct attn_exchange *exchange);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* seat.h - a backend's seat in a session: its worker process, which is kept across cases, and the
 * rates that the backend has shown. */
#ifndef ATTN_SEAT_H
#define ATTN_SEAT_H

#include "host/worker.h"
#include "judge/judge.h"
#include "run/session.h"

/* Cases of one kind run at rates that can be compared. One that reads each element for a few FLOPs
 * runs at the speed of memory, others at that of the arithmetic: decoding says nothing about
 * prefill. */
struct attn_seat_kind {
    uint32_t op, score, dtype;
    bool by_memory;
    bool sparse; /* less than a quarter of the cells is allowed */
};

/* The best rate that a backend has shown on cases of one kind. */
struct attn_seat_rate {
    struct attn_seat_kind kind;
    double flops;   /* per second */
    int runs;       /* that were seen */
    double seconds; /* of the longest run */
    double longest; /* FLOPs of that run */
    /* The longest run before it that had less than half of its FLOPs; 0: there was none. */
    double before_flops, before_s;
};

/* What came of attn_worker_unknowns for one operator with one score. */
struct attn_seat_answer {
    uint32_t op, score;
    struct attn_outcome outcome; /* PASS or FAIL */
    bool grown;                  /* growth of memory was looked for */
};

/* A kind of problem that age.c has asked about. */
struct attn_seat_age {
    uint32_t op, score, dtype;
};

/* A plan that has stayed in the worker, and what judges it (age.c). */
struct attn_seat_plan {
    struct attn_case c;
    struct attn_instance *instance;
    struct attn_judge *judge; /* of the plan's first inputs */
    struct attn_numerics numerics;
    double since; /* attn_now() */
};

void attn_seat_plan_free(struct attn_seat_plan *plan);

/* The worker is started when needed, and again after it is gone. */
struct attn_seat {
    const struct attn_session *session;
    const struct attn_contestant *contestant;
    const uint32_t *processors; /* [threads] of the worker; NULL: any. Not owned */
    /* Those whose rates say what is hopeless; NULL: nothing is. Not owned */
    const struct attn_seat *peers;
    size_t n_peers;
    bool was_wrong; /* a verdict did not hold: how fast it is says nothing */
    struct attn_worker *worker;
    struct attn_worker *other; /* with another number of threads, for the check `threads` */
    bool other_tried;
    struct attn_seat_rate *rates; /* one for each kind seen so far */
    size_t n_rates;
    struct attn_seat_answer *answers; /* one for each operator and score asked about so far */
    size_t n_answers;
    double renewed_s; /* spent on long series of runs by the check new_data */
    double rerun_s;   /* spent by the check rerun */
    /* age.c: what it has asked about, and the plan that it has left in `worker` */
    struct attn_seat_age *ages;
    size_t n_ages;
    struct attn_seat_plan *age;
    bool age_done; /* such a plan has been judged */
};

void attn_seat_init(struct attn_seat *seat, const struct attn_session *session,
                    const struct attn_contestant *contestant);
/* PASS with a live worker in the seat, or the reason why there is none. */
struct attn_outcome attn_seat_worker(struct attn_seat *seat);
/* Asks `supports` only: PASS, SKIP with the reason, also of a worker that cannot be started, or
 * what went wrong. */
struct attn_outcome attn_seat_supports(struct attn_seat *seat,
                                       const struct attn_instance *instance);
/* The same as attn_seat_worker for the worker with another number of threads: two if the session
 * has one, else one. A start that fails is not tried again before attn_seat_leave. */
struct attn_outcome attn_seat_other(struct attn_seat *seat);
/* Call after each request with its outcome. Stops a worker that has died or in which something
 * failed: after a fault on a device, later requests would fail, too. */
void attn_seat_after(struct attn_seat *seat, const struct attn_outcome *outcome);
/* Does the backend refuse what has no meaning yet (attn_worker_unknowns)? The worker is asked once
 * for each operator and score of a session. `instance` has a problem that the backend accepts. */
struct attn_outcome attn_seat_unknowns(struct attn_seat *seat,
                                       const struct attn_instance *instance);
/* True once for each operator that attn_seat_unknowns has asked about. */
bool attn_seat_once(struct attn_seat *seat, const struct attn_problem *problem);
/* Stops the workers. The rates stay. */
void attn_seat_leave(struct attn_seat *seat);
/* Stops the workers and frees what is known of the backend. */
void attn_seat_free(struct attn_seat *seat);

/* Does moving so many bytes take more time than so many FLOPs, as in decoding? */
bool attn_seat_by_memory(double flops, uint64_t bytes);
/* The kind of a case of which a run makes so many FLOPs and moves so many bytes; `dense`: FLOPs if
 * all of its cells were allowed. */
struct attn_seat_kind attn_seat_kind_of(const struct attn_problem *problem, uint32_t dtype,
                                        double flops, double dense, uint64_t bytes);
/* What is known of the rate on cases of this kind; NULL: nothing yet. */
const struct attn_seat_rate *attn_seat_rate(const struct attn_seat *seat,
                                            const struct attn_seat_kind *kind);
/* Notes a run. If there is no memory for it, the rate stays unknown. */
void attn_seat_saw_run(struct attn_seat *seat, const struct attn_seat_kind *kind, double flops,
                       double seconds);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* protocol.h - the messages between host and worker.
 *
 * One SOCK_SEQPACKET socketpair; the worker's end is descriptor ATTN_PROTOCOL_FD. A packet is one
 * message: a head with the length of the whole, then the fields of its type, all of fixed size.
 * Packets are atomic, so a fault handler can send one whatever it has interrupted. Both ends are
 * built from one tree; the version is checked anyway.
 *
 *   host                          worker
 *   CONFIG                   ->
 *                            <-   PLACE                  with a pid namespace: once, first of all
 *                            <-   PHASE ... REPLY        plugin loaded, backend selected
 *   REQUEST (+ descriptors)  ->
 *                            <-   PHASE ...              each slot before it is called
 *                            <-   BACKEND ...            inspect only
 *                            <-   REPLY | FAULT          FAULT: the worker then exits
 *                            <-   SAMPLE                 LIVE only: the plan is ready
 *   BATCH                    ->                          LIVE only, any number of times
 *                            <-   SAMPLE | REPLY | FAULT REPLY: it has failed, or was told to end
 *   SYNC                     ->                          after each REPLY
 *                            <-   SYNC                   the same: the worker has said all
 *   end of file              ->                          the worker exits
 *
 * Every message of the worker carries the number of the host's message that it belongs to. One with
 * another number is an error. A reply beside the reply, or before it, is found where SYNC should
 * be: its word cannot be known before the host has read the first reply.
 *
 * The host trusts nothing that comes back. It checks lengths, types, enumerations, strings and
 * numbers before it uses them. The worker checks what indexes its memory (worker/channel.h), so it
 * can report a host of another build. It trusts the rest. */
#ifndef ATTN_PROTOCOL_H
#define ATTN_PROTOCOL_H

#include <stdint.h>

#include "attnbench/backend.h"
#include "host/types.h"
#include "tensor/instance.h"

#define ATTN_PROTOCOL_VERSION 11u
#define ATTN_PROTOCOL_FD      3
#define ATTN_MESSAGE_MAX      65536 /* bytes; well below the default send buffer */
#define ATTN_PROCESSORS_MAX   1024

enum attn_message_type {
    ATTN_MESSAGE_CONFIG = 1,
    ATTN_MESSAGE_REQUEST,
    ATTN_MESSAGE_PHASE,
    ATTN_MESSAGE_BACKEND,
    ATTN_MESSAGE_FAULT,
    ATTN_MESSAGE_REPLY,
    ATTN_MESSAGE_BATCH,
    ATTN_MESSAGE_SAMPLE,
    ATTN_MESSAGE_PLACE,
    ATTN_MESSAGE_SYNC
};

struct attn_message_head {
    uint32_t length; /* of the whole message, in bytes */
    uint32_t type;   /* enum attn_message_type */
    /* Of the host's message, from 1 on for each worker; the worker's carry that of the host's which
     * they belong to. Set where they are sent. */
    uint32_t number;
    uint32_t reserved;
};

/* What the worker is doing. */
enum attn_slot {
    ATTN_SLOT_NONE, /* the worker's own code */
    ATTN_SLOT_LOAD,
    ATTN_SLOT_INIT,
    ATTN_SLOT_VERSION,
    ATTN_SLOT_PROBE,
    ATTN_SLOT_SUPPORTS,
    ATTN_SLOT_CREATE,
    ATTN_SLOT_NUMERICS,
    ATTN_SLOT_DESCRIBE,
    ATTN_SLOT_WORKSPACE,
    ATTN_SLOT_BIND,
    ATTN_SLOT_RUN,
    ATTN_SLOT_FETCH,
    ATTN_SLOT_RELEASE,
    ATTN_SLOT_DESTROY,
    ATTN_SLOT_DEVICE,
    ATTN_SLOT_COUNT
};

/* "run", "create", ... */
const char *attn_slot_name(uint32_t slot);

struct attn_message_config {
    struct attn_message_head head;
    uint32_t version;
    uint32_t threads;
    uint32_t n_processors; /* 0: do not change the affinity */
    uint32_t processors[ATTN_PROCESSORS_MAX];
    uint64_t data_limit; /* RLIMIT_DATA; 0: none */
    uint32_t rungs;      /* of host/confine.h, as bits, that the worker takes */
    int32_t host;        /* process number */
    char plugin[4096];   /* "": none */
    char backend[32];    /* "": none selected */
    char options[1024];
};

enum attn_request_kind {
    ATTN_REQUEST_INSPECT = 1,
    ATTN_REQUEST_SUPPORTS,
    ATTN_REQUEST_VERIFY,
    ATTN_REQUEST_BENCH,
    ATTN_REQUEST_PEAK,
    ATTN_REQUEST_CEILINGS,
    ATTN_REQUEST_REPEAT,
    ATTN_REQUEST_UNKNOWNS,
    ATTN_REQUEST_LIVE,
    ATTN_REQUEST_AGED,
    ATTN_REQUEST_COUNT
};

/* Where an operand lies in its memfd: whole pages [offset, offset + pages), its first element at
 * offset + start. */
struct attn_shared_operand {
    uint64_t offset, pages, start, span; /* bytes */
    uint32_t element;                    /* bytes of one element */
    uint32_t output;                     /* 1: in the output memfd */
    uint32_t sparse;                     /* 1: mostly holes; touch elements only */
    uint32_t lead;   /* timing memory must start this many bytes after an aligned address */
    uint32_t packed; /* 1: the backend may have transformed it in bind */
    char name[24];   /* in messages */
};

/* VERIFY, REPEAT, BENCH, LIVE, PEAK, AGED and COUNT send two descriptors: inputs (read-only),
 * outputs. Either file may hold its operands twice: a second set of inputs with other values, and
 * room for the outputs of a second run. */
struct attn_message_request {
    struct attn_message_head head;
    uint32_t kind; /* enum attn_request_kind */
    uint32_t n_tensors;
    int32_t runs;       /* VERIFY, REPEAT */
    int32_t samples;    /* BENCH */
    double min_time;    /* BENCH */
    uint32_t cold;      /* BENCH */
    uint32_t fresh;     /* VERIFY: is the result that of the inputs as they are now */
    int64_t iterations; /* LIVE: runs of a batch; 0: the worker finds them */
    /* VERIFY, BENCH, LIVE: bytes from an operand to the same operand of the second set; 0: none */
    uint64_t second[2]; /* inputs, outputs */
    uint64_t entropy;   /* BENCH, LIVE: seeds what the backend must not foresee */
    struct attn_spot spots[ATTN_SPOTS_MAX]; /* BENCH, LIVE */
    uint32_t n_spots;
    uint32_t mixed;              /* BENCH: steps to the mixed state that is judged; 0: none */
    uint32_t scrambles;          /* BENCH, LIVE: inputs may be scrambled */
    uint32_t keep;               /* VERIFY with a second set: the plan stays, for AGED */
    uint32_t linear;             /* 1 + the input that `out` is linear in; 0: there is none */
    char linear_word[20];        /* what messages call it */
    struct attn_problem problem; /* its tensors pointer is NULL */
    struct attn_tensor tensors[ATTN_MAX_TENSORS];
    struct attn_shared_operand operands[ATTN_MAX_TENSORS];
};

/* What a worker that serves LIVE is to do next. */
struct attn_message_batch {
    struct attn_message_head head;
    uint32_t exchange; /* 1: the inputs of the other set take their place first */
    uint32_t end;      /* 1: no batch, but the last checks and the reply */
};

/* A batch of a LIVE request, or, as the first one, that the plan is ready. */
struct attn_message_sample {
    struct attn_message_head head;
    struct attn_live_sample sample;
};

struct attn_message_sync {
    struct attn_message_head head;
    uint64_t word;
};

/* The process in which the plugin will be loaded, as the host calls it: a child of the one that was
 * started. */
struct attn_message_place {
    struct attn_message_head head;
    int32_t pid;
    uint32_t reserved;
};

struct attn_message_phase {
    struct attn_message_head head;
    uint32_t slot; /* enum attn_slot */
    uint32_t reserved;
};

struct attn_message_backend {
    struct attn_message_head head;
    struct attn_backend_info info;
};

enum attn_access { ATTN_ACCESS_UNKNOWN, ATTN_ACCESS_READ, ATTN_ACCESS_WRITE };

/* A fatal signal. operand: its pages or guards contain the address; UINT32_MAX: none does.
 * distance: bytes from the operand's first element to the address. */
struct attn_message_fault {
    struct attn_message_head head;
    uint32_t slot;
    uint32_t signal;
    uint32_t access; /* enum attn_access */
    uint32_t operand;
    uint32_t has_address;
    uint32_t reserved;
    uint64_t address;
    int64_t distance;
};

struct attn_message_reply {
    struct attn_message_head head;
    uint32_t status; /* enum attn_status: PASS, FAIL, SKIP, OOM or ERROR */
    uint32_t n_samples;
    char reason[512];
    char path[256];
    char source[256];
    uint32_t has_numerics;
    uint32_t has_source;
    struct attn_numerics numerics;
    uint64_t workspace_bytes;
    uint64_t bytes; /* PEAK */
    uint64_t taken; /* PEAK of a device */
    uint32_t threads_seen;
    uint32_t modified; /* BENCH: 1 + index of the input that was written to; 0: none */
    uint32_t fresh;    /* VERIFY, BENCH: 1: that was asked and holds */
    uint32_t broken;   /* with FAIL: enum attn_promise */
    double seconds;    /* VERIFY */
    uint32_t last;     /* BENCH: the state of the inputs, enum attn_state, of the last run */
    uint32_t drawn;    /* BENCH: 1 + that of the run drawn at random; 0: none was */
    uint64_t
        drawn_seed; /* BENCH: by which its inputs were scrambled (scramble.h); 0: they were not */
    double samples_ns[ATTN_SAMPLES_MAX];
    double cpu_ns[ATTN_SAMPLES_MAX];
    int64_t iterations[ATTN_SAMPLES_MAX];
    struct attn_device before, after; /* BENCH, PEAK; struct_size 0: unknown */
    struct attn_ceilings ceilings;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* replies.c - any messages from a worker, to each request of the host: an outcome with a clean
 * sentence, and after PASS only values that can be computed with.
 *
 * The process is replaced: attn_process_start puts the whole conversation into the socket at once,
 * and what follows it is the end of the stream. An input is the kind of request, then messages: a
 * type, then bytes to change in a good message of that type (fuzz_patch), or any bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "case/case.h"
#include "fuzz.h"
#include "host/affinity.h"
#include "host/entropy.h"
#include "host/process.h"
#include "host/worker.h"
#include "pack/make.h"
#include "reference/reference.h"

static struct fuzz_input input;
static int wait_status, peer;
static bool started;

double attn_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* So that the conversation can be written before it is held. */
uint64_t attn_entropy(void)
{
    return 0;
}

double attn_process_deadline(double deadline)
{
    return deadline;
}

void attn_process_forward(int sig)
{
    (void)sig;
}

/* Of a process that has exited the host reads what it had sent, then stops. */
bool attn_process_exited(const struct attn_worker *worker)
{
    (void)worker;
    return true;
}

int attn_process_end(struct attn_worker *worker, int signal, double grace)
{
    (void)signal;
    (void)grace;
    close(worker->socket);
    close(peer);
    worker->pid = 0;
    return wait_status;
}

int attn_affinity_choose(const char *topology, const cpu_set_t *allowed, uint32_t threads,
                         uint32_t *processors, char *why, size_t size)
{
    (void)topology;
    (void)allowed;
    (void)threads;
    (void)processors;
    (void)why;
    (void)size;
    return 0;
}

static void put(int fd, const void *bytes, size_t size)
{
    (void)!send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void put_sync(int fd, uint32_t number)
{
    const struct attn_message_sync sync = {.head = {sizeof sync, ATTN_MESSAGE_SYNC, number, 0}};
    put(fd, &sync, sizeof sync);
}

static void put_message(int fd)
{
    static union {
        struct attn_message_head head;
        struct attn_message_phase phase;
        struct attn_message_backend backend;
        struct attn_message_fault fault;
        struct attn_message_reply reply;
    } m;
    /* 1 was the configuration, 2 and 4 are the SYNC after each reply. */
    static const struct attn_message_head heads[] = {
        {sizeof m.phase, ATTN_MESSAGE_PHASE, 3, 0},
        {sizeof m.backend, ATTN_MESSAGE_BACKEND, 3, 0},
        {sizeof m.fault, ATTN_MESSAGE_FAULT, 3, 0},
        {sizeof m.reply, ATTN_MESSAGE_REPLY, 3, 0},
    };
    const uint8_t type = fuzz_byte(&input) % 5;
    if (type == 4) {
        const size_t wanted = fuzz_byte(&input), size = wanted < input.size ? wanted : input.size;
        put(fd, input.data, size);
        input.data += size;
        input.size -= size;
        return;
    }
    memset(&m, 0, sizeof m);
    m.head = heads[type];
    const uint32_t length = m.head.length;
    if (type == 2)
        m.fault.signal = 11;
    if (type == 3) {
        m.reply.status = ATTN_PASS;
        m.reply.n_samples = 2;
        for (int s = 0; s < ATTN_SAMPLES_MAX; s++)
            m.reply.iterations[s] = 1;
        m.reply.has_numerics = 1;
        m.reply.numerics.acc_type = ATTN_F32;
    }
    fuzz_patch(&input, &m, length);
    put(fd, &m, length);
    if (type == 3)
        put_sync(fd, 4);
}

int attn_process_start(struct attn_worker *worker, char *why, size_t size)
{
    int sockets[2];
    const struct attn_message_reply ready = {
        .head = {.length = sizeof ready, .type = ATTN_MESSAGE_REPLY, .number = 1},
        .status = ATTN_PASS};
    snprintf(why, size, "only once");
    if (started || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return -1;
    started = true;
    put(sockets[1], &ready, sizeof ready);
    put_sync(sockets[1], 2);
    while (input.size > 0)
        put_message(sockets[1]);
    /* Not closed: what it was sent must have somewhere to go. */
    shutdown(sockets[1], SHUT_WR);
    worker->socket = sockets[0];
    peer = sockets[1];
    worker->log_pipe = worker->log_file = -1;
    worker->pid = getpid();
    return 0;
}

static void check_text(const char *text, size_t size)
{
    const size_t length = strnlen(text, size);
    fuzz_expect(length < size, "text without an end");
    for (size_t i = 0; i < length; i++)
        fuzz_expect((unsigned char)text[i] >= 0x20 && text[i] != 0x7F, "a control character");
}

/* A declaration that passed gives bounds: numbers, or infinity. */
static void check_numerics(const struct attn_instance *instance,
                           const struct attn_numerics *numerics, enum ref_fill_kind fill)
{
    double bound[64];
    char why[256];
    const int64_t rows = ref_output_units(&instance->problem, 0);
    const int64_t count = rows * ref_output_width(&instance->problem, 0);
    struct ref_result result = {.output[0].bound = bound};
    const struct ref_units all = {rows, NULL};
    fuzz_expect(count <= 64, "the problem is small");
    if (ref_compute(
            &instance->problem,
            &(struct ref_request){.units = {all}, .numerics = numerics, .fill = fill, .threads = 1},
            &result, why, sizeof why) != 0)
        fuzz_expect(false, why);
    for (int64_t i = 0; i < count; i++)
        fuzz_expect(bound[i] >= 0, "a bound that is no number");
}

static void check_plan(const struct attn_instance *instance, const struct attn_plan_info *info)
{
    check_text(info->path, sizeof info->path);
    check_text(info->source_text, sizeof info->source_text);
    if (!info->has_numerics)
        return;
    check_numerics(instance, &info->numerics, REF_FILL_GENERIC);
    check_numerics(instance, &info->numerics, REF_FILL_STRUCTURED);
}

static void check_inspection(const struct attn_plugin_info *info)
{
    fuzz_expect(info->n_backends <= ATTN_BACKENDS_MAX, "too many backends");
    for (uint32_t b = 0; b < info->n_backends; b++) {
        const struct attn_backend_info *backend = &info->backends[b];
        check_text(backend->name, sizeof backend->name);
        check_text(backend->description, sizeof backend->description);
        check_text(backend->version, sizeof backend->version);
        check_text(backend->reason, sizeof backend->reason);
        fuzz_expect(backend->n_options <= ATTN_OPTIONS_MAX, "too many options");
        for (uint32_t o = 0; o < backend->n_options; o++) {
            check_text(backend->options[o].key, sizeof backend->options[o].key);
            check_text(backend->options[o].help, sizeof backend->options[o].help);
        }
    }
}

static struct attn_outcome ask_bench(struct attn_worker *worker, struct attn_instance *instance,
                                     struct attn_plan_info *info)
{
    struct attn_bench_reply reply = {0};
    const struct attn_outcome outcome = attn_worker_bench(
        worker, instance, &(struct attn_bench_params){.samples = 4}, &reply, info);
    for (int s = 0; outcome.status == ATTN_PASS && s < reply.n; s++)
        fuzz_expect(s < ATTN_SAMPLES_MAX && reply.samples_ns[s] >= 0 && reply.iterations[s] > 0,
                    "an impossible sample");
    if (outcome.status == ATTN_PASS)
        check_text(reply.after.throttled, sizeof reply.after.throttled);
    return outcome;
}

static struct attn_outcome ask(struct attn_worker *worker, struct attn_instance *instance, int kind)
{
    struct attn_plan_info info = {0};
    struct attn_ceilings ceilings;
    struct attn_outcome outcome;
    double seconds = 0;
    uint64_t bytes, taken;
    switch (kind) {
    case 0:
        outcome = attn_worker_verify(worker, instance, ATTN_PLACE_END, 1, &info, &seconds);
        fuzz_expect(isfinite(seconds) && seconds >= 0, "an impossible time");
        break;
    case 1:
        outcome = ask_bench(worker, instance, &info);
        break;
    case 2:
        outcome = attn_worker_peak(worker, instance, &bytes, &taken);
        break;
    case 3:
        outcome = attn_worker_supports(worker, instance);
        break;
    case 4:
        outcome = attn_worker_repeat(worker, instance, 2);
        break;
    default:
        outcome = attn_worker_ceilings(worker, &ceilings);
        for (uint32_t r = 0; outcome.status == ATTN_PASS && r < ceilings.n_rungs; r++)
            check_text(ceilings.rungs[r].isa, sizeof ceilings.rungs[r].isa);
    }
    if (outcome.status == ATTN_PASS)
        check_plan(instance, &info);
    return outcome;
}

static struct attn_instance *make_instance(void)
{
    static const char line[] = "sq=3 sk=5 dk=4 out=lse";
    struct attn_case_list list = {0};
    struct attn_instance *instance = NULL;
    char why[512];
    if (attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) != 0 ||
        attn_instance_create(&list.items[0], 1, &instance, why, sizeof why) != 0)
        fuzz_expect(false, why);
    attn_case_list_free(&list);
    return instance;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct attn_instance *instance;
    static struct attn_plugin_info info;
    const struct attn_worker_config config = {
        .worker_path = "w", .plugin_path = "p", .rss_limit = UINT64_MAX / 4, .timeout_s = 1e9};
    struct attn_worker *worker;
    struct attn_outcome outcome;
    if (!instance)
        instance = make_instance();
    input = (struct fuzz_input){data, size};
    started = false;
    const int kind = fuzz_byte(&input) % 7;
    wait_status = fuzz_byte(&input) % 2 ? 9 : fuzz_byte(&input) << 8;
    if (kind == 6) {
        outcome = attn_worker_inspect(&config, &info);
        check_inspection(&info);
    } else {
        outcome = attn_worker_start(&config, &worker);
        if (outcome.status == ATTN_PASS) {
            outcome = ask(worker, instance, kind);
            attn_worker_stop(worker);
        }
    }
    check_text(outcome.reason, sizeof outcome.reason);
    fuzz_expect(outcome.status != ATTN_PASS || !*outcome.reason, "PASS with a reason");
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* requests.c - any messages from the host, to a worker: refused, or followed without touching a
 * byte outside the operands.
 *
 * The plugin is one that reads every element of its inputs and writes every one of its outputs, as
 * the message has them: `out` is an input of gradients. An input is a type, then bytes to change in
 * a good message of that type (fuzz_patch), or any bytes. Linked in place of what must not happen
 * here: attn_plugin_load, setrlimit, sched_setaffinity; and of what belongs to a process of its
 * own: signal handlers. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "host/walk.h"
#include "worker/channel.h"
#include "worker/fault.h"
#include "worker/guard.h"
#include "worker/memory.h"
#include "worker/serve.h"
#include "worker/slots.h"

enum { PAGE = 4096, N_TENSORS = 4, ROWS = 3, WIDTH = 5 };

/* ---- a plugin ---- */

/* What is being followed. */
static const struct attn_message_request *served;

/* A plan that is kept outlives the bindings of requests after it. */
struct binding {
    const struct attn_tensor *tensors;
    uint32_t n;
    bool output[ATTN_MAX_TENSORS];
};

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    (void)problem;
    (void)services;
    (void)why;
    (void)size;
    return ATTN_OK;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    *plan = (void *)(uintptr_t)problem;
    return supports(problem, services, why, size);
}

static int attach(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                  char *why, size_t size)
{
    (void)why;
    (void)size;
    (void)plan;
    struct binding *made = malloc(sizeof *made);
    if (!made)
        return ATTN_OUT_OF_MEMORY;
    *made = (struct binding){.tensors = tensors, .n = n_tensors};
    for (uint32_t t = 0; t < n_tensors; t++)
        made->output[t] = served->operands[t].output;
    *binding = made;
    return ATTN_OK;
}

static size_t element_of(uint32_t role)
{
    return role == ATTN_MASK ? 1 : sizeof(float);
}

static int run(void *binding, char *why, size_t size)
{
    const struct binding *made = binding;
    (void)why;
    (void)size;
    for (uint32_t t = 0; t < made->n; t++) {
        const struct attn_tensor *tensor = &made->tensors[t];
        const size_t element = element_of(tensor->role);
        struct attn_walk walk;
        size_t offset;
        attn_walk_begin(&walk, tensor, element);
        while (attn_walk_next(&walk, &offset)) {
            unsigned char *at = (unsigned char *)tensor->data + offset;
            if (made->output[t])
                memset(at, 1, walk.run);
            else
                (void)(*(volatile unsigned char *)at +
                       *(volatile unsigned char *)(at + walk.run - 1));
        }
    }
    return ATTN_OK;
}

static void leave(void *what)
{
    (void)what;
}

static const struct attn_option_spec options[] = {
    {.key = "level", .type = ATTN_OPTION_INT, .default_value = "1", .help = "a number"},
    {.key = "mode", .type = ATTN_OPTION_CHOICE, .choices = "slow|fast", .default_value = "slow"},
};
static const struct attn_backend backend = {
    .struct_size = sizeof backend,
    .exactness = ATTN_EXACT,
    .name = "reader",
    .options = options,
    .n_options = 2,
    .supports = supports,
    .create = create,
    .bind = attach,
    .run = run,
    .release = free,
    .destroy = leave,
};
static const struct attn_backend *const backends[] = {&backend};
static const struct attn_plugin plugin = {.n_backends = 1, .backends = backends};

/* ---- in place of the process ---- */

int __wrap_attn_plugin_load(const char *path, struct attn_loaded *loaded, char *why, size_t size);
int __wrap_attn_plugin_load(const char *path, struct attn_loaded *loaded, char *why, size_t size)
{
    loaded->plugin = &plugin;
    snprintf(why, size, "no file %s", path);
    return strlen(path) > 20 ? -1 : 0;
}

int __wrap_setrlimit(int resource, const struct rlimit *limit);
int __wrap_setrlimit(int resource, const struct rlimit *limit)
{
    (void)resource;
    (void)limit;
    return 0;
}

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
    (void)pid;
    return CPU_COUNT_S(size, set) > 0 ? 0 : -1;
}

void attn_slot_enter(uint32_t slot)
{
    (void)slot;
}

int attn_slot_leave(char *why, size_t size)
{
    (void)why;
    (void)size;
    return 0;
}

void attn_fault_watch(const struct attn_fault_region *regions, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++)
        fuzz_expect(regions[r].begin <= regions[r].data && regions[r].data <= regions[r].end,
                    "an operand outside its guards");
}

/* ---- messages ---- */

static int make_file(void)
{
    const int fd = memfd_create("operands", MFD_CLOEXEC);
    fuzz_expect(fd >= 0 && ftruncate(fd, (N_TENSORS - 1) * PAGE) == 0, "no memory for operands");
    return fd;
}

/* q, k, v and out of a problem of three rows, each at the end of a page of its own. */
static void make_request(struct attn_message_request *request, uint32_t kind)
{
    static const uint32_t roles[N_TENSORS] = {ATTN_Q, ATTN_K, ATTN_V, ATTN_OUT};
    const uint64_t span = ROWS * WIDTH * sizeof(float);
    *request = (struct attn_message_request){
        .head = {.length = sizeof *request, .type = ATTN_MESSAGE_REQUEST},
        .kind = kind,
        .n_tensors = N_TENSORS,
        .runs = 2,
        .fresh = 1,
        .linear = 3,
        .linear_word = "v",
        .problem = {.op = ATTN_OP_ATTENTION, .b = 1, .hq = 1, .hkv = 1, .sq = ROWS, .sk = ROWS},
    };
    for (uint32_t t = 0; t < N_TENSORS; t++) {
        const bool output = roles[t] == ATTN_OUT;
        request->tensors[t] = (struct attn_tensor){.role = roles[t],
                                                   .dtype = ATTN_F32,
                                                   .rank = 4,
                                                   .shape = {1, 1, ROWS, WIDTH},
                                                   .stride = {15, 15, WIDTH, 1}};
        request->operands[t] = (struct attn_shared_operand){.offset = output ? 0 : t * PAGE,
                                                            .pages = PAGE,
                                                            .start = PAGE - span,
                                                            .span = span,
                                                            .element = sizeof(float),
                                                            .output = output,
                                                            .name = "q"};
    }
}

static void make_config(struct attn_message_config *config)
{
    *config = (struct attn_message_config){
        .head = {.length = sizeof *config, .type = ATTN_MESSAGE_CONFIG},
        .version = ATTN_PROTOCOL_VERSION,
        .threads = 1,
        .n_processors = 2,
        .processors = {0, 1},
        .plugin = "reader.so",
        .backend = "reader",
        .options = "level=3,mode=fast",
    };
}

static void send_message(int socket, const void *bytes, size_t size, const int *fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fds) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(2 * sizeof(int));
        memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
    }
    fuzz_expect(sendmsg(socket, &message, 0) == (ssize_t)size, "a message cannot be sent");
}

static void put_message(int socket, struct fuzz_input *input)
{
    static union attn_request_buffer message;
    const uint8_t type = fuzz_byte(input) % 11;
    if (type == 0 && input->size > 0) {
        send_message(socket, input->data, input->size < 4096 ? input->size : 4096, NULL);
        return;
    }
    int fds[2] = {make_file(), make_file()};
    if (type <= 2)
        make_config(&message.config);
    else if (type == 9)
        message.batch = (struct attn_message_batch){
            .head = {.length = sizeof message.batch, .type = ATTN_MESSAGE_BATCH}, .exchange = 1};
    else
        make_request(&message.request, type <= 4    ? ATTN_REQUEST_VERIFY
                                       : type == 5  ? ATTN_REQUEST_REPEAT
                                       : type == 6  ? ATTN_REQUEST_BENCH
                                       : type == 8  ? ATTN_REQUEST_AGED
                                       : type == 10 ? ATTN_REQUEST_LIVE
                                                    : ATTN_REQUEST_SUPPORTS);
    const uint32_t length = message.head.length;
    fuzz_patch(input, &message, length);
    send_message(socket, &message, length, type == 7 ? NULL : fds);
    close(fds[0]);
    close(fds[1]);
}

/* ---- the worker's side ---- */

/* What a timing does with the operands, without the clock. */
static void copy_operands(const struct attn_message_request *request, const int fds[2],
                          struct attn_message_reply *reply)
{
    static struct attn_owned owned;
    char why[256];
    uint32_t which;
    const bool together = request->kind == ATTN_REQUEST_LIVE;
    if ((together ? attn_owned_create_together : attn_owned_create)(request, fds, &owned, why,
                                                                    sizeof why) != 0) {
        attn_reply_set(reply, ATTN_ERROR, "%s", why);
        return;
    }
    for (uint32_t set = 0; set < (request->second[1] != 0 ? 2U : 1U); set++) {
        attn_owned_load(request, &owned, set);
        if (attn_owned_check(request, &owned, set, &which) == 0)
            attn_owned_return(request, &owned, set);
    }
    attn_owned_free(&owned);
}

static void serve(const union attn_request_buffer *message, const int fds[2])
{
    static struct attn_setup setup;
    static struct attn_message_reply reply;
    char why[256] = "";
    reply = (struct attn_message_reply){.status = ATTN_PASS};
    if (attn_message_check(message, fds, why, sizeof why) != 0) {
        fuzz_expect(*why != '\0', "refused without a reason");
        return;
    }
    setup = (struct attn_setup){.backend = &backend, .loaded.plugin = &plugin};
    served = &message->request;
    if (message->head.type == ATTN_MESSAGE_CONFIG)
        attn_serve_config(&setup, &message->config, &reply);
    else if (message->request.kind == ATTN_REQUEST_VERIFY && message->request.runs < 4)
        attn_serve_verify(&setup, &message->request, fds, &reply);
    else if (message->request.kind == ATTN_REQUEST_REPEAT && message->request.runs < 4)
        attn_serve_repeat(&setup, &message->request, fds, &reply);
    else if (message->request.kind == ATTN_REQUEST_AGED)
        attn_serve_aged(&message->request, fds, &reply);
    else if (message->request.kind == ATTN_REQUEST_BENCH ||
             message->request.kind == ATTN_REQUEST_LIVE)
        copy_operands(&message->request, fds, &reply);
    else if (message->request.kind == ATTN_REQUEST_SUPPORTS)
        attn_plan_supports(&setup, &message->request, &reply);
    fuzz_expect(memchr(reply.reason, 0, sizeof reply.reason) != NULL, "text without an end");
}

/* Takes the descriptor before anything else does: the sanitizer's own pipes would be replaced. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    const int nothing = open("/dev/null", O_RDWR);
    fuzz_expect(nothing >= 0 && dup2(nothing, ATTN_PROTOCOL_FD) >= 0, "no descriptor");
    if (nothing != ATTN_PROTOCOL_FD)
        close(nothing);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static union attn_request_buffer received;
    struct fuzz_input input = {data, size};
    int sockets[2], fds[2];
    fuzz_expect(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0, "no socket");
    fuzz_expect(dup2(sockets[1], ATTN_PROTOCOL_FD) >= 0, "no descriptor");
    close(sockets[1]);
    put_message(sockets[0], &input);
    shutdown(sockets[0], SHUT_WR); /* what answers SYNC waits for another message */
    if (attn_channel_receive(&received, fds) > 0)
        serve(&received, fds);
    for (int f = 0; f < 2; f++)
        if (fds[f] >= 0)
            close(fds[f]);
    close(sockets[0]);
    return 0;
}

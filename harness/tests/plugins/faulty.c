/* SPDX-License-Identifier: Apache-2.0 */
/* faulty.c - right answers, and a fault of one kind in one place, as options of the environment
 * say: ATTN_TEST_FAULT=KIND:PLACE[:ARGUMENT]. Prints "reached KIND" before what is to be prevented,
 * and "done KIND" after it has not been. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base.h"
#include "host/protocol.h"

#define SOCKET 3
#define MIB    ((size_t)1 << 20)

static char kind[32], place[32], argument[512];

static void done(int yes)
{
    if (yes)
        printf("done %s\n", kind);
    fflush(stdout);
}

static void pause_for_ever(void)
{
    for (;;)
        pause();
}

/* ---- signals ---- */

static void do_segv(void)
{
    base_fault();
}

static void do_fetch_bad(void)
{
    volatile uintptr_t address = 0x1000;
    ((void (*)(void))address)();
}

static void do_bus(void)
{
    char name[] = "/dev/shm/attnbench-faulty-XXXXXX";
    const int file = mkstemp(name);
    unlink(name);
    if (file < 0 || ftruncate(file, 4096) != 0)
        raise(SIGBUS);
    volatile char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (ftruncate(file, 0) == 0)
        at[0] = 1;
}

static void do_ill(void)
{
    __builtin_trap();
}

static void do_fpe(void)
{
    volatile int zero = 0, one = 1;
    one = one / zero;
}

static int deep(volatile int n)
{
    volatile char room[4096];
    room[n % 4096] = (char)n;
    return n < 0 ? 0 : deep(n + 1) + room[n % 4096];
}

static void do_stack(void)
{
    (void)deep(1);
}

static void do_kill(void)
{
    raise(SIGKILL);
}

static void do_term(void)
{
    raise(SIGTERM);
}

static void do_alarm(void)
{
    raise(SIGALRM);
}

static void do_trap(void)
{
    raise(SIGTRAP);
}

static void do_usr1(void)
{
    raise(SIGUSR1);
}

static void do_int(void)
{
    raise(SIGINT);
}

static void do_quit(void)
{
    raise(SIGQUIT);
}

static void do_hup(void)
{
    raise(SIGHUP);
}

static void do_sys(void)
{
    raise(SIGSYS);
}

static void do_pipe(void)
{
    raise(SIGPIPE);
}

static void do_xcpu(void)
{
    raise(SIGXCPU);
}

static void do_stop(void)
{
    raise(SIGSTOP);
}

static void do_stolen(void)
{
    signal(SIGSEGV, SIG_DFL);
    base_fault();
}

static void *fault_in_thread(void *unused)
{
    base_fault();
    return unused;
}

static void do_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, fault_in_thread, NULL) == 0)
        pthread_join(thread, NULL);
}

/* ---- exits ---- */

static void do_exit0(void)
{
    exit(0);
}

static void do_exit3(void)
{
    exit(3);
}

static void do_exit_now(void)
{
    _exit(0);
}

static void do_quick_exit(void)
{
    quick_exit(5);
}

/* The others go on, but there are none. */
static void do_thread_exit(void)
{
    pthread_exit(NULL);
}

static void do_exec(void)
{
    execl("/bin/true", "true", (char *)NULL);
}

/* ---- hangs ---- */

static void do_sleep(void)
{
    pause_for_ever();
}

static void do_spin(void)
{
    for (volatile int n = 0;; n = !n)
        continue;
}

static void do_deaf(void)
{
    signal(SIGTERM, SIG_IGN);
    pause_for_ever();
}

static void do_lock(void)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&mutex);
}

static void do_blocked_read(void)
{
    int ends[2];
    char byte;
    if (pipe(ends) == 0)
        (void)!read(ends[0], &byte, 1);
}

/* A second, in pieces: one that is stopped meanwhile goes on where it was. */
static void do_nap(void)
{
    for (int n = 0; n < 20; n++)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

/* ---- overruns ---- */

/* The operands, from bind to release. */
static const struct base_binding *bound;

static void do_write_past(void)
{
    volatile float *out = bound->out;
    out[bound->out_elements] = 1;
}

static void do_write_before(void)
{
    volatile float *out = bound->out;
    out[-1] = 1;
}

static void do_write_input(void)
{
    volatile float *q = (volatile float *)(uintptr_t)bound->q;
    q[0] = 1;
}

static void do_read_past(void)
{
    const volatile float *q = bound->q;
    (void)q[bound->problem.sq * bound->problem.dk];
}

static void do_smash(void)
{
    volatile char room[16], *volatile at = room;
    for (int n = 0; n < 4096; n++)
        at[n] = (char)0xA5;
}

static void do_free_twice(void)
{
    void *volatile at = malloc(4096), *volatile same = at;
    free(at);
    free(same);
}

static void do_free_bad(void)
{
    static char room[64];
    void *volatile at = room + 16;
    free(at);
}

/* ---- floods and garbage ---- */

static void do_flood(void)
{
    static char text[65536];
    memset(text, 'x', sizeof(text));
    for (int n = 0; n < 64; n++)
        (void)!write(STDOUT_FILENO, text, sizeof(text));
}

static void do_flood_ever(void)
{
    static char text[65536];
    memset(text, '\n', sizeof(text));
    for (;;)
        (void)!write(STDERR_FILENO, text, sizeof(text));
}

static void do_controls(void)
{
    printf("\033[2J\033]0;x\007\xff\xfe\n");
    fflush(stdout);
}

static void do_garbage(void)
{
    char bytes[64];
    memset(bytes, 0xA5, sizeof(bytes));
    (void)!send(SOCKET, bytes, sizeof(bytes), MSG_NOSIGNAL);
}

static void do_large(void)
{
    static char bytes[100000];
    (void)!send(SOCKET, bytes, sizeof(bytes), MSG_NOSIGNAL);
}

/* Heads as the protocol has them: length, type, number, reserved. */
static void send_head(uint32_t length, uint32_t type, uint32_t number)
{
    static uint32_t words[16384];
    memset(words, 0, sizeof(words));
    words[0] = length;
    words[1] = type;
    words[2] = number;
    (void)!send(SOCKET, words, length, MSG_NOSIGNAL);
}

static void do_type(void)
{
    send_head(32, 77, 1);
}

static void do_stale(void)
{
    for (uint32_t number = 1000; number < 1003; number++)
        send_head(32, 6, number);
}

/* The number of the request that is served, which the argument is. */
static uint32_t request(void)
{
    return (uint32_t)strtoul(argument, NULL, 10);
}

/* A reply as good as any; the worker's own follows. */
static void send_reply(uint32_t status)
{
    static struct attn_message_reply reply;
    reply.head = (struct attn_message_head){
        .length = sizeof(reply), .type = ATTN_MESSAGE_REPLY, .number = request()};
    reply.status = status;
    (void)!send(SOCKET, &reply, sizeof(reply), MSG_NOSIGNAL);
}

static void do_forge_pass(void)
{
    send_reply(ATTN_PASS);
}

static void do_forge_fail(void)
{
    send_reply(ATTN_FAIL);
}

/* A reply, and that nothing else will follow, before anybody has asked. */
static void do_forge_sync(void)
{
    send_reply(ATTN_PASS);
    send_head(sizeof(struct attn_message_sync), ATTN_MESSAGE_SYNC, request() + 1);
}

static void do_moves(void)
{
    for (uint32_t number = 1; number < 40; number++)
        send_head(24, 9, number);
}

static void do_cut(void)
{
    close(SOCKET);
}

/* The socket becomes another file. */
static void do_replaced(void)
{
    dup2(STDIN_FILENO, SOCKET);
}

static void do_shut(void)
{
    shutdown(SOCKET, SHUT_RDWR);
}

static void do_close_all(void)
{
    syscall(SYS_close_range, 0u, ~0u, 0u);
}

/* ---- changed state ---- */

static void do_mxcsr(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

static void do_x87(void)
{
#if defined(__x86_64__)
    const unsigned short word = 0x0c7f;
    __asm__ volatile("fldcw %0" ::"m"(word));
#endif
}

static void do_rounding(void)
{
#if defined(__x86_64__)
    _mm_setcsr((_mm_getcsr() & ~0x6000u) | 0x2000u);
#endif
}

static void do_close_std(void)
{
    fflush(stdout);
    syscall(SYS_close_range, 0u, 2u, 0u);
}

static void do_umask(void)
{
    umask(0777);
}

static void do_environment(void)
{
    clearenv();
}

static void do_affinity(void)
{
    cpu_set_t all;
    memset(&all, 0xff, sizeof(all));
    sched_setaffinity(0, sizeof(all), &all);
}

static void do_nice(void)
{
    setpriority(PRIO_PROCESS, 0, 19);
}

static void do_folder(void)
{
    done(chdir("/") != 0);
}

static void do_mask(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
}

static void do_limits(void)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
}

/* ---- memory ---- */

static void touch(size_t mib)
{
    for (size_t n = 0; n < mib; n++) {
        char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at != MAP_FAILED)
            memset(at, 1, MIB);
    }
}

static void do_leak(void)
{
    touch(8);
}

static void do_reserve(void)
{
    (void)mmap(NULL, (size_t)1 << 40, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void do_heap_hog(void)
{
    for (int n = 0; n < 100000; n++) {
        char *volatile at = malloc(MIB);
        if (at)
            memset(at, 1, MIB);
    }
    pause_for_ever();
}

/* Files in memory belong to no process. */
static void do_shm_file(void)
{
    static char block[65536];
    const int file = open("/dev/shm/faulty", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int n = 0;
    while (file >= 0 && n < 8192 && write(file, block, sizeof(block)) == (ssize_t)sizeof(block))
        n++;
    done(n == 8192);
    unlink("/dev/shm/faulty");
}

static void do_hog(void)
{
    touch(100000);
    pause_for_ever();
}

static void do_shared_hog(void)
{
    for (int n = 0; n < 100000; n++) {
        char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (at != MAP_FAILED)
            memset(at, 1, MIB);
    }
    pause_for_ever();
}

/* Children that stay below what one process may have, together above. */
static void do_child_hog(void)
{
    for (int n = 0; n < 6; n++)
        if (fork() == 0) {
            setsid();
            touch(90);
            pause_for_ever();
        }
    pause_for_ever();
}

static void do_memfd(void)
{
    static char block[65536];
    const int file = (int)syscall(SYS_memfd_create, "faulty", 0);
    int n = 0;
    while (file >= 0 && n < 16384 && write(file, block, sizeof(block)) == (ssize_t)sizeof(block))
        n++;
    done(n == 16384);
}

static void do_shm(void)
{
    const int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    done(segment >= 0);
    if (segment >= 0)
        shmctl(segment, IPC_RMID, NULL);
}

/* ---- processes ---- */

static void do_fork(void)
{
    if (fork() == 0)
        pause_for_ever();
}

/* In a session of its own, below nobody; its name is the argument. */
static void do_setsid(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            prctl(PR_SET_NAME, argument);
            pause_for_ever();
        }
        _exit(0);
    }
    wait(NULL);
}

static void do_bomb(void)
{
    for (;;)
        (void)!fork();
}

static void do_fork_exit(void)
{
    if (fork() == 0)
        exit(7);
}

static void do_vfork(void)
{
    if (vfork() == 0)
        _exit(0);
}

/* A child of the worker's parent. */
static void do_sibling(void)
{
    if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0) {
        prctl(PR_SET_NAME, argument);
        pause_for_ever();
    }
}

/* A grandchild whose parent has gone. */
static void do_orphan(void)
{
    if (fork() == 0) {
        if (fork() == 0) {
            prctl(PR_SET_NAME, argument);
            pause_for_ever();
        }
        _exit(0);
    }
    wait(NULL);
}

/* The process whose number is the argument. */
static long victim(void)
{
    return strtol(argument, NULL, 10);
}

static void do_kill_parent(void)
{
    if (getppid() > 1)
        kill(getppid(), SIGKILL);
    done(kill((pid_t)victim(), SIGUSR1) == 0);
}

static void do_kill_all(void)
{
    signal(SIGUSR1, SIG_IGN);
    kill(-1, SIGUSR1);
}

static void do_kill_init(void)
{
    if (getppid() == 1)
        kill(1, SIGKILL);
}

static void do_tgkill(void)
{
    done(syscall(SYS_tgkill, victim(), victim(), SIGUSR1) == 0);
}

static void do_sigqueue(void)
{
    done(sigqueue((pid_t)victim(), SIGUSR1, (union sigval){0}) == 0);
}

static void do_pidfd(void)
{
    const int process = (int)syscall(SYS_pidfd_open, victim(), 0);
    done(process >= 0 && syscall(SYS_pidfd_send_signal, process, SIGUSR1, NULL, 0) == 0);
}

static void do_priority(void)
{
    done(setpriority(PRIO_PROCESS, (id_t)victim(), 19) == 0);
}

static void do_kill_group(void)
{
    kill(0, SIGKILL);
}

static void do_stop_group(void)
{
    kill(0, SIGSTOP);
}

static void do_trace(void)
{
    done(ptrace(PTRACE_SEIZE, (pid_t)victim(), NULL, NULL) == 0 ||
         ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
}

static void do_read(void)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    done(process_vm_readv((pid_t)victim(), &here, 1, &there, 1, 0) == 1);
}

/* ---- files and servers ---- */

static int opens(const char *path)
{
    const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file >= 0)
        close(file);
    return file >= 0;
}

/* The host's files, by its descriptors. */
static void do_descriptors(void)
{
    int any = 0;
    char path[64];
    for (int fd = 0; fd < 64; fd++) {
        snprintf(path, sizeof(path), "/proc/%ld/fd/%d", victim(), fd);
        any = any || opens(path);
    }
    snprintf(path, sizeof(path), "/proc/%ld/mem", victim());
    done(any || opens(path));
}

static void do_write(void)
{
    done(opens(argument));
}

static void do_unlink(void)
{
    done(unlink(argument) == 0);
}

static void do_create(void)
{
    char path[600];
    snprintf(path, sizeof(path), "%s.new", argument);
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    done(file >= 0);
    if (file >= 0)
        close(file);
}

static void do_sysctl(void)
{
    done(opens("/proc/sys/kernel/core_pattern"));
}

/* The server whose path is the argument. */
static void do_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", argument);
    const int to = socket(AF_UNIX, SOCK_STREAM, 0);
    done(to >= 0 && connect(to, (struct sockaddr *)&address, sizeof(address)) == 0);
}

static void do_network(void)
{
    done(socket(AF_INET, SOCK_DGRAM, 0) >= 0);
}

static void do_namespace(void)
{
    done(unshare(CLONE_NEWUSER) == 0);
}

static const struct {
    const char *name;
    void (*commit)(void);
} faults[] = {
    {"segv", do_segv},
    {"fetch_bad", do_fetch_bad},
    {"bus", do_bus},
    {"ill", do_ill},
    {"fpe", do_fpe},
    {"abort", abort},
    {"stack", do_stack},
    {"kill", do_kill},
    {"term", do_term},
    {"alarm", do_alarm},
    {"trap", do_trap},
    {"usr1", do_usr1},
    {"int", do_int},
    {"quit", do_quit},
    {"hup", do_hup},
    {"sys", do_sys},
    {"pipe", do_pipe},
    {"xcpu", do_xcpu},
    {"stop", do_stop},
    {"stolen", do_stolen},
    {"thread", do_thread},
    {"exit0", do_exit0},
    {"exit3", do_exit3},
    {"exit_now", do_exit_now},
    {"quick_exit", do_quick_exit},
    {"thread_exit", do_thread_exit},
    {"exec", do_exec},
    {"sleep", do_sleep},
    {"spin", do_spin},
    {"deaf", do_deaf},
    {"lock", do_lock},
    {"blocked_read", do_blocked_read},
    {"nap", do_nap},
    {"write_past", do_write_past},
    {"write_before", do_write_before},
    {"write_input", do_write_input},
    {"read_past", do_read_past},
    {"smash", do_smash},
    {"free_twice", do_free_twice},
    {"free_bad", do_free_bad},
    {"flood", do_flood},
    {"flood_ever", do_flood_ever},
    {"controls", do_controls},
    {"garbage", do_garbage},
    {"large", do_large},
    {"type", do_type},
    {"stale", do_stale},
    {"forge_pass", do_forge_pass},
    {"forge_fail", do_forge_fail},
    {"forge_sync", do_forge_sync},
    {"moves", do_moves},
    {"cut", do_cut},
    {"replaced", do_replaced},
    {"shut", do_shut},
    {"close_all", do_close_all},
    {"mxcsr", do_mxcsr},
    {"x87", do_x87},
    {"rounding", do_rounding},
    {"close_std", do_close_std},
    {"umask", do_umask},
    {"environment", do_environment},
    {"affinity", do_affinity},
    {"nice", do_nice},
    {"folder", do_folder},
    {"mask", do_mask},
    {"limits", do_limits},
    {"leak", do_leak},
    {"reserve", do_reserve},
    {"heap_hog", do_heap_hog},
    {"shm_file", do_shm_file},
    {"hog", do_hog},
    {"shared_hog", do_shared_hog},
    {"child_hog", do_child_hog},
    {"memfd", do_memfd},
    {"shm", do_shm},
    {"fork", do_fork},
    {"setsid", do_setsid},
    {"bomb", do_bomb},
    {"fork_exit", do_fork_exit},
    {"vfork", do_vfork},
    {"sibling", do_sibling},
    {"orphan", do_orphan},
    {"kill_parent", do_kill_parent},
    {"kill_all", do_kill_all},
    {"kill_init", do_kill_init},
    {"tgkill", do_tgkill},
    {"sigqueue", do_sigqueue},
    {"pidfd", do_pidfd},
    {"priority", do_priority},
    {"kill_group", do_kill_group},
    {"stop_group", do_stop_group},
    {"trace", do_trace},
    {"read", do_read},
    {"descriptors", do_descriptors},
    {"write", do_write},
    {"unlink", do_unlink},
    {"create", do_create},
    {"sysctl", do_sysctl},
    {"connect", do_connect},
    {"network", do_network},
    {"namespace", do_namespace},
};

/* The fault, if this is its place. */
static void at(const char *here)
{
    if (strcmp(here, place) != 0)
        return;
    for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++)
        if (strcmp(faults[f].name, kind) == 0) {
            printf("reached %s\n", kind);
            fflush(stdout);
            faults[f].commit();
        }
}

__attribute__((constructor)) static void construct(void)
{
    const char *wish = getenv("ATTN_TEST_FAULT");
    if (wish)
        sscanf(wish, "%31[^:]:%31[^:]:%511s", kind, place, argument);
    at("constructor");
}

static int init(const struct attn_services *services, char *why, size_t size)
{
    (void)services, (void)why, (void)size;
    at("init");
    return ATTN_OK;
}

static int probe(const struct attn_services *services, char *why, size_t size)
{
    (void)services, (void)why, (void)size;
    at("probe");
    return ATTN_OK;
}

static void version(char *text, size_t size)
{
    at("version");
    snprintf(text, size, "1");
}

static int supports(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size)
{
    const int result = base_supports(problem, services, why, size);
    if (result == ATTN_OK)
        at("supports");
    return result;
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    at("create");
    return base_create(problem, services, plan, why, size);
}

static void numerics(const void *plan, struct attn_numerics *out)
{
    at("numerics");
    base_numerics(plan, out);
}

static void describe(const void *plan, char *text, size_t size)
{
    (void)plan;
    at("describe");
    snprintf(text, size, "plain");
}

static uint64_t workspace_bytes(const void *plan)
{
    (void)plan;
    at("workspace");
    return 0;
}

static int bind_tensors(void *plan, const struct attn_tensor *tensors, uint32_t n, void **binding,
                        char *why, size_t size)
{
    at("bind");
    const int result = base_bind(plan, tensors, n, binding, why, size);
    bound = *binding;
    return result;
}

static int run(void *binding, char *why, size_t size)
{
    at("run");
    return base_run(binding, why, size);
}

static int fetch(void *binding, char *why, size_t size)
{
    (void)binding, (void)why, (void)size;
    at("fetch");
    return ATTN_OK;
}

static void release(void *binding)
{
    at("release");
    base_release(binding);
}

static void destroy(void *plan)
{
    at("destroy");
    base_destroy(plan);
}

static const struct attn_backend backend = {
    .struct_size = offsetof(struct attn_backend, device),
    .name = "faulty",
    .description = "a fault of one kind in one place",
    .probe = probe,
    .version = version,
    .supports = supports,
    .create = create,
    .numerics = numerics,
    .describe = describe,
    .workspace_bytes = workspace_bytes,
    .bind = bind_tensors,
    .run = run,
    .fetch = fetch,
    .release = release,
    .destroy = destroy,
};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table), .init = init};

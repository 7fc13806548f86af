/* SPDX-License-Identifier: Apache-2.0 */
/* preload.c - stands between a program and the C library (LD_PRELOAD), as ATTN_TEST_PRELOAD says:
 *   memory:N[:FILE]  the Nth allocation is refused, of this process only; 0: none. FILE gets the
 *                    number of all
 *   hidden:PATH      there is no such file to fopen
 *   signals:US       a signal with a handler arrives every so many microseconds, in children, too
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <dlfcn.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
FILE *fopen64(const char *path, const char *mode);

static _Atomic long allocations;
static long refused;
static char file[512], hidden[512];

static int refuses(void)
{
    if (atomic_fetch_add(&allocations, 1) + 1 != refused)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size)
{
    return refuses() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return refuses() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return refuses() ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return refuses() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *at = refuses() ? NULL : __libc_memalign(alignment, size);
    if (at)
        *out = at;
    return at ? 0 : ENOMEM;
}

/* Programs that are built for large files call the second. */
static FILE *open_unless_hidden(const char *name, const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, name);
    if (*hidden && strcmp(path, hidden) == 0) {
        errno = ENOENT;
        return NULL;
    }
    return next(path, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    return open_unless_hidden("fopen", path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    return open_unless_hidden("fopen64", path, mode);
}

static void take(int number)
{
    (void)number;
}

static void send_signals(long microseconds)
{
    const struct sigaction action = {.sa_handler = take}; /* no SA_RESTART */
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
    const struct timespec every = {.tv_nsec = 1000 * microseconds};
    timer_t timer;
    sigaction(SIGURG, &action, NULL);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &(struct itimerspec){every, every}, NULL) != 0)
        abort();
}

__attribute__((constructor)) static void begin(void)
{
    long microseconds;
    const char *wish = getenv("ATTN_TEST_PRELOAD");
    if (!wish)
        return;
    if (sscanf(wish, "signals:%ld", &microseconds) == 1)
        send_signals(microseconds);
    else if (sscanf(wish, "memory:%ld:%511s", &refused, file) >= 1)
        unsetenv("LD_PRELOAD");
    else
        sscanf(wish, "hidden:%511s", hidden);
    atomic_store(&allocations, 0);
}

__attribute__((destructor)) static void end(void)
{
    const long count = atomic_load(&allocations);
    const int fd = *file ? open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (fd >= 0) {
        dprintf(fd, "%ld\n", count);
        close(fd);
    }
}

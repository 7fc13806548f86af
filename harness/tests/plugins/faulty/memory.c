/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - overruns of operands and of the heap, and memory without end. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "faults.h"

#define MIB ((size_t)1 << 20)

/* ---- overruns ---- */

static void do_write_past(void)
{
    volatile float *out = fault_bound->out;
    out[fault_bound->out_elements] = 1;
}

static void do_write_before(void)
{
    volatile float *out = fault_bound->out;
    out[-1] = 1;
}

static void do_write_input(void)
{
    volatile float *q = (volatile float *)(uintptr_t)fault_bound->q;
    q[0] = 1;
}

static void do_read_past(void)
{
    const volatile float *q = fault_bound->q;
    (void)q[fault_bound->problem.sq * fault_bound->problem.dk];
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
    fault_pause();
}

/* Files in memory belong to no process. */
static void do_shm_file(void)
{
    static char block[65536];
    const int file = open("/dev/shm/faulty", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int n = 0;
    while (file >= 0 && n < 8192 && write(file, block, sizeof(block)) == (ssize_t)sizeof(block))
        n++;
    fault_done(n == 8192);
    unlink("/dev/shm/faulty");
}

static void do_hog(void)
{
    touch(100000);
    fault_pause();
}

static void do_shared_hog(void)
{
    for (int n = 0; n < 100000; n++) {
        char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (at != MAP_FAILED)
            memset(at, 1, MIB);
    }
    fault_pause();
}

/* Children that stay below what one process may have, together above. */
static void do_child_hog(void)
{
    for (int n = 0; n < 6; n++)
        if (fork() == 0) {
            setsid();
            touch(90);
            fault_pause();
        }
    fault_pause();
}

static void do_memfd(void)
{
    static char block[65536];
    const int file = (int)syscall(SYS_memfd_create, "faulty", 0);
    int n = 0;
    while (file >= 0 && n < 16384 && write(file, block, sizeof(block)) == (ssize_t)sizeof(block))
        n++;
    fault_done(n == 16384);
}

static void do_shm(void)
{
    const int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    fault_done(segment >= 0);
    if (segment >= 0)
        shmctl(segment, IPC_RMID, NULL);
}

const struct fault faults_of_memory[] = {
    {"write_past", do_write_past},
    {"write_before", do_write_before},
    {"write_input", do_write_input},
    {"read_past", do_read_past},
    {"smash", do_smash},
    {"free_twice", do_free_twice},
    {"free_bad", do_free_bad},
    {"leak", do_leak},
    {"reserve", do_reserve},
    {"heap_hog", do_heap_hog},
    {"shm_file", do_shm_file},
    {"hog", do_hog},
    {"shared_hog", do_shared_hog},
    {"child_hog", do_child_hog},
    {"memfd", do_memfd},
    {"shm", do_shm},
    {NULL, NULL},
};

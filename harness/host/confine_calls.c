/* SPDX-License-Identifier: Apache-2.0 */
/* confine_calls.c - the system calls that fail in a confined worker, by seccomp. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/confine.h"

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif
#ifndef __NR_memfd_secret
#define __NR_memfd_secret 447
#endif

/* Numbers of the other ABI of x86-64 have this bit. */
#define X32_BIT 0x40000000u

#ifdef ARCHITECTURE
/* ENOSYS where libraries know what to do without. */
static const struct {
    uint32_t call;
    uint32_t error;
} refused[] = {
    /* memory that no resident size shows */
    {__NR_memfd_create, ENOSYS},
    {__NR_memfd_secret, ENOSYS},
    {__NR_shmget, EPERM},
    {__NR_msgget, EPERM},
    {__NR_io_uring_setup, ENOSYS},
    /* other processes, and their files */
#ifndef __SANITIZE_ADDRESS__ /* LeakSanitizer traces the process that it is in */
    {__NR_ptrace, EPERM},
#endif
    {__NR_process_vm_readv, EPERM},
    {__NR_process_vm_writev, EPERM},
    {__NR_pidfd_getfd, EPERM},
    {__NR_kcmp, EPERM},
    /* servers: socketpair is no way to one */
    {__NR_socket, EPERM},
    /* namespaces: clone3 has its flags in memory, and the C library then uses clone */
    {__NR_unshare, EPERM},
    {__NR_setns, EPERM},
    {__NR_clone3, ENOSYS},
    {__NR_mount, EPERM},
    {__NR_umount2, EPERM},
    {__NR_pivot_root, EPERM},
    {__NR_chroot, EPERM},
    {__NR_open_tree, EPERM},
    {__NR_move_mount, EPERM},
    {__NR_fsopen, EPERM},
    {__NR_fsmount, EPERM},
    /* what is of no use to a kernel, and has had faults */
    {__NR_bpf, EPERM},
    {__NR_userfaultfd, EPERM},
    {__NR_add_key, EPERM},
    {__NR_request_key, EPERM},
    {__NR_keyctl, EPERM},
    {__NR_open_by_handle_at, EPERM},
};
enum { N_REFUSED = sizeof(refused) / sizeof(refused[0]) };

#define FIELD(name)  offsetof(struct seccomp_data, name)
#define LOAD(name)   ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(name)))
#define RETURN(what) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what))
/* The next instruction is skipped unless the condition holds. */
#define UNLESS(test, value) ((struct sock_filter)BPF_JUMP(BPF_JMP | (test) | BPF_K, value, 0, 1))
#endif

int attn_confine_calls(void)
{
#ifdef ARCHITECTURE
    const uint32_t spaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                            CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP;
    struct sock_filter code[2 * N_REFUSED + 12];
    unsigned short n = 0;
    code[n++] = LOAD(arch);
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    code[n++] = RETURN(SECCOMP_RET_ERRNO | ENOSYS);
    code[n++] = LOAD(nr);
    code[n++] = UNLESS(BPF_JGE, X32_BIT);
    code[n++] = RETURN(SECCOMP_RET_ERRNO | ENOSYS);
    for (int c = 0; c < N_REFUSED; c++) {
        code[n++] = UNLESS(BPF_JEQ, refused[c].call);
        code[n++] = RETURN(SECCOMP_RET_ERRNO | refused[c].error);
    }
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 3);
    code[n++] = LOAD(args[0]); /* the low half */
    code[n++] = UNLESS(BPF_JSET, spaces);
    code[n++] = RETURN(SECCOMP_RET_ERRNO | EPERM);
    code[n++] = RETURN(SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = n, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return errno;
    /* SPEC_ALLOW: otherwise kernels before 5.16 turn speculation of loads past stores off, and all
     * code of the worker is slower. */
    if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) !=
        0)
        return errno;
    return 0;
#else
    return ENOSYS;
#endif
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - the handler of SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT. Async-signal-safe: it reads
 * static tables, sends one packet and exits. */
#include "worker/fault.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "worker/channel.h"

#define STACK_BYTES (64 * 1024)

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

static struct {
    struct attn_fault_region regions[ATTN_MAX_TENSORS];
    volatile uint32_t n_regions;
    volatile uint32_t slot;
    stack_t stack;
} state;

/* Page faults on x86 tell whether the access was a write (bit 1 of the error code). */
static uint32_t access_of(int sig, const ucontext_t *context)
{
#if defined(__x86_64__)
    if (sig == SIGSEGV)
        return context->uc_mcontext.gregs[REG_ERR] & 2 ? ATTN_ACCESS_WRITE : ATTN_ACCESS_READ;
#else
    (void)context;
    (void)sig;
#endif
    return ATTN_ACCESS_UNKNOWN;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    /* si_code > 0: sent by the kernel. SI_KERNEL: no page fault (a non-canonical address), so that
     * the address field says nothing. */
    const int has_address = sig != SIGABRT && info->si_code > 0 && info->si_code != SI_KERNEL;
    const uintptr_t address = has_address ? (uintptr_t)info->si_addr : 0;
    struct attn_message_fault message = {
        .head = {.length = sizeof(message), .type = ATTN_MESSAGE_FAULT},
        .slot = state.slot,
        .signal = (uint32_t)sig,
        .access = access_of(sig, context),
        .operand = UINT32_MAX,
        .has_address = has_address != 0,
        .address = address,
    };
    /* Only a plugin can be blamed for touching what it must not. */
    for (uint32_t t = 0; t < state.n_regions && state.slot != ATTN_SLOT_NONE; t++) {
        const struct attn_fault_region *region = &state.regions[t];
        if (sig == SIGSEGV && has_address && address >= region->begin && address < region->end) {
            message.operand = t;
            message.distance = (int64_t)(address - region->data);
        }
    }
    attn_channel_send(&message.head);
    _exit(128 + sig);
}

int attn_fault_init(void)
{
    void *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        return -1;
    state.stack = (stack_t){.ss_sp = stack, .ss_size = STACK_BYTES};
    return 0;
}

void attn_fault_arm(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigset_t unblock;
    sigemptyset(&unblock);
    sigaltstack(&state.stack, NULL);
    for (size_t s = 0; s < sizeof(fatal_signals) / sizeof(fatal_signals[0]); s++) {
        sigaction(fatal_signals[s], &action, NULL);
        sigaddset(&unblock, fatal_signals[s]);
    }
    sigprocmask(SIG_UNBLOCK, &unblock, NULL);
}

void attn_fault_watch(const struct attn_fault_region *regions, uint32_t count)
{
    state.n_regions = 0;
    if (count > 0)
        memcpy(state.regions, regions, count * sizeof(*regions));
    state.n_regions = count;
}

void attn_fault_slot(uint32_t slot)
{
    state.slot = slot;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fibers.cpp - the threads of a block: one stack for each, and which one runs next. Each lane of a
 * warp runs up to its next common operation, then the next lane runs. The last lane to arrive
 * computes the operation. At barriers another warp runs, in random order. */
#undef _FORTIFY_SOURCE /* it ends a program that jumps to another stack */
#include <setjmp.h>
#include <stdio.h>
#include <ucontext.h>
#include <vector>

#include "launch.h"

namespace
{

constexpr int LANES = 32;
constexpr size_t STACK = 64 << 10;

/* A context is entered once by setcontext, and after that by longjmp, which makes no system call.
 */
struct fiber {
    ucontext_t entry;
    jmp_buf point;
    bool entered;
    lane_operands *operands;
};

enum warp_state { READY, WAITING, FINISHED };

struct warp {
    warp_state state;
    warp_operation operation; /* that its lanes are coming to */
    int arrived, next;        /* next: the lane to go on with */
};

std::vector<char> stacks;
std::vector<fiber> threads;
std::vector<warp> warps;
jmp_buf scheduler;
emulated_kernel *kernel;
const void *kernel_args;
char violation[256];
uint64_t random_state = 1;
int idle; /* lanes that have given way since the last operation of a warp */

unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

[[noreturn]] void enter(int thread)
{
    fiber &to = threads[(size_t)thread];
    emulated_current.thread = thread;
    if (to.entered)
        _longjmp(to.point, 1);
    to.entered = true;
    setcontext(&to.entry);
    abort();
}

void start()
{
    kernel(kernel_args);
    lane_operands none = {};
    emulated_collective(WARP_EXIT, none);
    abort();
}

void prepare(int count)
{
    stacks.resize(STACK * (size_t)count);
    threads.assign((size_t)count, fiber());
    warps.assign((size_t)(count / LANES), warp());
    for (int t = 0; t < count; t++) {
        ucontext_t &entry = threads[(size_t)t].entry;
        getcontext(&entry);
        entry.uc_stack.ss_sp = &stacks[STACK * (size_t)t];
        entry.uc_stack.ss_size = STACK;
        entry.uc_link = NULL;
        makecontext(&entry, start, 0);
    }
}

/* Goes back to the scheduler. The warp continues later with this lane. */
void leave(warp &w, int lane)
{
    w.next = lane;
    fiber &self = threads[(size_t)emulated_current.thread];
    if (_setjmp(self.point) == 0)
        _longjmp(scheduler, 1);
}

int count(warp_state state)
{
    int n = 0;
    for (const warp &w : warps)
        n += w.state == state;
    return n;
}

/* Any warp that can run, or -1 if all have ended. If all wait at the barrier, it opens. */
int choose()
{
    if (count(READY) == 0 && count(WAITING) > 0) {
        if (count(FINISHED) > 0)
            emulated_violation("a warp has ended while others wait at a barrier");
        emulated_open_barrier();
        for (warp &w : warps)
            w.state = READY;
    }
    if (count(READY) == 0)
        return -1;
    int chosen = (int)draw((unsigned)count(READY)), w = 0;
    while (warps[(size_t)w].state != READY || chosen-- > 0)
        w++;
    return w;
}

} /* namespace */

void emulated_violation(const char *sentence)
{
    snprintf(violation, sizeof(violation), "emulated block %d thread %d: %s",
             emulated_current.block_x, emulated_current.thread, sentence);
    _longjmp(scheduler, 1);
}

void emulated_yield()
{
    const int thread = emulated_current.thread;
    if (++idle > 1 << 20)
        emulated_violation("a thread waits for what never comes");
    leave(warps[(size_t)(thread / LANES)], thread % LANES);
}

void emulated_collective(warp_operation operation, lane_operands &operands)
{
    const int thread = emulated_current.thread, lane = thread % LANES, base = thread - lane;
    warp &w = warps[(size_t)(thread / LANES)];
    threads[(size_t)thread].operands = &operands;
    if (w.arrived == 0)
        w.operation = operation;
    if (w.operation != operation)
        emulated_violation("the lanes of a warp are at different operations");
    if (++w.arrived < LANES) {
        if (_setjmp(threads[(size_t)thread].point) == 0)
            enter(base + (lane + 1) % LANES);
        return;
    }
    w.arrived = 0;
    idle = 0;
    if (operation == WARP_BARRIER || operation == WARP_EXIT) {
        w.state = operation == WARP_BARRIER ? WAITING : FINISHED;
        leave(w, lane);
        return;
    }
    lane_operands *all[LANES];
    for (int l = 0; l < LANES; l++)
        all[l] = threads[(size_t)(base + l)].operands;
    emulated_operate(operation, base, all);
}

const char *emulated_run_block(emulated_kernel *function, const void *args, int count)
{
    kernel = function;
    kernel_args = args;
    violation[0] = '\0';
    prepare(count);
    /* every fiber that gives up the processor comes back here */
    (void)_setjmp(scheduler);
    if (violation[0])
        return violation;
    const int w = choose();
    if (w >= 0)
        enter(w * LANES + warps[(size_t)w].next);
    return NULL;
}

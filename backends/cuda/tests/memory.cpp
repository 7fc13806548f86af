/* SPDX-License-Identifier: Apache-2.0 */
/* memory.cpp - the memory of the emulated device, and which thread may touch which bytes when. */
#include <map>
#include <stdio.h>
#include <sys/mman.h>
#include <unordered_map>
#include <vector>

#include "launch.h"

namespace
{

enum { NOBODY = -1, MANY = -2, WORD = 4 };

/* One word of shared memory: which threads wrote and read it last, and between which barriers. */
struct word_state {
    bool written, in_flight;
    int writer, reader;
    unsigned write_epoch, read_epoch;
};

struct pending_copy {
    uint32_t to;
    const void *from;
    bool wanted;
    int group;
};

std::vector<unsigned char> shared;
std::vector<word_state> words;
std::vector<std::vector<pending_copy>> copies; /* of each thread */
std::vector<int> groups;                       /* that each thread has committed */
unsigned epoch;
std::map<uintptr_t, size_t> allocations; /* first byte -> bytes */

/* Which thread wrote an element of global memory in this launch, between which barriers and
 * meetings. */
struct global_write {
    unsigned block, epoch, met;
    int thread;
};
std::unordered_map<uintptr_t, global_write> global_writes;
unsigned block;
std::vector<unsigned> meetings; /* of each warp */

/* True if a write is ordered before what the current thread does now. */
bool lies_before(const global_write &write)
{
    const int thread = emulated_current.thread, warp = thread / 32;
    if (write.block != block || write.thread == thread)
        return write.block == block;
    return write.epoch != epoch ||
           (write.thread / 32 == warp && write.met != meetings[(size_t)warp]);
}

/* The words of at .. at+bytes-1, or a violation. */
word_state *words_at(uint32_t at, size_t bytes)
{
    if (at % bytes != 0)
        emulated_violation("an unaligned access to shared memory");
    if (at + bytes > shared.size())
        emulated_violation("an access past the end of shared memory");
    return &words[at / WORD];
}

void mark_written(int thread, word_state &word)
{
    const bool other_wrote = word.writer != NOBODY && word.writer != thread;
    const bool other_read = word.reader != NOBODY && word.reader != thread;
    if (word.in_flight)
        emulated_violation("a write to shared memory that cp.async is still filling");
    if ((other_wrote && word.write_epoch == epoch) || (other_read && word.read_epoch == epoch))
        emulated_violation("a race: a write to shared memory that another thread uses, with no "
                           "barrier between");
    word.writer = thread;
    word.write_epoch = epoch;
}

} /* namespace */

void emulated_shared_reset(uint32_t bytes, int threads)
{
    shared.assign(bytes, 0xff); /* NaN in every type */
    words.assign(bytes / WORD, word_state{false, false, NOBODY, NOBODY, 0, 0});
    copies.assign((size_t)threads, {});
    groups.assign((size_t)threads, 0);
    meetings.assign((size_t)threads / 32, 0);
    emulated_hopper_reset(bytes, threads);
    epoch = 1;
    block++;
}

void emulated_launch_begin()
{
    global_writes.clear();
}

void emulated_warp_met(int base)
{
    meetings[(size_t)base / 32]++;
}

const char *emulated_block_left()
{
    for (const auto &pending : copies)
        if (!pending.empty())
            return "a block has ended before its copies by cp.async have";
    return emulated_hopper_left();
}

void emulated_open_barrier()
{
    epoch++;
    emulated_hopper_barrier();
}

unsigned char *emulated_shared_at(uint32_t at)
{
    if (at + 1 >= shared.size())
        emulated_violation("an access past the end of shared memory");
    return &shared[at];
}

void emulated_shared_read_by(int thread, uint32_t at, void *to, size_t bytes)
{
    word_state *word = words_at(at, bytes);
    for (size_t w = 0; w < bytes / WORD; w++, word++) {
        if (word->in_flight)
            emulated_violation("a read of shared memory before cp.async has filled it");
        if (!word->written)
            emulated_violation("a read of shared memory that nobody has written");
        if (word->writer != thread && word->write_epoch == epoch)
            emulated_violation("a race: a read of shared memory that another thread wrote, with no "
                               "barrier between");
        const bool alone = word->read_epoch != epoch || word->reader == thread;
        word->reader = alone ? thread : MANY;
        word->read_epoch = epoch;
    }
    memcpy(to, &shared[at], bytes);
}

void emulated_shared_read(uint32_t at, void *to, size_t bytes)
{
    emulated_shared_read_by(emulated_current.thread, at, to, bytes);
}

void emulated_shared_write(uint32_t at, const void *from, size_t bytes)
{
    word_state *word = words_at(at, bytes);
    for (size_t w = 0; w < bytes / WORD; w++) {
        mark_written(emulated_current.thread, word[w]);
        word[w].written = true;
    }
    memcpy(&shared[at], from, bytes);
}

/* The bytes may arrive at any time between now and the wait, so no thread may touch their place.
 * Here they arrive at the wait, as late as possible. */
void emulated_copy(uint32_t to, const void *from, bool wanted)
{
    const size_t thread = (size_t)emulated_current.thread;
    word_state *word = words_at(to, sizeof(chunk));
    if (wanted && (uintptr_t)from % sizeof(chunk) != 0)
        emulated_violation("cp.async from an address that is no multiple of 16");
    if (wanted)
        emulated_check_global(from, sizeof(chunk), false);
    for (size_t w = 0; w < sizeof(chunk) / WORD; w++) {
        mark_written((int)thread, word[w]);
        word[w].in_flight = true;
    }
    copies[thread].push_back({to, from, wanted, groups[thread]});
}

void emulated_copy_commit()
{
    groups[(size_t)emulated_current.thread]++;
}

void emulated_copy_wait(int pending)
{
    const size_t thread = (size_t)emulated_current.thread;
    std::vector<pending_copy> later;
    for (const pending_copy &copy : copies[thread]) {
        if (copy.group >= groups[thread] - pending) {
            later.push_back(copy);
            continue;
        }
        if (copy.wanted)
            memcpy(&shared[copy.to], copy.from, sizeof(chunk));
        else
            memset(&shared[copy.to], 0, sizeof(chunk));
        for (size_t w = 0; w < sizeof(chunk) / WORD; w++) {
            word_state &word = words[copy.to / WORD + w];
            word.in_flight = false;
            word.written = true;
            word.write_epoch = epoch;
        }
    }
    copies[thread] = later;
}

void *emulated_alloc(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    allocations[(uintptr_t)memory] = bytes;
    return memory;
}

size_t emulated_size(void *memory)
{
    const auto found = allocations.find((uintptr_t)memory);
    return found == allocations.end() ? 0 : found->second;
}

bool emulated_free(void *memory)
{
    const auto found = allocations.find((uintptr_t)memory);
    if (found == allocations.end())
        return false;
    munmap(memory, found->second);
    allocations.erase(found);
    return true;
}

bool emulated_holds(const void *from, size_t bytes)
{
    static uintptr_t first, last; /* the allocation of the previous access: most often the same */
    const uintptr_t at = (uintptr_t)from;
    if (at < first || at + bytes > last || allocations.find(first) == allocations.end()) {
        auto above = allocations.upper_bound(at);
        if (above == allocations.begin())
            return false;
        --above;
        first = above->first;
        last = above->first + above->second;
    }
    return at >= first && at + bytes <= last;
}

void emulated_check_global(const void *from, size_t bytes, bool writes)
{
    if (!emulated_holds(from, bytes))
        emulated_violation(writes ? "a write outside every allocation of the device"
                                  : "a read outside every allocation of the device");
    if ((uintptr_t)from % bytes != 0)
        emulated_violation("an unaligned access to global memory");
    const auto before = global_writes.find((uintptr_t)from);
    if (before != global_writes.end() && !lies_before(before->second))
        emulated_violation("a race: global memory that another thread has written, with nothing "
                           "to order them");
    if (writes)
        global_writes[(uintptr_t)from] = {
            block, epoch, meetings[(size_t)emulated_current.thread / 32], emulated_current.thread};
}

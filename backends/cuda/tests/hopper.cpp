/* SPDX-License-Identifier: Apache-2.0 */
/* hopper.cpp - the built-ins of sm_90a as the PTX manual defines them: barriers that count bytes,
 * copies of boxes, products of warpgroups. Each warp computes its 16 of the 64 rows. */
#include <math.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "../device_hopper.h"
#include "launch.h"

namespace
{

constexpr int LANES = 32, GROUP_WARPS = 4, MOST_WARPS = 32, MOST_PHASES = 32, NUMBERS = 16;
constexpr unsigned PENDING = ~0u;

/* What a warp knows of the others: up to which of their releases, and which phases have ended. */
using knowledge = std::array<unsigned, MOST_WARPS + MOST_PHASES>;

struct phase {
    uint32_t at;
    int arrivals, awaited;
    int64_t bytes;
    unsigned ended; /* phases */
    bool usable;
    knowledge now, last;
};

struct numbered {
    int arrived;
    unsigned opened;
    knowledge now, last;
};

/* 16 bytes of shared memory: the phase that counts them, and when each warp last read them. */
struct chunk_state {
    int phase;
    unsigned ended;
    std::array<unsigned, MOST_WARPS> reads;
};

struct warp_product {
    emulated_product lane[LANES];
};

/* Accumulators that products are changing. */
struct in_flight {
    std::vector<float> values[LANES];
    int products;
};

struct warp_state {
    std::vector<std::vector<warp_product>> groups;
    std::vector<warp_product> open; /* not yet committed */
    std::map<float *, in_flight> sums;
};

std::vector<phase> phases;
std::array<numbered, NUMBERS> numbers;
std::vector<chunk_state> chunks;
std::vector<warp_state> warps;
std::vector<knowledge> known; /* of each warp */

int current_warp()
{
    return emulated_current.thread / LANES;
}

void learn(knowledge &to, const knowledge &from)
{
    for (size_t n = 0; n < to.size(); n++)
        to[n] = std::max(to[n], from[n]);
}

void release(int warp, knowledge &to)
{
    learn(to, known[(size_t)warp]);
    known[(size_t)warp][(size_t)warp]++;
}

phase &phase_at(uint32_t at)
{
    for (phase &p : phases)
        if (p.at == at && p.usable)
            return p;
    emulated_violation("a barrier that was not made, or not yet for all to see");
}

void end_phase_if_complete(phase &p)
{
    if (p.bytes < 0)
        emulated_violation("a barrier gets more bytes than were announced");
    if (p.awaited > 0 || p.bytes > 0)
        return;
    p.ended++;
    p.awaited = p.arrivals;
    p.now[(size_t)(MOST_WARPS + (&p - &phases[0]))] = p.ended;
    p.last = p.now;
}

void arrive(phase &p)
{
    if (p.awaited == 0)
        emulated_violation("more arrivals at a barrier than it counts");
    p.awaited--;
    release(current_warp(), p.now);
    end_phase_if_complete(p);
}

/* An address in the layout with swizzle of 128 bytes, as an offset. */
uint32_t swizzled(uint32_t address)
{
    return (address ^ (address >> 7 & 7) << 4) - shared_base();
}

chunk_state &chunk_at_offset(uint32_t at)
{
    if (at / sizeof(chunk) >= chunks.size())
        emulated_violation("an access past the end of shared memory");
    return chunks[at / sizeof(chunk)];
}

/* Element (row, k) of an operand in shared memory: `transposed` if the summed axis k is that of the
 * rows of 128 bytes. Returns its place, after checks and a note that `warp` reads it. */
const uint16_t *element(uint64_t descriptor, bool transposed, int row, int k, int warp,
                        unsigned when)
{
    const uint32_t start = (uint32_t)(descriptor & 0x3fff) << 4,
                   leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
                   stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    if (descriptor >> 62 != 1 || descriptor >> 46 & 0xffff || descriptor & 0xc000c000)
        emulated_violation("a descriptor that is not of the layout with swizzle of 128 bytes");
    const uint32_t r = (uint32_t)row, c = (uint32_t)k;
    const uint32_t address =
        transposed ? start + r % 64 * 2 + r / 64 * leading + c % 8 * 128 + c / 8 * stride
                   : start + r % 8 * 128 + r / 8 * stride + c * 2;
    const uint32_t at = swizzled(address);
    chunk_state &state = chunk_at_offset(at);
    if (state.phase < 0)
        emulated_violation("a product reads shared memory that nobody has written");
    if (known[(size_t)warp][(size_t)(MOST_WARPS + state.phase)] < state.ended)
        emulated_violation("a product reads what a copy brings before its phase has ended");
    state.reads[(size_t)warp] = when;
    return (const uint16_t *)emulated_shared_at(at);
}

float value_at(const warp_product &product, const uint16_t *bits)
{
    return product.lane[0].bf16 ? value_of((uint32_t)*bits << 16) : emulated_f16_value(*bits);
}

/* Marks what a product reads, from now on or until now. */
void visit(const warp_product &product, int warp, unsigned when)
{
    const emulated_product &one = product.lane[0];
    for (int k = 0; k < 16; k++) {
        for (int n = 0; n < one.count * 2; n++)
            element(one.b, one.a_registers != NULL, n, k, warp, when);
        for (int row = 0; row < 16 && !one.a_registers; row++)
            element(one.a_shared, false, warp % GROUP_WARPS * 16 + row, k, warp, when);
    }
}

/* Lane 4g + t holds, of a, rows g and g+8 at columns 2t, 2t+1 and 2t+8, 2t+9; of c, rows g and g+8
 * at columns 8j + 2t, 8j + 2t+1. */
void multiply(const warp_product &product, in_flight &sums, int warp)
{
    const emulated_product &one = product.lane[0];
    const int columns = one.count * 2;
    double a[16][16], b[16][256];
    for (int k = 0; k < 16; k++) {
        for (int n = 0; n < columns; n++)
            b[k][n] =
                value_at(product, element(one.b, one.a_registers != NULL, n, k, warp, PENDING));
        for (int row = 0; row < 16; row++) {
            const int lane = row % 8 * 4 + k % 8 / 2, pair = row / 8 + k / 8 * 2;
            if (one.a_registers) {
                const uint16_t bits =
                    (uint16_t)(product.lane[lane].a_registers[pair] >> k % 2 * 16);
                a[row][k] = value_at(product, &bits);
            } else
                a[row][k] =
                    value_at(product, element(one.a_shared, false, warp % GROUP_WARPS * 16 + row, k,
                                              warp, PENDING));
        }
    }
    for (int row = 0; row < 16; row++)
        for (int n = 0; n < columns; n++) {
            double sum = 0;
            for (int k = 0; k < 16; k++)
                sum += a[row][k] * b[k][n];
            float &c =
                sums.values[row % 8 * 4 + n % 8 / 2][(size_t)(n / 8 * 4 + row / 8 * 2 + n % 2)];
            c = emulated_cut((one.adds ? (double)c : 0.0) + sum);
        }
}

numbered &number(int which)
{
    if (which < 1 || which >= NUMBERS)
        emulated_violation("a barrier of a number that there is not");
    return numbers[(size_t)which];
}

/* All lanes of the warp are here. */
void arrive_at(int which, int threads)
{
    numbered &n = number(which);
    n.arrived += LANES;
    release(current_warp(), n.now);
    if (n.arrived > threads)
        emulated_violation("more threads at a barrier than it counts");
    if (n.arrived == threads) {
        n.arrived = 0;
        n.opened++;
        n.last = n.now;
    }
}

} /* namespace */

void emulated_hopper_reset(uint32_t bytes, int threads)
{
    phases.clear();
    numbers = {};
    chunks.assign(bytes / sizeof(chunk), chunk_state{-1, 0, {}});
    warps.assign((size_t)(threads / LANES), warp_state());
    known.assign((size_t)(threads / LANES), knowledge{});
    for (size_t w = 0; w < known.size(); w++)
        known[w][w] = 1;
}

void emulated_hopper_barrier()
{
    knowledge all = {};
    for (size_t w = 0; w < known.size(); w++)
        release((int)w, all);
    for (knowledge &k : known)
        learn(k, all);
}

const char *emulated_hopper_left()
{
    for (const warp_state &w : warps)
        if (!w.groups.empty() || !w.open.empty())
            return "a block has ended before its products have";
    for (const phase &p : phases)
        if (p.bytes > 0)
            return "a block has ended before its copies have";
    return NULL;
}

void emulated_hopper_operate(warp_operation operation, int base, lane_operands *const *lanes)
{
    const int warp = base / LANES;
    warp_state &w = warps[(size_t)warp];
    if (operation == WARP_ANNOUNCE) {
        arrive_at(lanes[0]->lane, (int)lanes[0]->in[0]);
        return;
    }
    if (operation == WARP_PRODUCT) {
        warp_product product;
        for (int l = 0; l < LANES; l++)
            product.lane[l] = *(const emulated_product *)lanes[l]->product;
        in_flight &sums = w.sums[product.lane[0].c];
        for (int l = 0; l < LANES && sums.products == 0; l++) {
            float *c = product.lane[l].c;
            sums.values[l].assign(c, c + product.lane[l].count);
            std::fill(c, c + product.lane[l].count, NAN);
        }
        sums.products++;
        visit(product, warp, PENDING);
        w.open.push_back(product);
    } else if (operation == WARP_COMMIT) {
        w.groups.push_back(w.open);
        w.open.clear();
    } else {
        while (w.groups.size() > (size_t)lanes[0]->lane) {
            for (const warp_product &product : w.groups[0]) {
                in_flight &sums = w.sums[product.lane[0].c];
                multiply(product, sums, warp);
                visit(product, warp, known[(size_t)warp][(size_t)warp]);
                if (--sums.products > 0)
                    continue;
                for (int l = 0; l < LANES; l++)
                    std::copy(sums.values[l].begin(), sums.values[l].end(), product.lane[l].c);
                w.sums.erase(product.lane[0].c);
            }
            w.groups.erase(w.groups.begin());
        }
        /* what a group still under way reads, too, is not over */
        for (const auto &group : w.groups)
            for (const warp_product &product : group)
                visit(product, warp, PENDING);
    }
}

void emulated_products_commit()
{
    lane_operands o = {};
    emulated_collective(WARP_COMMIT, o);
}

void emulated_products_wait(int pending)
{
    lane_operands o = {};
    o.lane = pending;
    emulated_collective(WARP_PRODUCTS_WAIT, o);
}

void phase_init(uint32_t at, int arrivals)
{
    if (at % 8 != 0 || phases.size() == MOST_PHASES)
        emulated_violation("a barrier at no multiple of 8 bytes, or too many");
    emulated_shared_at(at);
    phases.push_back({at, arrivals, arrivals, 0, 0, false, {}, {}});
}

void phase_init_done()
{
    for (phase &p : phases)
        p.usable = true;
}

void phase_arrive(uint32_t at)
{
    arrive(phase_at(at));
}

void phase_expect(uint32_t at, uint32_t bytes)
{
    phase &p = phase_at(at);
    p.bytes += bytes;
    arrive(p);
}

void phase_wait(uint32_t at, uint32_t parity)
{
    if (parity > 1)
        emulated_violation("a parity is 0 or 1");
    while ((phase_at(at).ended & 1) == parity)
        emulated_yield();
    learn(known[(size_t)current_warp()], phase_at(at).last);
}

void announce(int which, int threads)
{
    lane_operands o = {};
    o.lane = which;
    o.in[0] = (uint32_t)threads;
    emulated_collective(WARP_ANNOUNCE, o);
}

void meet(int which, int threads)
{
    /* it cannot open before this lane comes */
    const unsigned opened = number(which).opened;
    announce(which, threads);
    while (number(which).opened == opened)
        emulated_yield();
    learn(known[(size_t)current_warp()], number(which).last);
}

void copy_box(uint32_t to, const attn_cuda_map &opaque, int column, int row, int head, int batch,
              uint32_t at)
{
    emulated_map map;
    memcpy(&map, &opaque, sizeof(map));
    phase &p = phase_at(at);
    const int warp = current_warp();
    if (map.magic != EMULATED_MAP || (uintptr_t)&opaque % 64 != 0)
        emulated_violation("a copy by a map that no driver has made, or at no multiple of 64");
    if ((shared_base() + to) % 1024 != 0)
        emulated_violation("a box at no multiple of 1024 bytes");
    for (uint32_t r = 0; r < map.rows; r++)
        for (uint32_t c = 0; c < 8; c++) {
            const int64_t index[4] = {column + (int)c * 8, row + (int)r, head, batch};
            const uint32_t place = swizzled(shared_base() + to + r * 128 + c * 16);
            uint64_t from = map.data;
            bool present = true;
            for (int axis = 0; axis < 4; axis++) {
                present = present && index[axis] >= 0 && index[axis] < (int64_t)map.extent[axis];
                from += (uint64_t)index[axis] * map.stride[axis];
            }
            chunk_state &state = chunk_at_offset(place);
            for (size_t w = 0; w < warps.size(); w++)
                if (state.reads[w] == PENDING || known[(size_t)warp][w] < state.reads[w])
                    emulated_violation("a copy over shared memory that a product may still read");
            state.phase = (int)(&p - &phases[0]);
            state.ended = p.ended + 1;
            memset(emulated_shared_at(place), 0, sizeof(chunk));
            if (!present)
                continue;
            emulated_check_global((const void *)from, sizeof(chunk), false);
            memcpy(emulated_shared_at(place), (const void *)from, sizeof(chunk));
        }
    p.bytes -= (int64_t)map.rows * 128;
    end_phase_if_complete(p);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - can a message of the host be followed. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "worker/channel.h"

static const char *config_fault(const struct attn_message_config *config)
{
    if (!memchr(config->plugin, 0, sizeof(config->plugin)) ||
        !memchr(config->backend, 0, sizeof(config->backend)) ||
        !memchr(config->options, 0, sizeof(config->options)))
        return "text without an end";
    if (config->n_processors > ATTN_PROCESSORS_MAX)
        return "number of processors";
    for (uint32_t p = 0; p < config->n_processors; p++)
        if (config->processors[p] >= CPU_SETSIZE)
            return "processor";
    return NULL;
}

static const char *tensor_fault(const struct attn_tensor *tensor)
{
    if (tensor->rank > ATTN_MAX_RANK)
        return "rank";
    for (uint32_t a = 0; a < tensor->rank; a++)
        if (tensor->shape[a] < 0 || tensor->stride[a] < 0)
            return "shape or stride";
    return NULL;
}

/* Do the elements lie in `span` bytes, each in a place of its own but for axes of stride 0. */
static bool elements_fit(const struct attn_tensor *tensor, uint64_t element, uint64_t span)
{
    uint64_t count = 1, last = 0, reach;
    for (uint32_t a = 0; a < tensor->rank; a++)
        if (tensor->shape[a] == 0)
            return true;
    for (uint32_t a = 0; a < tensor->rank; a++) {
        const uint64_t extent = (uint64_t)tensor->shape[a], stride = (uint64_t)tensor->stride[a];
        if (stride == 0)
            continue;
        if (__builtin_mul_overflow(extent - 1, stride, &reach) ||
            __builtin_add_overflow(last, reach, &last) ||
            __builtin_mul_overflow(count, extent, &count))
            return false;
    }
    const uint64_t room = span / element;
    return last < room && count <= room;
}

/* A file from its start: operands follow each other. */
struct room {
    uint64_t bytes, used;
};

/* Does the operand lie in its file, behind the one before, and the tensor in the operand. */
static const char *operand_fault(const struct attn_tensor *tensor,
                                 const struct attn_shared_operand *operand, struct room rooms[2])
{
    const uint32_t element = operand->element;
    if (operand->output > 1 || operand->lead >= 64)
        return "placement";
    if (element != 1 && element != 2 && element != 4 && element != 8)
        return "size of an element";
    if (!memchr(operand->name, 0, sizeof(operand->name)))
        return "text without an end";
    struct room *room = &rooms[operand->output];
    if (operand->span > operand->pages || operand->start > operand->pages - operand->span ||
        operand->offset != room->used || operand->pages > room->bytes - room->used)
        return "extent of an operand";
    room->used += operand->pages;
    if (!elements_fit(tensor, operand->element, operand->span))
        return "extent of a tensor";
    /* Each element of a result is written, and compared, in its own place. */
    for (uint32_t a = 0; operand->output && a < tensor->rank; a++)
        if (tensor->stride[a] == 0 && tensor->shape[a] > 1)
            return "stride of a result";
    return NULL;
}

static const char *spot_fault(const struct attn_message_request *request,
                              const struct attn_spot *spot)
{
    if (spot->tensor >= request->n_tensors)
        return "place";
    const struct attn_shared_operand *operand = &request->operands[spot->tensor];
    return operand->output || operand->span < operand->element ||
                   spot->offset > operand->span - operand->element
               ? "place"
               : NULL;
}

static const char *request_fault(const struct attn_message_request *request, const int fds[2])
{
    const bool shared = request->kind == ATTN_REQUEST_VERIFY ||
                        request->kind == ATTN_REQUEST_REPEAT ||
                        request->kind == ATTN_REQUEST_BENCH || request->kind == ATTN_REQUEST_LIVE ||
                        request->kind == ATTN_REQUEST_PEAK || request->kind == ATTN_REQUEST_AGED ||
                        request->kind == ATTN_REQUEST_COUNT;
    struct room rooms[2] = {{0, 0}, {0, 0}};
    if (request->n_tensors > ATTN_MAX_TENSORS)
        return "number of tensors";
    for (int f = 0; shared && f < 2; f++) {
        struct stat file;
        if (fds[f] < 0 || fstat(fds[f], &file) != 0)
            return "descriptor";
        rooms[f].bytes = (uint64_t)file.st_size;
    }
    if (request->second[0] > 0 && request->second[0] > rooms[0].bytes / 2)
        return "second set of inputs";
    if (request->second[1] > 0 && request->second[1] > rooms[1].bytes / 2)
        return "second set of outputs";
    if (request->n_spots > ATTN_SPOTS_MAX)
        return "number of places";
    if (request->mixed >= 2 * ATTN_SPOTS_MAX)
        return "mixed state";
    if (request->iterations < 0)
        return "number of runs";
    if (request->linear > request->n_tensors ||
        !memchr(request->linear_word, 0, sizeof(request->linear_word)))
        return "linear input";
    const char *fault = NULL;
    for (uint32_t t = 0; !fault && t < request->n_tensors; t++) {
        fault = tensor_fault(&request->tensors[t]);
        if (!fault && shared)
            fault = operand_fault(&request->tensors[t], &request->operands[t], rooms);
    }
    for (uint32_t p = 0; !fault && shared && p < request->n_spots; p++)
        fault = spot_fault(request, &request->spots[p]);
    /* Operands of the second set lie where those of the first end, or later. */
    for (int f = 0; !fault && shared && f < 2; f++)
        if (request->second[f] > 0 && rooms[f].used > request->second[f])
            fault = "second set of operands";
    return fault;
}

int attn_message_check(const union attn_request_buffer *message, const int fds[2], char *why,
                       size_t size)
{
    const char *fault = message->head.type == ATTN_MESSAGE_CONFIG ? config_fault(&message->config)
                        : message->head.type == ATTN_MESSAGE_BATCH
                            ? "order: a batch outside a live request"
                            : request_fault(&message->request, fds);
    if (!fault)
        return 0;
    snprintf(why, size, "the host sent a message with an impossible %s", fault);
    return -1;
}

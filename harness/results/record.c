/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - append and read back the sealed lines of results.ndjson. */
#include "results/record.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* The seal: what follows the summed bytes of a line. */
#define SEAL_HEAD   ",\"crc32\":\""
#define SEAL_TAIL   "\"}"
#define SEAL_DIGITS 8
#define SEAL_LENGTH (sizeof SEAL_HEAD - 1 + SEAL_DIGITS + sizeof SEAL_TAIL - 1)

json_t *attn_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* More than a run of 10^6 results takes; what is larger is no results file. */
#define FILE_LIMIT (4ull << 30)

static uint32_t checksum(const char *text, size_t length)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), (const unsigned char *)text, length);
}

static int write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, text, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        text += n;
        length -= (size_t)n;
    }
    return 0;
}

/* The whole line, sealed and with its newline; NULL with errno. */
static char *seal(const json_t *record, size_t *length)
{
    if (!json_is_object(record) || json_object_size(record) == 0 ||
        json_object_get(record, "crc32")) {
        errno = EINVAL;
        return NULL;
    }
    char *text = json_dumps(record, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (!text) {
        errno = ENOMEM;
        return NULL;
    }
    size_t summed = strlen(text) - 1; /* without the closing brace, which the seal brings */
    size_t room = summed + SEAL_LENGTH + 2;
    char *line = malloc(room);
    if (line) {
        text[summed] = '\0';
        snprintf(line, room, "%s" SEAL_HEAD "%08x" SEAL_TAIL "\n", text,
                 (unsigned)checksum(text, summed));
        *length = room - 1;
    }
    free(text);
    return line;
}

int attn_record_append(int fd, const json_t *record)
{
    size_t length = 0;
    char *line = seal(record, &length);
    if (!line)
        return -1;
    off_t before = lseek(fd, 0, SEEK_END);
    int status = write_all(fd, line, length);
    if (status == 0)
        status = fsync(fd);
    if (status != 0 && before >= 0) {
        /* A full disk must not leave half a line in front of the next record. */
        int saved = errno;
        if (ftruncate(fd, before) != 0)
            saved = errno;
        errno = saved;
    }
    free(line);
    return status;
}

/* A file's bytes; NULL with the reason. An empty file gives a buffer of length 0. */
static char *slurp(int fd, const char *path, size_t *length, char *why, size_t size)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return NULL;
    }
    if (!S_ISREG(info.st_mode) || (unsigned long long)info.st_size > FILE_LIMIT) {
        snprintf(why, size, "%s: not a results file (no regular file, or over 4 GiB)", path);
        return NULL;
    }
    char *text = malloc((size_t)info.st_size + 1);
    if (!text) {
        snprintf(why, size, "%s: no memory to read it", path);
        return NULL;
    }
    size_t have = 0;
    while (have < (size_t)info.st_size) {
        ssize_t n = pread(fd, text + have, (size_t)info.st_size - have, (off_t)have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            snprintf(why, size, "%s: %s", path, strerror(errno));
            free(text);
            return NULL;
        }
        if (n == 0)
            break;
        have += (size_t)n;
    }
    *length = have;
    return text;
}

/* One line without its newline, checked and parsed; NULL with what is wrong with it. */
static json_t *unseal(const char *line, size_t length, const char **wrong)
{
    *wrong = "has no crc32 at its end";
    if (length <= SEAL_LENGTH)
        return NULL;
    size_t summed = length - SEAL_LENGTH;
    const char *digits = line + summed + sizeof SEAL_HEAD - 1;
    if (memcmp(line + summed, SEAL_HEAD, sizeof SEAL_HEAD - 1) != 0 ||
        memcmp(digits + SEAL_DIGITS, SEAL_TAIL, sizeof SEAL_TAIL - 1) != 0)
        return NULL;

    *wrong = "does not match its crc32";
    char expected[SEAL_DIGITS + 1];
    snprintf(expected, sizeof expected, "%08x", (unsigned)checksum(line, summed));
    if (memcmp(digits, expected, SEAL_DIGITS) != 0)
        return NULL;

    *wrong = "is not a JSON object";
    json_t *record = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(record)) {
        json_decref(record);
        return NULL;
    }
    json_object_del(record, "crc32");
    return record;
}

json_t *attn_record_read(const char *path, int *torn, char *why, size_t size)
{
    json_t *records = NULL;
    char *text = NULL;
    size_t length = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return NULL;
    }
    text = slurp(fd, path, &length, why, size);
    if (!text)
        goto out;
    records = json_array();
    const char *line = text, *end = text + length;
    int tail = 0;
    for (size_t number = 1; line < end; number++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) {
            tail = 1; /* the newline is written last: without it the line was cut short */
            break;
        }
        const char *wrong;
        json_t *record = unseal(line, (size_t)(stop - line), &wrong);
        if (!record || json_array_append_new(records, record) != 0) {
            snprintf(why, size, "%s: line %zu %s", path, number,
                     record ? "found no memory" : wrong);
            json_decref(records);
            records = NULL;
            goto out;
        }
        line = stop + 1;
    }
    if (torn)
        *torn = tail;
out:
    free(text);
    close(fd);
    return records;
}

int attn_record_open(const char *path, int *fd, char *why, size_t size)
{
    int file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return -1;
    }
    size_t length = 0;
    char *text = slurp(file, path, &length, why, size);
    if (!text)
        goto fail;
    const char *last = length > 0 ? memrchr(text, '\n', length) : NULL;
    size_t keep = last ? (size_t)(last - text) + 1 : 0;
    free(text);
    if (keep < length && ftruncate(file, (off_t)keep) != 0) {
        snprintf(why, size, "%s: cannot cut its torn last line: %s", path, strerror(errno));
        goto fail;
    }
    *fd = file;
    return 0;
fail:
    close(file);
    return -1;
}

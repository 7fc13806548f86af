/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c - any bytes as a file of cases: accepted, or refused with a reason. An accepted case is
 * the same when its canonical form is read again. */
#include <string.h>
#include <unistd.h>

#include "case/case.h"
#include "fuzz.h"

/* Of the cases that a line multiplies out to: alike, as far as this test goes. */
enum { CASES_CHECKED = 8 };

static void check_canonical(const struct attn_case *c)
{
    char line[ATTN_CASE_LINE_MAX], why[512] = "";
    char id[ATTN_CASE_ID_LEN + 1], other[ATTN_CASE_ID_LEN + 1];
    struct attn_case_list again = {0};
    const size_t length = attn_case_canonical(c, line, sizeof line);
    if (length >= sizeof line)
        return;
    fuzz_expect(attn_case_parse_line(line, length, NULL, 0, &again, why, sizeof why) == 0, why);
    fuzz_expect(again.count == 1, line);
    attn_case_id(c, id);
    attn_case_id(&again.items[0], other);
    fuzz_expect(strcmp(id, other) == 0, line);
    attn_case_list_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32], why[512] = "";
    struct attn_case_list list = {0};
    const int fd = fuzz_file(data, size, path);
    if (attn_case_parse_file(path, &list, why, sizeof why) != 0)
        fuzz_expect(*why != '\0', "refused without a reason");
    for (size_t i = 0; i < list.count && i < CASES_CHECKED; i++)
        if (!list.items[i].data)
            check_canonical(&list.items[i]);
    attn_case_list_free(&list);
    close(fd);
    return 0;
}

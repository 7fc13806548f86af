/* SPDX-License-Identifier: Apache-2.0 */
/* import.c - any bytes as the JSON of Google Benchmark: the records of a run that can be exported
 * again, or refused with a reason. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"
#include "report/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[512] = "", *text = NULL;
    struct attn_run_data run = {.path = "fuzz"};
    size_t length;
    bool nothing;
    if (attn_import_parse((const char *)data, size, NULL, &run.records, &run.machine, why,
                          sizeof why) != 0) {
        fuzz_expect(*why != '\0', "refused without a reason");
        return 0;
    }
    FILE *out = open_memstream(&text, &length);
    const int status = attn_export_put(out, &run, "google-benchmark", &nothing, why, sizeof why);
    fclose(out);
    fuzz_expect(status == 0 || nothing, "what was imported cannot be exported");
    free(text);
    attn_run_release(&run);
    return 0;
}

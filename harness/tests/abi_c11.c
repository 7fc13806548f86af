/* SPDX-License-Identifier: Apache-2.0 */
/* abi_c11.c - the ABI header alone, as strict C11. */
#include "attnbench/backend.h"

uint32_t attn_test_abi_c11(void);

uint32_t attn_test_abi_c11(void)
{
    return (uint32_t)(sizeof(struct attn_plugin) + sizeof(struct attn_backend) +
                      sizeof(struct attn_problem) + sizeof(struct attn_tensor));
}

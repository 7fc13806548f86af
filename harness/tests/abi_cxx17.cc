/* SPDX-License-Identifier: Apache-2.0 */
/* abi_cxx17.cc - the ABI header alone, as strict C++17: the same layout. */
#include "attnbench/backend.h"

extern "C" uint32_t attn_test_abi_cxx17();

extern "C" uint32_t attn_test_abi_cxx17()
{
    return static_cast<uint32_t>(sizeof(struct attn_plugin) + sizeof(attn_backend) +
                                 sizeof(attn_problem) + sizeof(attn_tensor));
}

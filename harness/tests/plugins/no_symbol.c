/* SPDX-License-Identifier: Apache-2.0 */
/* no_symbol.c - a shared object that is not a plugin. */
int attn_test_nothing(void);

int attn_test_nothing(void)
{
    return 0;
}

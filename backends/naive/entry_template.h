/* SPDX-License-Identifier: Apache-2.0 */
/* entry_template.h - the two functions of an instance, by operator. Include it last. */

size_t NAME(attn_naive_bytes)(const struct attn_problem *problem)
{
    struct NAME(buffers) buffers;
    struct NAME(wkv) wkv;
    struct NAME(decaying) decaying;
    struct NAME(performer) performer;
    struct NAME(chunked) chunked;
    struct NAME(linformer) linformer;
    struct NAME(nystrom) nystrom;
    struct NAME(hashed) hashed;
    struct NAME(backward) backward;
    switch (problem->op) {
    case ATTN_OP_CHUNKED:
        return lay_out_chunked(problem, NULL, &chunked);
    case ATTN_OP_ATTENTION_BACKWARD:
        return lay_out_backward(problem, NULL, &backward);
    case ATTN_OP_LSH:
        return lay_out_hashed(problem, NULL, &hashed);
    case ATTN_OP_WKV:
        return lay_out_wkv(problem, NULL, &wkv);
    case ATTN_OP_LINEAR_DECAY:
        return lay_out_decaying(problem, NULL, &decaying);
    case ATTN_OP_PERFORMER:
        return lay_out_performer(problem, NULL, &performer);
    case ATTN_OP_LINFORMER:
        return lay_out_linformer(problem, NULL, &linformer);
    case ATTN_OP_NYSTROM:
        return lay_out_nystrom(problem, NULL, &nystrom);
    default:
        return lay_out(problem, NULL, &buffers);
    }
}

static void run_attention(const struct attn_problem *problem, const struct attn_operands *operands,
                          const struct NAME(buffers) * buffers)
{
    struct NAME(context)
        context = {problem, operands, buffers, &operands->q, &operands->k, &operands->v};
    for (int64_t b = 0; b < problem->b; b++)
        for (int64_t h = 0; h < problem->hq; h++)
            attend(&context, b, h);
}

void NAME(attn_naive_run)(const struct attn_problem *problem, const struct attn_operands *operands,
                          void *workspace)
{
    struct NAME(buffers) buffers;
    struct NAME(wkv) wkv;
    struct NAME(decaying) decaying;
    struct NAME(performer) performer;
    struct NAME(chunked) chunked;
    struct NAME(linformer) linformer;
    struct NAME(nystrom) nystrom;
    struct NAME(hashed) hashed;
    struct NAME(backward) backward;
    switch (problem->op) {
    case ATTN_OP_CHUNKED:
        lay_out_chunked(problem, workspace, &chunked);
        run_chunked(problem, operands, &chunked);
        break;
    case ATTN_OP_ATTENTION_BACKWARD:
        lay_out_backward(problem, workspace, &backward);
        run_backward(problem, operands, &backward);
        break;
    case ATTN_OP_LSH:
        lay_out_hashed(problem, workspace, &hashed);
        run_hashed(problem, operands, &hashed);
        break;
    case ATTN_OP_WKV:
        lay_out_wkv(problem, workspace, &wkv);
        run_wkv(problem, operands, &wkv);
        break;
    case ATTN_OP_LINEAR_DECAY:
        lay_out_decaying(problem, workspace, &decaying);
        run_decaying(problem, operands, &decaying);
        break;
    case ATTN_OP_PERFORMER:
        lay_out_performer(problem, workspace, &performer);
        run_performer(problem, operands, &performer);
        break;
    case ATTN_OP_LINFORMER:
        lay_out_linformer(problem, workspace, &linformer);
        run_linformer(problem, operands, &linformer);
        break;
    case ATTN_OP_NYSTROM:
        lay_out_nystrom(problem, workspace, &nystrom);
        run_nystrom(problem, operands, &nystrom);
        break;
    case ATTN_OP_MHA:
        lay_out(problem, workspace, &buffers);
        run_mha(problem, operands, &buffers);
        break;
    default:
        lay_out(problem, workspace, &buffers);
        run_attention(problem, operands, &buffers);
    }
}

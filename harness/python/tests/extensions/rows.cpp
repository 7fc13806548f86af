// SPDX-License-Identifier: Apache-2.0
// rows.cpp - an extension of PyTorch: plain attention over rows, and mistakes that authors make.
#include <torch/extension.h>

#include <cmath>
#include <vector>

enum Bug { NONE, LATE, TAIL, PAST, UNSHIFTED };

torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, double scale, bool causal,
                        int64_t bug)
{
    auto out = torch::zeros({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
    auto Q = q.accessor<float, 4>(), K = k.accessor<float, 4>(), V = v.accessor<float, 4>();
    auto O = out.accessor<float, 4>();
    const int64_t group = q.size(1) / k.size(1), keys = k.size(2), width = q.size(3);
    std::vector<float> s(keys);
    for (int64_t b = 0; b < q.size(0); b++)
        for (int64_t h = 0; h < q.size(1); h++)
            for (int64_t i = 0; i < q.size(2); i++) {
                int64_t n = causal ? std::min(keys, i + (bug == LATE ? 2 : 1)) : keys;
                if (bug == TAIL && n > 16)
                    n -= n % 16; // the last tile, where it is not full
                float top = -INFINITY, sum = 0;
                for (int64_t j = 0; j < n; j++) {
                    const float *key = &K[b][h / group][j][0];
                    float score = 0;
                    for (int64_t d = 0; d < (bug == PAST ? (width + 7) / 8 * 8 : width); d++)
                        score += (d < width ? Q[b][h][i][d] : 0) * key[d * k.stride(3)];
                    s[j] = score * (float)scale;
                    top = std::max(top, s[j]);
                }
                for (int64_t j = 0; j < n; j++)
                    sum += s[j] = std::exp(s[j] - (bug == UNSHIFTED ? 0 : top));
                for (int64_t j = 0; j < n; j++)
                    for (int64_t d = 0; d < v.size(3); d++)
                        O[b][h][i][d] += s[j] / sum * V[b][h / group][j][d];
            }
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("attention", &attention);
}

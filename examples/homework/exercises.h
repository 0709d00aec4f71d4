// Exercises of two courses on the Transformer (EECS 498 of the University of Michigan; Fudan University's laboratory
// 3): functions to write in exercises.cpp, from tokens to a decoder block. Build `homework` and run it after each.
//
//   cmake --preset release && cmake --build build/release --target homework && build/release/bin/homework
//
// All that is needed is in autograd/ops.h: matmul, transpose, softmax, where, concat, slice, mean, sqrt, relu ... Use
// neither attention() nor layer_norm(), which are the answers. solutions.cpp has one way to write each.
#pragma once

#include <seppo/autograd/ops.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace homework {

using seppo::Tensor;

struct NotWritten : std::logic_error {
  NotWritten() : std::logic_error("not written yet") {}
};

using Ids = std::map<std::string, int>;

// A linear map's weight [outputs, inputs] and bias [outputs]: linear(x, map.weight, map.bias).
struct LinearWeights {
  Tensor weight, bias;
};
// The projections of one head.
struct HeadWeights {
  LinearWeights q, k, v;
};
struct NormWeights {
  Tensor gain, bias;  // [d]
};
struct FeedForwardWeights {
  LinearWeights up, down;
};
struct HeadsWeights {
  std::vector<HeadWeights> heads;
  LinearWeights output;
};

// 1. The tokens numbered from 0, in this order.
Ids token_ids(const std::vector<std::string>& tokens);

// 2. The ids of a text such as "BOS POSITIVE 04 EOS": words have blanks between them, and of a number each digit is a
// token.
std::vector<int> ids_of(const std::string& text, const Ids& ids);

// 3. softmax(Q K^T / sqrt(d)) V of one sequence, q, k, v [n, d], with two loops over pairs of positions. Rows are
// slice(x, 0, i, i + 1); stack or concat puts numbers and rows together.
Tensor attention_by_loops(const Tensor& q, const Tensor& k, const Tensor& v);

// 4. The same of a batch [sequences, n, d], by products. `allowed` is [n, n], or undefined: where it is 0, the weight
// is 0.
Tensor attention_by_products(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& allowed = {});

// 5. [n, n]: 1 where a position may attend another, itself and those before it; else 0.
Tensor causal_mask(int n);

// 6. Attention of the projections of x [sequences, n, d].
Tensor self_attention(const Tensor& x, const HeadWeights& head, const Tensor& allowed = {});

// 7. Queries from x, keys and values from memory: the results of all heads side by side, then the output's map.
Tensor multi_head_attention(const Tensor& x, const Tensor& memory, const HeadsWeights& heads,
                            const Tensor& allowed = {});

// 8. Each row with mean 0 and variance 1, times the gain, plus the bias; eps is added to the variance, which divides by
// d, not by d - 1.
Tensor layer_norm(const Tensor& x, const NormWeights& norm, double eps = 1e-10);

// 9. relu of the first map, then the second.
Tensor feed_forward(const Tensor& x, const FeedForwardWeights& ffn);

// 10. y = norm_1(x + attention), norm_2(y + feed forward): the courses' order, without dropout.
struct EncoderWeights {
  HeadsWeights attention;
  FeedForwardWeights ffn;
  NormWeights norm_1, norm_2;
};
Tensor encoder_block(const Tensor& x, const EncoderWeights& block);

// 11. Masked self-attention, attention to the memory, feed forward, each added and normalised.
struct DecoderWeights {
  HeadsWeights self_attention, cross_attention;
  FeedForwardWeights ffn;
  NormWeights norm_1, norm_2, norm_3;
};
Tensor decoder_block(const Tensor& x, const Tensor& memory, const DecoderWeights& block);

// 12. n / length in every column. [length, d]
Tensor simple_positions(int length, int d);

// 13. sin(n / 10000^(2i/d)) in column 2i, the cosine of the same angle in column 2i + 1. [length, d], d even
Tensor sinusoids(int length, int d);

}  // namespace homework

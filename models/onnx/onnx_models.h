// Whole models as ONNX graphs (nn/io/onnx.h), for evaluation: batch and lengths are free.
//
//   onnx_graph(model).write("model.onnx");
//
// Of a Transformer, the inputs are src [batch, src_length] and tgt [batch, tgt_length], ids of tokens, and src_lengths
// [batch], at least 1 each: how many tokens of a row of src are its own, the others being of any value. The output
// logits [batch, tgt_length, tgt_vocabulary] is that of Transformer::logits(): as no position sees a later one, what
// follows in a row of tgt has no influence. Of a LanguageModel, they are tokens [batch, length] and logits [batch,
// length, vocabulary].
//
// A text is written token by token, by calling the graph with what is written so far; there is no cache of keys and
// values. Other models are made of the parts in onnx_modules.h.
#pragma once

#include "../../nn/io/onnx.h"
#include "../language_model.h"
#include "../transformer.h"

namespace seppo {
inline namespace SEPPO_ABI {

// The model must live, and keep its weights, until the graph is written.
OnnxGraph onnx_graph(const Transformer& model);
OnnxGraph onnx_graph(const LanguageModel& model);

}  // namespace SEPPO_ABI
}  // namespace seppo

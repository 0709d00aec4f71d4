// llama.cpp's names, stacks, and order of rows.
#include "gguf_tensors.h"

#include "../../nn/io/foreign_weights.h"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

// The number behind `before` in a name.
int number_behind(const std::string& name, const std::string& before) {
  int number = 0;
  const std::size_t at = name.find(before) + before.size();
  std::from_chars(name.data() + at, name.data() + name.size(), number);
  return number;
}

// The place in the file of a row of heads that are stored in pairs.
std::size_t row_in_file(std::size_t row, std::size_t width) {
  const std::size_t in_head = row % width;
  return row - in_head + in_head % (width / 2) * 2 + in_head / (width / 2);
}

std::span<const real> row_of(std::span<const real> rows, std::size_t row, std::size_t columns) {
  return rows.subspan(row * columns, columns);
}

}  // namespace

GgufTensors::GgufTensors(const GgufArchitecture& architecture, const LanguageModelConfig& model, bool is_qkv_stacked)
    : architecture_(architecture), model_(model), rename_(renaming(gguf_names(architecture, model, is_qkv_stacked))) {}

std::vector<GgufPart> GgufTensors::parts(const Parameters::Entry& entry) const {
  const std::vector<std::string> names = rename_(entry.name);
  const std::vector<int> share = shares(names.size());
  const int all = std::accumulate(share.begin(), share.end(), 0);
  std::vector<GgufPart> parts;
  for (std::size_t i = 0; i < names.size(); ++i) {
    GgufPart part{.tensor = names[i], .shape = entry.shape.with(0, entry.shape[0] / all * share[i])};
    part.whole.assign(part.shape.sizes().begin(), part.shape.sizes().end());
    part.heads = heads_in_pairs(part.tensor);
    part.is_offset = model_.decoder.norm_is_offset && part.tensor.find("norm") != std::string::npos;
    place_in_stack(part, entry.name);
    parts.push_back(part);
  }
  return parts;
}

// Queries, keys and values share the rows of a stack as they share heads.
std::vector<int> GgufTensors::shares(std::size_t tensors) const {
  if (tensors == 1) return {1};
  const int keys = model_.layer.kv_heads();
  return {model_.layer.n_heads, keys, keys};
}

int GgufTensors::heads_in_pairs(const std::string& tensor) const {
  if (!architecture_.has_pairs) return 0;
  if (tensor.find(".attn_q.") != std::string::npos) return model_.layer.n_heads;
  if (tensor.find(".attn_k.") != std::string::npos) return model_.layer.kv_heads();
  return 0;
}

// Experts, and the gate of Phi-3, share a tensor.
void GgufTensors::place_in_stack(GgufPart& part, const std::string& parameter) const {
  int index = 0;
  if (part.tensor.find("_exps.") != std::string::npos) {
    part.whole.insert(part.whole.begin(), model_.decoder.experts);
    index = number_behind(parameter, ".experts.");
  } else if (architecture_.family == Architecture::phi3 && part.tensor.find(".ffn_up.") != std::string::npos) {
    part.whole[0] *= 2;
    index = parameter.find(".up.") != std::string::npos ? 1 : 0;
  }
  part.first = static_cast<std::size_t>(index) * static_cast<std::size_t>(part.shape.numel());
}

void separate_pairs(std::span<real> rows, int heads, std::size_t columns) {
  const std::vector<real> pairs(rows.begin(), rows.end());
  const std::size_t count = rows.size() / columns;
  const std::size_t width = count / static_cast<std::size_t>(heads);
  for (std::size_t row = 0; row < count; ++row)
    std::ranges::copy(row_of(pairs, row_in_file(row, width), columns), rows.subspan(row * columns).begin());
}

void interleave_pairs(std::span<const real> rows, int heads, std::size_t columns, std::span<real> pairs) {
  const std::size_t count = rows.size() / columns;
  const std::size_t width = count / static_cast<std::size_t>(heads);
  for (std::size_t row = 0; row < count; ++row)
    std::ranges::copy(row_of(rows, row, columns), pairs.subspan(row_in_file(row, width) * columns).begin());
}

}  // namespace SEPPO_ABI
}  // namespace seppo

// Which numbers of which tensors in a GGUF file a parameter is made of, and in what order.
#pragma once

#include "architectures.h"

#include "../../autograd/core/shape.h"
#include "../../nn/parameters.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// A tensor, or the part of it that belongs to a parameter.
struct GgufPart {
  std::string tensor;
  Shape shape;                           // of the part, which has consecutive rows of the parameter
  std::vector<std::int64_t> whole = {};  // the shape of the tensor
  std::size_t first = 0;                 // the part's first number in the tensor
  int heads = 0;                         // whose rows are reordered, or 0
  bool is_offset = false;                // the file has 1 + weight
};

class GgufTensors {
 public:
  GgufTensors(const GgufArchitecture& architecture, const LanguageModelConfig& model, bool is_qkv_stacked);

  // Of one parameter, row after row.
  std::vector<GgufPart> parts(const Parameters::Entry& entry) const;

 private:
  std::vector<int> shares(std::size_t tensors) const;
  int heads_in_pairs(const std::string& tensor) const;
  void place_in_stack(GgufPart& part, const std::string& parameter) const;

  const GgufArchitecture& architecture_;
  LanguageModelConfig model_;
  std::function<std::vector<std::string>(const std::string&)> rename_;
};

// Of a head, row 2 i + j in the file is row j width / 2 + i here: `rows` in the file's order are put into ours.
void separate_pairs(std::span<real> rows, int heads, std::size_t columns);
// The opposite.
void interleave_pairs(std::span<const real> rows, int heads, std::size_t columns, std::span<real> pairs);

}  // namespace SEPPO_ABI
}  // namespace seppo

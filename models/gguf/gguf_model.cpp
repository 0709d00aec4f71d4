// Tensors as parameters: put in order, one after another.
#include "gguf_model.h"

#include "gguf_tensors.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

// Fills the parameters from the file, tensor by tensor.
class Loader {
 public:
  Loader(const GgufFile& file, const HfConfig& config)
      : file_(file), tensors_(architecture_of(file), config.model, file.find("blk.0.attn_qkv.weight") != nullptr) {}

  void load(Parameters& parameters) {
    for (const Parameters::Entry& entry : parameters.entries()) {
      std::span<real> left(entry.tensor.data(), entry.size());
      for (const GgufPart& part : tensors_.parts(entry)) {
        const auto size = static_cast<std::size_t>(part.shape.numel());
        load(part, left.first(size));
        left = left.subspan(size);
      }
    }
    for (const GgufTensor& tensor : file_.tensors())
      check<FormatError>(taken_.contains(tensor.name) || tensor.name == kRopeFactors, file_.name(),
                         ": the model has no tensor ", printable(tensor.name));
    parameters.changed();
  }

 private:
  void load(const GgufPart& part, std::span<real> values) {
    const GgufTensor* const tensor = file_.find(part.tensor);
    check<FormatError>(tensor, file_.name(), ": has no tensor ", part.tensor);
    check<FormatError>(tensor->shape == part.whole, file_.name(), ": tensor ", part.tensor, " is ",
                       json(tensor->shape).dump(), ", ", json(part.whole).dump(), " in the model");
    file_.read(*tensor, values, part.first);
    taken_.insert(part.tensor);
    if (part.heads > 0) separate_pairs(values, part.heads, values.size() / static_cast<std::size_t>(part.shape[0]));
    if (!part.is_offset) return;
    for (real& value : values) value -= 1;
  }

  const GgufFile& file_;
  GgufTensors tensors_;
  std::set<std::string> taken_;
};

// What most of the weights are, if that is a type which is written.
WeightType type_of(const GgufFile& file) {
  std::map<std::string_view, std::uint64_t> bytes;
  for (const GgufTensor& tensor : file.tensors()) bytes[tensor.type] += tensor.bytes;
  if (2 * bytes["BF16"] > file.size()) return WeightType::bfloat16;
  if (2 * bytes["F16"] > file.size()) return WeightType::float16;
  return WeightType::own;
}

LanguageModel build(Parameters& parameters, const HfConfig& config, const GgufFile& file) {
  const Parameters::Undrawn from_the_file(parameters);
  try {
    return LanguageModel(parameters.root(), config.model);
  } catch (const ArgumentError& e) {
    fail<FormatError>(file.name(), ": ", e.what());
  }
}

}  // namespace

bool is_gguf(const std::filesystem::path& path) { return path.extension() == ".gguf"; }

Pretrained load_gguf(const GgufFile& file, std::uint64_t seed) {
  const HfConfig config = gguf_config(file);
  auto parameters = std::make_unique<Parameters>(seed, 2 * file.size());  // two numbers a byte at most
  LanguageModel model = build(*parameters, config, file);
  Loader(file, config).load(*parameters);
  return {file.path(), config, std::move(parameters), std::move(model), {}, type_of(file)};
}

Pretrained load_gguf(const std::filesystem::path& path, std::uint64_t seed) { return load_gguf(GgufFile(path), seed); }

}  // namespace SEPPO_ABI
}  // namespace seppo

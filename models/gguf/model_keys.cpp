// Metadata by name, without the long lists of a tokenizer.
#include "architectures.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../nn/io/json.h"

#include <string_view>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

ModelKeys::ModelKeys(const GgufSource& file, std::string architecture)
    : file_(file), architecture_(std::move(architecture)), keys_(short_keys()) {}

ConfigKeys ModelKeys::short_keys() const {
  json kept = json::object();
  for (const auto& [key, value] : file_.metadata().items())
    if (!value.is_array() || is_of_architecture(key)) kept[key] = value;
  return {file_.name(), std::move(kept)};
}

std::string ModelKeys::key(const std::string& name) {
  std::string all = architecture_ + "." + name;
  read_.insert(all);
  return all;
}

bool ModelKeys::has(const std::string& name) { return keys_.has(key(name)); }

int ModelKeys::integer(const std::string& name, std::optional<int> fallback) {
  return keys_.integer(key(name), fallback);
}

double ModelKeys::number(const std::string& name, double fallback) { return keys_.number(key(name), fallback); }

double ModelKeys::required(const std::string& name) {
  check<FormatError>(has(name), file_.name(), ": '", key(name), "' is missing");
  return number(name, 0);
}

double ModelKeys::positive(const std::string& name, double fallback) {
  const double value = number(name, fallback);
  check<FormatError>(value > 0, file_.name(), ": '", key(name), "' is not positive");
  return value;
}

bool ModelKeys::flag(const std::string& name, bool fallback) { return keys_.flag(key(name), fallback); }

void ModelKeys::require(const std::string& name, const json& value) { keys_.one_of(key(name), json::array({value})); }

const json* ModelKeys::find(const std::string& name) { return keys_.find(key(name)); }

std::vector<int> ModelKeys::tokens(const std::string& name, int vocabulary) const {
  return keys_.tokens(name, vocabulary);
}

void ModelKeys::check_others() const {
  static const std::set<std::string_view> harmless{"tensor_data_layout", "pooling_type"};
  for (const auto& [key, value] : file_.metadata().items()) {
    if (!is_of_architecture(key) || read_.contains(key)) continue;
    if (harmless.contains(std::string_view(key).substr(architecture_.size() + 1))) continue;
    const bool is_off = value.is_null() || value == 0 || value == false;
    check<FormatError>(is_off, file_.name(), ": ", printable(key), ": ", printable_json(value), " is not supported");
  }
}

}  // namespace SEPPO_ABI
}  // namespace seppo

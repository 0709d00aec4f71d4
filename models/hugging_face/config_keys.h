// The keys of config.json, one at a time: checks the type of each, and notices keys that nobody asked for.
//
// Hugging Face's loaders ignore keys that a model does not know. Here such a key is an error unless it certainly makes
// no difference, because it may stand for something that a LanguageModel lacks, such as a window of attention.
#pragma once

#include "../../autograd/core/real.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// A document as Python writes it: Infinity, -Infinity and NaN, which are not JSON, are read as texts. Throws
// FormatError.
nlohmann::json parse_python_json(std::string_view text, std::string_view name);

// All throw FormatError, "NAME: 'key' ...".
class ConfigKeys {
 public:
  // `name` is the file's.
  ConfigKeys(std::string name, nlohmann::json all);

  const std::string& name() const { return name_; }
  bool has(const std::string& key) const;                    // and it is not null
  const nlohmann::json* find(const std::string& key) const;  // also null; a null pointer without the key

  // From 0 to 2^30. Without a fallback the key must be there.
  int integer(const std::string& key, std::optional<int> fallback = {}) const;
  double number(const std::string& key, double fallback) const;
  bool flag(const std::string& key, bool fallback) const;
  // One of these values; the first is the default.
  nlohmann::json one_of(const std::string& key, const nlohmann::json& values) const;
  // One token or several. -1, which stands for none, is left out, as is everything if the key is missing.
  std::vector<int> tokens(const std::string& key, int vocabulary) const;

  // Refuses each key that was not asked for, unless it has nothing to do with what a model computes, or its value means
  // that a feature is off.
  void check_others() const;

 private:
  const nlohmann::json& value_of(const std::string& key) const;

  std::string name_;
  nlohmann::json all_;
  mutable std::set<std::string> asked_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo

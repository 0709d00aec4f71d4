// The table of architectures: how llama.cpp's metadata and tensors describe the families of hugging_face/families. A
// new one is an entry in architectures.cpp, and a case of tests/oracle/gguf.
#pragma once

#include "../../nn/io/gguf.h"
#include "../../nn/io/gguf_builder.h"
#include "../hugging_face/config_keys.h"
#include "../hugging_face/hf_config.h"

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// A tensor with a factor for each wavelength of rotary positions, which gguf_config() reads.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";

// The metadata of an architecture, "llama.block_count" and so on, by the second part of their names; remembers which
// were asked for. All throw FormatError naming the file and the key.
class ModelKeys {
 public:
  ModelKeys(const GgufSource& file, std::string architecture);

  bool has(const std::string& name);
  int integer(const std::string& name, std::optional<int> fallback = {});
  double number(const std::string& name, double fallback);
  double required(const std::string& name);
  double positive(const std::string& name, double fallback);
  bool flag(const std::string& name, bool fallback);
  // The key, if it is there, has this value.
  void require(const std::string& name, const nlohmann::json& value);
  // Null without the key.
  const nlohmann::json* find(const std::string& name);
  // The tokens that a key of the tokenizer names.
  std::vector<int> tokens(const std::string& name, int vocabulary) const;

  bool has_tensor(const std::string& name) const { return file_.find(name) != nullptr; }
  const GgufSource& file() const { return file_; }

  // Refuses each key that was not asked for, unless it is harmless, or says that something is off.
  void check_others() const;

 private:
  bool is_of_architecture(const std::string& key) const { return key.starts_with(architecture_ + "."); }
  ConfigKeys short_keys() const;
  std::string key(const std::string& name);

  const GgufSource& file_;
  std::string architecture_;
  ConfigKeys keys_;
  std::set<std::string> read_;
};

// The metadata of an architecture that are written, by the second part of their names.
class NewKeys {
 public:
  NewKeys(GgufBuilder& file, std::string architecture) : file_(file), architecture_(std::move(architecture)) {}

  void add(const std::string& name, int value) { file_.add(key(name), static_cast<std::uint32_t>(value)); }
  void add(const std::string& name, double value) { file_.add(key(name), static_cast<float>(value)); }
  void add(const std::string& name, bool value) { file_.add(key(name), value); }
  void add(const std::string& name, const char* value) { file_.add(key(name), value); }
  // A number that without the key is 0.
  void add_unless_0(const std::string& name, double value) {
    if (value != 0) add(name, value);
  }

 private:
  std::string key(const std::string& name) const { return architecture_ + "." + name; }

  GgufBuilder& file_;
  std::string architecture_;
};

struct GgufArchitecture {
  std::string name;     // 'general.architecture'
  Architecture family;  // which says what all its models have in common
  // Reads and writes what only some architectures have.
  std::function<void(ModelKeys& keys, LanguageModelConfig& model)> read = nullptr;
  std::function<void(NewKeys& keys, const LanguageModelConfig& model)> write = nullptr;
  // Of the table for renaming(), what differs from that of gguf_names().
  std::function<std::string(const LanguageModelConfig& model)> names = nullptr;
  bool has_pairs = false;      // rows of queries and keys are reordered, so that adjacent columns are rotated
  bool is_partial = false;     // a share of a head's columns may be rotated
  bool is_stacked = false;     // queries, keys and values are one tensor in files that are written
  bool is_of_experts = false;  // models that have experts
  bool needs_head = false;     // llama.cpp asks for output.weight even where it is the embedding
  bool has_no_head = false;    // llama.cpp refuses output.weight: it is the embedding
  // What llama.cpp reads of some architectures only: the tensor kRopeFactors, and heads that are not d_model / n_heads
  // wide.
  bool has_rope_factors = false;
  bool has_head_width = false;
};

bool has_rotations(const LanguageModelConfig& model);
const char* key_of_eps(const LanguageModelConfig& model);

const std::vector<GgufArchitecture>& gguf_architectures();

// The table for renaming() from our names to those of a file; queries, keys and values may be one tensor.
std::string gguf_names(const GgufArchitecture& architecture, const LanguageModelConfig& model, bool is_qkv_stacked);

// Throws FormatError for one that is not in the table.
const GgufArchitecture& architecture_of(const GgufSource& file);

}  // namespace SEPPO_ABI
}  // namespace seppo

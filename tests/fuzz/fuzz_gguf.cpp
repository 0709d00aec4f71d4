// Models and tokenizers in GGUF files. The first byte chooses: any bytes as a file, or changes to the metadata of a
// valid one, to which all tensors are added that its config asks for. What is read can be computed with.
#include "fuzz/fuzz.h"
#include "support/gguf.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/guards.h>
#include <seppo/models/gguf/gguf_model.h>
#include <seppo/models/gguf/gguf_tensors.h>
#include <seppo/nn/text/gguf_tokenizer.h>

#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <vector>

namespace {

using fuzz::require;
using nlohmann::json;
using seppo::FormatError;
using test::GgufWriter;

constexpr std::size_t kMostValues = 1 << 14;

// Keys that begin with a point are the architecture's.
json valid_metadata() {
  return {{"general.architecture", "llama"},
          {".embedding_length", 8},
          {".feed_forward_length", 12},
          {".block_count", 2},
          {".context_length", 16},
          {".attention.head_count", 2},
          {".attention.head_count_kv", 2},
          {".attention.layer_norm_rms_epsilon", 1e-5},
          {".attention.layer_norm_epsilon", 1e-5},
          {"tokenizer.ggml.model", "gpt2"},
          {"tokenizer.ggml.pre", "gpt-2"},
          {"tokenizer.ggml.tokens", {"a", "b", "ab", "<s>"}},
          {"tokenizer.ggml.token_type", {1, 1, 1, 3}},
          {"tokenizer.ggml.scores", {0.0, -1.0, -2.0, 0.0}},
          {"tokenizer.ggml.merges", {"a b"}},
          {"tokenizer.ggml.bos_token_id", 3}};
}

void add_list(GgufWriter& file, const std::string& key, const json& list) {
  if (std::ranges::all_of(list, [](const json& one) { return one.is_string(); })) {
    file.add(key, list.get<std::vector<std::string>>());
  } else if (std::ranges::all_of(list, [](const json& one) { return one.is_number_integer(); })) {
    std::vector<std::int32_t> numbers;
    for (const json& one : list) numbers.push_back(static_cast<std::int32_t>(one.get<std::int64_t>()));
    file.add(key, numbers);
  } else if (std::ranges::all_of(list, [](const json& one) { return one.is_number(); })) {
    file.add(key, list.get<std::vector<float>>());
  }
}

void add(GgufWriter& file, const std::string& key, const json& value) {
  if (value.is_boolean()) file.add(key, value.get<bool>());
  if (value.is_number_integer()) file.add(key, static_cast<std::uint32_t>(value.get<std::int64_t>()));
  if (value.is_number_float()) file.add(key, value.get<float>());
  if (value.is_string()) file.add(key, value.get<std::string>());
  if (value.is_array()) add_list(file, key, value);
}

GgufWriter with_metadata(const json& metadata) {
  GgufWriter file;
  const json architecture = metadata.value("general.architecture", json());
  const std::string prefix = architecture.is_string() ? architecture.get<std::string>() : "";
  for (const auto& [key, value] : metadata.items()) add(file, key.starts_with('.') ? prefix + key : key, value);
  return file;
}

void add_tensor(GgufWriter& file, const std::string& name, const std::vector<std::int64_t>& shape) {
  std::vector<std::uint64_t> sizes(shape.rbegin(), shape.rend());
  std::size_t count = 1;
  for (const std::uint64_t size : sizes) count *= size;
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 7) / 8 - 0.25F);
  file.floats(name, sizes, values);
}

// All tensors of the model that a config describes; nothing if it has too many values.
bool add_tensors(GgufWriter& file, const seppo::GgufFile& metadata, const seppo::HfConfig& config) {
  seppo::Parameters parameters(0, kMostValues);
  const bool is_refused =
      fuzz::refuses<seppo::ArgumentError>([&] { const seppo::LanguageModel model(parameters.root(), config.model); });
  if (is_refused) return false;
  const seppo::GgufTensors tensors(seppo::architecture_of(metadata), config.model, /*is_qkv_stacked=*/false);
  for (const auto& entry : parameters.entries())
    for (const seppo::GgufPart& part : tensors.parts(entry)) {
      const bool is_first = part.first == 0;
      if (is_first && part.tensor != "token_embd.weight") add_tensor(file, part.tensor, part.whole);
    }
  return true;
}

void compute(const seppo::Pretrained& read) {
  const seppo::Inference guard;
  seppo::Ragged text;
  text.add({0, 1});
  if (read.config.model.vocabulary > 1) read.model(text);
}

fuzz::MemoryFile& memory_file() {
  static fuzz::MemoryFile file;
  return file;
}

// Null if the bytes are refused.
std::unique_ptr<seppo::GgufFile> open(std::string_view bytes) {
  std::unique_ptr<seppo::GgufFile> file;
  const std::filesystem::path& path = memory_file().hold(bytes);
  fuzz::refuses<FormatError>([&] { file = std::make_unique<seppo::GgufFile>(path); });
  return file;
}

void check_tokenizer(const seppo::GgufFile& file) {
  std::optional<seppo::Tokenizer> made;
  if (fuzz::refuses<FormatError>([&] { made = seppo::read_gguf_tokenizer(file); })) return;
  fuzz::refuses<FormatError>([&] { made->encode("ab a\xc3\xa4"); });
}

void check_bytes(std::string_view bytes) {
  const auto file = open(bytes);
  if (!file) return;
  check_tokenizer(*file);
  std::optional<seppo::HfConfig> config;
  if (fuzz::refuses<FormatError>([&] { config = seppo::gguf_config(*file); })) return;
  fuzz::refuses<FormatError>([&] { compute(seppo::load_gguf(*file)); });
}

void check_changes(std::string_view text) {
  const json changes = json::parse(text, nullptr, false);
  if (changes.is_discarded() || !changes.is_object()) return;
  json metadata = valid_metadata();
  metadata.merge_patch(changes);
  GgufWriter writer = with_metadata(metadata);
  add_tensor(writer, "token_embd.weight", {4, 8});
  const auto head = open(writer.file());
  if (!head) return;
  check_tokenizer(*head);
  std::optional<seppo::HfConfig> config;
  if (fuzz::refuses<FormatError>([&] { config = seppo::gguf_config(*head); })) return;
  if (config->model.layer.d_model != 8 || !add_tensors(writer, *head, *config)) return;
  const auto whole = open(writer.file());
  require(whole != nullptr, "a file with all tensors is refused");
  // A tensor more, such as an output layer, may make it another model.
  fuzz::refuses<FormatError>([&] { compute(seppo::load_gguf(*whole)); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.empty()) return 0;
  if (input[0] % 2 == 0) {
    check_bytes(input.substr(1));
  } else {
    check_changes(input.substr(1));
  }
  return 0;
}

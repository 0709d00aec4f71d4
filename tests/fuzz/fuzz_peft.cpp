// Adapters in the format of the package peft, and weights of any type beside a model: changes to a valid config, to the
// shapes of the tensors, or any bytes as weights. What is accepted can be merged and written, and is then read again.
#include "fuzz/fuzz.h"

#include <seppo/autograd/core/check.h>
#include <seppo/models/hugging_face/peft.h>
#include <seppo/models/hugging_face/pretrained.h>
#include <seppo/nn/io/text_file.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace {

namespace fs = std::filesystem;
using fuzz::require;
using nlohmann::json;
using seppo::FormatError;

constexpr int kWidth = 8;

struct Folder {
  fs::path path = fs::path(fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path()) /
                  ("fuzz_peft-" + std::to_string(::getpid()));

  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

struct Small {
  seppo::HfConfig config = [] {
    seppo::HfConfig made;
    seppo::set_architecture(made.architecture, made.model);
    made.model.vocabulary = 5;
    made.model.layer.d_model = kWidth;
    made.model.layer.n_heads = 2;
    made.model.layer.n_kv_heads = 1;
    made.model.layer.d_ff = 6;
    made.model.layer.dropout = made.model.layer.attention_dropout = 0;
    made.model.n_layers = 1;
    made.model.max_length = 8;
    return made;
  }();
  seppo::Parameters parameters{1};
  seppo::LanguageModel model{parameters.root(), config.model};
};

// "name": [type, rows, columns]; each becomes a tensor of that type and shape.
json valid_tensors() {
  const std::string attention = "base_model.model.model.layers.0.self_attn.";
  const std::string network = "base_model.model.model.layers.0.mlp.";
  return {{attention + "q_proj.lora_A.weight", {"F32", 2, kWidth}},
          {attention + "q_proj.lora_B.weight", {"F32", 8, 2}},
          {network + "up_proj.lora_A.weight", {"F32", 2, kWidth}},
          {network + "up_proj.lora_B.weight", {"F32", 6, 2}}};
}

json valid_config() {
  return {
      {"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 4}, {"target_modules", {"q_proj", "up_proj"}}, {"bias", "none"}};
}

const std::map<std::string, std::size_t> kBytes{{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I8", 1}};

// The bytes of a file with these tensors; `pattern` fills them.
std::string weights_of(const json& tensors, std::string_view pattern) {
  json header = json::object();
  std::size_t end = 0;
  for (const auto& [name, tensor] : tensors.items()) {
    const bool is_list = tensor.is_array() && !tensor.empty() && tensor[0].is_string();
    const auto type = is_list ? kBytes.find(tensor[0].get<std::string>()) : kBytes.end();
    if (type == kBytes.end()) continue;
    std::size_t bytes = type->second;
    json shape = json::array();
    for (std::size_t i = 1; i < tensor.size(); ++i) {
      const bool is_size = tensor[i].is_number_unsigned() && tensor[i].get<std::size_t>() <= 64;
      shape.push_back(is_size ? tensor[i].get<std::size_t>() : 1);
      bytes *= shape.back().get<std::size_t>();
    }
    if (bytes > 1 << 14) continue;
    header[name] = {{"dtype", type->first}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  std::string file(sizeof size, '\0');
  std::memcpy(file.data(), &size, sizeof size);
  file += text;
  for (std::size_t i = 0; i < end; ++i) file += pattern.empty() ? '\0' : pattern[i % pattern.size()];
  return file;
}

void check_folder(const fs::path& folder) {
  Small small;
  std::optional<seppo::Adapters> read;
  const auto read_it = [&] { read.emplace(seppo::read_peft(folder, small.config, small.parameters, small.model)); };
  if (fuzz::refuses<FormatError>(read_it)) return;
  const auto write = [&] { seppo::save_peft(folder, *read, small.config); };
  const bool is_written = !fuzz::refuses<seppo::NumericError, seppo::ArgumentError>(write);
  read->merge();
  if (!is_written) return;
  Small other;
  seppo::read_peft(folder, other.config, other.parameters, other.model).merge();
  const auto values = small.parameters.values();
  const bool is_finite = std::ranges::all_of(values, [](seppo::real x) { return std::isfinite(x); });
  for (const auto& entry : other.parameters.entries()) {
    if (!is_finite || entry.name.starts_with("lora.")) continue;
    const auto* const own = small.parameters.find(entry.name);
    for (std::size_t i = 0; i < entry.size(); ++i) {
      const double a{own->tensor.values()[i]};
      const double b{entry.tensor.values()[i]};
      require(std::abs(a - b) <= 1e-3 * (1 + std::abs(a)), "a merged weight changed", entry.name);
    }
  }
}

}  // namespace

// A JSON object of changes: "config", "tensors" and "bytes", a text whose bytes the tensors have.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const json changes = json::parse(std::string_view(reinterpret_cast<const char*>(data), size), nullptr, false);
  if (changes.is_discarded() || !changes.is_object()) return 0;
  json config = valid_config();
  config.merge_patch(changes.value("config", json::object()));
  json tensors = valid_tensors();
  tensors.merge_patch(changes.value("tensors", json::object()));
  const json bytes = changes.value("bytes", json(""));
  seppo::write_text(folder.path / "adapter_config.json", config.dump());
  seppo::write_text(folder.path / "adapter_model.safetensors",
                    weights_of(tensors, bytes.is_string() ? bytes.get<std::string>() : ""));
  check_folder(folder.path);
  return 0;
}

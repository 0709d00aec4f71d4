// Finds the files of a model, whose contents are parsed elsewhere.
#include "pretrained.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../nn/io/safetensors.h"
#include "../../nn/io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <regex>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

namespace fs = std::filesystem;

namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kGeneration = "generation_config.json";

// A tensor in its file.
struct Stored {
  Stored(const WeightFiles& weights, const std::string& name)
      : file(weights.files[weights.file_of.at(name)]),
        tensor(*std::ranges::find(file.tensors(), name, &TensorInfo::name)) {}

  SafeTensorsFile file;
  TensorInfo tensor;
};

// Compares two tensors some bytes at a time.
bool are_equal(const Stored& a, const Stored& b) {
  if (a.tensor.dtype != b.tensor.dtype || a.tensor.shape != b.tensor.shape) return false;
  std::vector<std::byte> of_a(std::min<std::uint64_t>(a.tensor.bytes(), std::uint64_t{1} << 20));
  std::vector<std::byte> of_b(of_a.size());
  for (std::uint64_t at = 0; at < a.tensor.bytes(); at += of_a.size()) {
    const std::size_t size = std::min<std::uint64_t>(of_a.size(), a.tensor.bytes() - at);
    a.file.read(a.tensor, at, std::span(of_a).first(size));
    b.file.read(b.tensor, at, std::span(of_b).first(size));
    if (!std::equal(of_a.begin(), of_a.begin() + static_cast<std::ptrdiff_t>(size), of_b.begin())) return false;
  }
  return true;
}

std::string name_in_file(const WeightOptions& names, const std::string& parameter) {
  return names.rename(parameter).front();
}

// Do the names of a file lack the prefix of the whole model's? The first GPT-2's do.
bool has_prefix(const WeightFiles& weights, const HfConfig& config) {
  const WeightOptions bare = weights_of(config, /*has_prefix=*/false);
  return !weights.has(name_in_file(bare, "embedding.weight")) && !weights.has(name_in_file(bare, "layers.norm.weight"));
}

// Does a file have an output layer that is not the embedding? A copy of the embedding may be there as well.
bool has_other_output(const WeightFiles& weights, const WeightOptions& names) {
  const std::string output = name_in_file(names, "output.weight");
  const std::string embedding = name_in_file(names, "embedding.weight");
  if (!weights.has(output) || !weights.has(embedding)) return false;
  return !are_equal({weights, output}, {weights, embedding});
}

// Of a weight that two layers share some files keep the output layer's name only.
void find_embedding(WeightOptions& names, const WeightFiles& weights) {
  const std::string output = name_in_file(names, "output.weight");
  if (weights.has(name_in_file(names, "embedding.weight")) || !weights.has(output)) return;
  names.rename = [rename = names.rename, output](const std::string& name) {
    return name == "embedding.weight" ? std::vector{output} : rename(name);
  };
  names.skip = [skip = names.skip, output](const std::string& name) { return name != output && skip && skip(name); };
}

// The model, whose weights are to be loaded.
LanguageModel build(Parameters& parameters, const HfConfig& config, const fs::path& folder) {
  const Parameters::Undrawn from_the_file(parameters);
  try {
    return LanguageModel(parameters.root(), config.model);
  } catch (const ArgumentError& e) {
    fail<FormatError>(printable_path(folder), ": ", e.what());
  }
}

// What most of the weights are.
WeightType type_of(const WeightFiles& weights) {
  const auto bytes_of = [&](const char* dtype) {
    const auto found = weights.bytes_of.find(dtype);
    return found == weights.bytes_of.end() ? 0 : found->second;
  };
  if (2 * bytes_of("BF16") > weights.bytes) return WeightType::bfloat16;
  if (2 * bytes_of("F16") > weights.bytes) return WeightType::float16;
  return WeightType::own;
}

bool is_weight_file(const std::string& name) {
  static const std::regex pattern(R"(model(-\d+-of-\d+)?\.safetensors(\.index\.json)?)");
  return std::regex_match(name, pattern);
}

}  // namespace

ModelFolder open_model_folder(const fs::path& given) {
  const fs::path path = fs::exists(given / "hf" / kConfig) ? given / "hf" : given;
  check<ArgumentError>(fs::exists(path / kConfig), "there is no '", printable_path(path), "/", kConfig, "'");
  WeightFiles weights = find_weights(path);
  HfConfig config = read_hf_config(path / kConfig);
  GenerationConfig generation = read_generation_config(path / kGeneration, config.model.vocabulary);
  if (generation.stops) config.stops = *generation.stops;  // Hugging Face's loaders take them from there
  const bool is_prefixed = has_prefix(weights, config);
  if (config.model.tie_output && has_other_output(weights, weights_of(config, is_prefixed)))
    config.model.tie_output = false;
  WeightOptions names = weights_of(config, is_prefixed);
  if (config.model.tie_output) find_embedding(names, weights);
  const WeightType type = type_of(weights);
  return {path, std::move(config), std::move(weights), std::move(names), std::move(generation), type};
}

Pretrained load_pretrained(const ModelFolder& folder, std::uint64_t seed) {
  // Values take at least two bytes each, so the size of the files bounds their number.
  auto parameters = std::make_unique<Parameters>(seed, folder.weights.bytes);
  LanguageModel model = build(*parameters, folder.config, folder.path);
  WeightOptions options = folder.names;
  options.after_failure = AfterFailure::undefined;  // no one sees the parameters then
  load_weights(folder.weights, *parameters, options);
  return {folder.path, folder.config, std::move(parameters), std::move(model), folder.generation, folder.type};
}

Pretrained load_pretrained(const fs::path& folder, std::uint64_t seed) {
  return load_pretrained(open_model_folder(folder), seed);
}

void save_pretrained(const fs::path& folder, const HfConfig& config, const Parameters& parameters,
                     const ValuesOf& values, WeightType type) {
  const fs::path generation = folder / kGeneration;
  if (!fs::exists(generation)) write_text(generation, text_tokens(config).dump(2) + "\n");
  WeightOptions options = weights_of(config);
  options.values = values;
  options.type = type;
  save_weights(folder / "model.safetensors", parameters, options);
  nlohmann::json all = to_json(config);
  all["torch_dtype"] = torch_name(type);
  write_text(folder / kConfig, all.dump(2) + "\n");
}

bool is_model_file(const std::string& name) { return name == kConfig || name == kGeneration || is_weight_file(name); }

bool has_model(const fs::path& folder) {
  std::error_code error;  // there may be no such folder
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name == kConfig || is_weight_file(name)) return true;
  }
  return false;
}

}  // namespace SEPPO_ABI
}  // namespace seppo

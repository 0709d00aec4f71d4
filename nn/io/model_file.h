// Model files: a model's parameters and configuration in one safetensors file, from which it can be rebuilt.
//
//   save_model("model.safetensors", parameters, model, {{"program", "addsub"}});
//   const SavedModel<Transformer> saved = load_model<Transformer>("model.safetensors");
//   saved.model.logits(src, tgt);
//
// Model is any struct with a type Config (config.h), a constructor Model(const Scope&, const Config&) and a member
// `config`. The metadata of the file holds {"model": {...}, ...}: the fields of the config and whatever `extra` has.
#pragma once

#include "../config.h"
#include "checkpoint.h"
#include "json.h"

#include <filesystem>
#include <memory>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// A model's configuration as its file's metadata hold it.
constexpr const char* kConfigKey = "seppo.config";

namespace detail {
void save_model(const std::filesystem::path& file, const Parameters& parameters, const std::vector<Field>& config,
                const nlohmann::json& extra);
}  // namespace detail

// Throws as save_checkpoint does; ArgumentError if `extra` is not an object, has a key "model", or is nested deeper
// than what load_model reads (kMostNesting).
template <class Model>
void save_model(const std::filesystem::path& file, const Parameters& parameters, const Model& model,
                const nlohmann::json& extra = nlohmann::json::object()) {
  typename Model::Config config = model.config;
  detail::save_model(file, parameters, fields_of(config), extra);
}

// What save_model wrote beside the parameters. Throws FormatError for a file that holds no such object.
nlohmann::json read_model_config(const SafeTensorsFile& file);

template <class Model>
struct SavedModel {
  nlohmann::json config;
  std::unique_ptr<Parameters> parameters;
  Model model;
};

// Throws FileError if the file cannot be read; FormatError, naming the file and the key or parameter, if it is damaged
// or does not hold such a model.
template <class Model>
SavedModel<Model> load_model(const std::filesystem::path& path) {
  const SafeTensorsFile file(path);
  JsonTree config{read_model_config(file)};
  // A value takes at least 4 bytes of the file, and a parameter's header entry has more bytes than its padding has
  // values; so a small corrupt file cannot claim a huge model.
  auto parameters = std::make_unique<Parameters>(0, file.size());
  const auto build = [&] {
    const Parameters::Undrawn from_the_file(*parameters);
    try {
      return Model(parameters->root(), from_json_object<typename Model::Config>(config.value.at("model")));
    } catch (const Error& e) {
      fail<FormatError>(file.name(), ": the model's configuration is not valid: ", e.what());
    }
  };
  Model model = build();
  load_checkpoint(file, *parameters, {}, AfterFailure::undefined);
  return {std::move(config.value), std::move(parameters), std::move(model)};
}

}  // namespace SEPPO_ABI
}  // namespace seppo

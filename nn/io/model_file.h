// Model files: a model's parameters and configuration in one safetensors file, from which it is built again.
//
//   save_model("model.safetensors", parameters, model, {{"program", "addsub"}});
//   const SavedModel<Transformer> saved = load_model<Transformer>("model.safetensors");
//   saved.model.logits(src, tgt);
//
// Model is any struct with a type Config (config.h), a constructor Model(const Scope&, const Config&) and a member
// `config`. The metadata of the file holds {"model": {...}, ...}: the fields of the config and what else is given.
#pragma once

#include "../config.h"
#include "checkpoint.h"
#include "json.h"

#include <filesystem>
#include <memory>

namespace seppo::inline SEPPO_ABI {

namespace detail {
void save_model(const std::filesystem::path& file, const Parameters& parameters, const nlohmann::json& config,
                const nlohmann::json& extra);
[[noreturn]] void refuse_config(const SafeTensorsFile& file, const Error& error);
}  // namespace detail

// The configuration of a model as the metadata of its file hold it.
constexpr const char* kConfigKey = "seppo.config";

// Throws as save_checkpoint does; ArgumentError if `extra` is not an object, or has a key "model".
template <class Model>
void save_model(const std::filesystem::path& file, const Parameters& parameters, const Model& model,
                const nlohmann::json& extra = nlohmann::json::object()) {
  const JsonTree config{to_json_object(model.config)};
  detail::save_model(file, parameters, config.value, extra);
}

// What save_model wrote beside the parameters. Throws FormatError for a file that holds no such object.
nlohmann::json read_model_config(const SafeTensorsFile& file);

template <class Model>
struct SavedModel {
  nlohmann::json config;
  std::unique_ptr<Parameters> parameters;
  Model model;
};

// Throws FileError if the file cannot be read; FormatError, naming the file and the key or parameter, for everything in
// it that is not as save_model<Model> wrote it.
template <class Model>
SavedModel<Model> load_model(const std::filesystem::path& path) {
  const SafeTensorsFile file(path);
  JsonTree config{read_model_config(file)};
  // A value takes at least 4 bytes of the file, and a parameter's entry in the header more bytes than its padding has
  // values: a small corrupt file cannot claim a huge model.
  auto parameters = std::make_unique<Parameters>(0, file.size());
  const auto build = [&] {
    try {
      return Model(parameters->root(), from_json_object<typename Model::Config>(config.value.at("model")));
    } catch (const Error& e) {
      detail::refuse_config(file, e);
    }
  };
  Model model = build();
  load_checkpoint(file, *parameters);
  return {std::move(config.value), std::move(parameters), std::move(model)};
}

}  // namespace seppo::inline SEPPO_ABI

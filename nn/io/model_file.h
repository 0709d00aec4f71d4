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

namespace seppo {
inline namespace SEPPO_ABI {

// A model's configuration as its file's metadata hold it.
constexpr const char* kConfigKey = "seppo.config";

// Throws as save_checkpoint does; ArgumentError if `extra` is not an object, has a key "model", or is nested deeper
// than what load_model reads (kMostNesting).
template <class Model>
void save_model(const std::filesystem::path& file, const Parameters& parameters, const Model& model,
                const nlohmann::json& extra = nlohmann::json::object()) {
  check<ArgumentError>(is_nested_within(extra), "save_model: extra is nested more than ", kMostNesting, " levels deep");
  const JsonTree config{to_json_object(model.config)};
  JsonTree all{extra};
  check<ArgumentError>(extra.is_object() && !extra.contains("model"),
                       "save_model: extra is not an object, or has a key 'model' of its own");
  all.value["model"] = config.value;
  save_checkpoint(file, parameters,
                  {{kConfigKey, all.value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)}});
}

// What save_model wrote beside the parameters. Throws FormatError for a file that holds no such object.
inline nlohmann::json read_model_config(const SafeTensorsFile& file) {
  const auto found = file.metadata().find(kConfigKey);
  check<FormatError>(found != file.metadata().end(), file.name(), ": has parameters, but no configuration of a model");
  nlohmann::json config = parse_json(found->second, file.name() + ": " + kConfigKey);
  check<FormatError>(config.is_object() && config.contains("model"), file.name(),
                     ": its configuration is not a JSON object with a key 'model'");
  return config;
}

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
  load_checkpoint(file, *parameters);
  return {std::move(config.value), std::move(parameters), std::move(model)};
}

}  // namespace SEPPO_ABI
}  // namespace seppo

// Model files: the configuration in the metadata of a checkpoint.
#include "model_file.h"

#include "../data/text.h"

namespace seppo::inline SEPPO_ABI {

using nlohmann::json;

namespace detail {

void save_model(const std::filesystem::path& file, const Parameters& parameters, const json& config,
                const json& extra) {
  JsonTree all{extra.is_null() ? json::object() : extra};
  check<ArgumentError>(all.value.is_object() && !all.value.contains("model"),
                       "save_model: extra is not an object, or has a key 'model' of its own");
  all.value["model"] = config;
  save_checkpoint(file, parameters, {{kConfigKey, all.value.dump(-1, ' ', false, json::error_handler_t::replace)}});
}

void refuse_config(const SafeTensorsFile& file, const Error& error) {
  fail<FormatError>(file.name(), ": the model's configuration is not valid: ", error.what());
}

}  // namespace detail

json read_model_config(const SafeTensorsFile& file) {
  const auto found = file.metadata().find(kConfigKey);
  check<FormatError>(found != file.metadata().end(), file.name(), ": has parameters, but no configuration of a model");
  json config = parse_json(found->second, file.name() + ": " + kConfigKey);
  check<FormatError>(config.is_object() && config.contains("model"), file.name(),
                     ": its configuration is not a JSON object with a key 'model'");
  return config;
}

}  // namespace seppo::inline SEPPO_ABI

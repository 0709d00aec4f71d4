// The configuration of a model in the metadata of its file.
#include "model_file.h"

#include "../../autograd/core/check.h"

#include <nlohmann/json.hpp>

namespace seppo {
inline namespace SEPPO_ABI {

namespace detail {

void save_model(const std::filesystem::path& file, const Parameters& parameters, const std::vector<Field>& config,
                const nlohmann::json& extra) {
  check<ArgumentError>(is_nested_within(extra), "save_model: extra is nested more than ", kMostNesting, " levels deep");
  JsonTree model{write_fields(config)};
  JsonTree all{extra};
  check<ArgumentError>(extra.is_object() && !extra.contains("model"),
                       "save_model: extra is not an object, or has a key 'model' of its own");
  all.value["model"] = std::move(model.value);
  const std::string text = all.value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  save_checkpoint(file, parameters, {{kConfigKey, text}});
}

}  // namespace detail

nlohmann::json read_model_config(const SafeTensorsFile& file) {
  const auto found = file.metadata().find(kConfigKey);
  check<FormatError>(found != file.metadata().end(), file.name(), ": has parameters, but no configuration of a model");
  nlohmann::json config = parse_json(found->second, file.name() + ": " + kConfigKey);
  check<FormatError>(config.is_object() && config.contains("model"), file.name(),
                     ": its configuration is not a JSON object with a key 'model'");
  return config;
}

}  // namespace SEPPO_ABI
}  // namespace seppo

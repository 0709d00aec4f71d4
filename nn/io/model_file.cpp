// Model files: the configuration in the metadata of a checkpoint.
#include "model_file.h"

#include "../data/text.h"

namespace seppo::inline SEPPO_ABI {

using nlohmann::json;

namespace {
constexpr const char* kKey = "seppo.config";
}

namespace detail {

void save_model(const std::filesystem::path& file, const Parameters& parameters, json config, const json& extra) {
  json all{{"model", std::move(config)}};
  check<ArgumentError>((extra.is_object() || extra.is_null()) && !extra.contains("model"),
                       "save_model: extra is not an object, or has a key 'model' of its own");
  all.update(extra.is_null() ? json::object() : extra);
  save_checkpoint(file, parameters, {{kKey, all.dump(-1, ' ', false, json::error_handler_t::replace)}});
}

void refuse_config(const std::filesystem::path& file, const Error& error) {
  fail<FormatError>(printable_path(file), ": the model's configuration is not valid: ", error.what());
}

}  // namespace detail

json read_model_config(const std::filesystem::path& file) {
  const auto metadata = read_checkpoint_metadata(file);
  const auto found = metadata.find(kKey);
  const std::string name = printable_path(file);
  check<FormatError>(found != metadata.end(), name, ": has parameters, but no configuration of a model");
  const auto is_shallow = [&](int depth, json::parse_event_t, json&) {  // json's dump() and copies recurse
    check<FormatError>(depth <= 16, name, ": its configuration is nested too deeply");
    return true;
  };
  json config = json::parse(found->second, is_shallow, false);
  check<FormatError>(config.is_object() && config.contains("model"), name,
                     ": its configuration is not a JSON object with a key 'model'");
  return config;
}

std::size_t most_parameters(const std::filesystem::path& file) {
  // A value takes at least 4 bytes of the file, and a parameter's entry in the header more bytes than its
  // padding has values: the size in bytes is a safe bound.
  return static_cast<std::size_t>(std::filesystem::file_size(file));
}

}  // namespace seppo::inline SEPPO_ABI

#include "app/checkpoint_config.h"

#include <seppo/nn/io/safetensors.h>
#include <seppo/nn/data/vocabulary.h>

namespace examples {

using nlohmann::json;
using seppo::check;
using seppo::FormatError;
using seppo::printable;

namespace {

constexpr const char* kKey = "seppo.config";

const json& field(const json& config, const std::string& key) {
  check<FormatError>(config.is_object() && config.contains(key), "model configuration: '", key, "' is missing");
  return config[key];
}

}  // namespace

void save_model(const std::filesystem::path& folder, const seppo::Parameters& parameters, const json& config) {
  seppo::save_checkpoint(folder / "model.safetensors", parameters, {{kKey, config.dump()}});
  seppo::write_file_atomically(folder / "config.json", config.dump(2) + "\n");
}

std::filesystem::path model_file(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) ? path / "model.safetensors" : path;
}

json load_config(const std::filesystem::path& file, const std::string& program) {
  const auto metadata = seppo::read_checkpoint_metadata(file);
  const auto found = metadata.find(kKey);
  const std::string name = printable(file.string(), 120);
  check<FormatError>(found != metadata.end(), name, ": has no model configuration; it was not saved by ", program);
  const json config = json::parse(found->second, nullptr, false);
  check<FormatError>(config.is_object(), name, ": its model configuration is not a JSON object");
  const std::string saved_by = config_text(config, "program");
  check<FormatError>(saved_by == program, name, ": was saved by '", printable(saved_by), "', not by ", program);
  return config;
}

std::size_t most_parameters(const std::filesystem::path& file) {
  // A value takes at least 4 bytes of the file, and a parameter's entry in the header more bytes than its
  // padding has values: the size in bytes is a safe bound.
  return static_cast<std::size_t>(std::filesystem::file_size(file));
}

int config_integer(const json& config, const std::string& key, int least, int most) {
  const json& value = field(config, key);
  check<FormatError>(value.is_number_integer() && value >= least && value <= most, "model configuration: '", key,
                     "' is not an integer in ", least, "..", most);
  return value.get<int>();
}

double config_number(const json& config, const std::string& key, double least, double most) {
  const json& value = field(config, key);
  check<FormatError>(value.is_number() && value >= least && value <= most, "model configuration: '", key,
                     "' is not a number in ", least, "..", most);
  return value.get<double>();
}

std::string config_text(const json& config, const std::string& key) {
  const json& value = field(config, key);
  check<FormatError>(value.is_string(), "model configuration: '", key, "' is not text");
  return value.get<std::string>();
}

std::uint64_t config_seed(const json& config, const std::string& key) {
  const json& value = field(config, key);
  check<FormatError>(value.is_number_unsigned(), "model configuration: '", key, "' is not a seed");
  return value.get<std::uint64_t>();
}

const json& config_part(const json& config, const std::string& key) {
  const json& value = field(config, key);
  check<FormatError>(value.is_object(), "model configuration: '", key, "' is not an object");
  return value;
}

seppo::Norm parse_norm(const std::string& text) {
  check<seppo::ArgumentError>(text == "pre" || text == "post", "norm: '", printable(text), "' is neither pre nor post");
  return text == "pre" ? seppo::Norm::pre : seppo::Norm::post;
}

namespace {

const std::vector<std::pair<std::string, seppo::Positions>> kPositions{
    {"sinusoid", seppo::Positions::sinusoid},
    {"cosinusoid", seppo::Positions::cosinusoid},
    {"floor-sinusoid", seppo::Positions::floor_sinusoid},
    {"count", seppo::Positions::count},
    {"simple", seppo::Positions::simple},
    {"binary", seppo::Positions::binary},
    {"learned", seppo::Positions::learned},
    {"none", seppo::Positions::none}};

}  // namespace

const std::vector<std::string>& position_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const auto& [name, kind] : kPositions) result.push_back(name);
    return result;
  }();
  return names;
}

seppo::Positions parse_positions(const std::string& name) {
  for (const auto& [known, kind] : kPositions)
    if (known == name) return kind;
  seppo::fail<seppo::ArgumentError>("positions: '", printable(name), "' is not known");
}

}  // namespace examples

// What a saved model says of itself: one JSON object, in config.json for people and in the metadata of
// model.safetensors for programs, so that options are never typed again.
#pragma once

#include <seppo/models/transformer_layers.h>
#include <seppo/nn/io/checkpoint.h>
#include <seppo/nn/layers/positional_encoding.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace examples {

// Writes both files into `folder`.
void save_model(const std::filesystem::path& folder, const seppo::Parameters& parameters, const nlohmann::json& config);

// The model file named by --model: a folder's model.safetensors, or a file.
std::filesystem::path model_file(const std::filesystem::path& path);

// The configuration of a model that `program` saved. Throws seppo::FormatError for any other file.
nlohmann::json load_config(const std::filesystem::path& file, const std::string& program);

// How many parameter values, padding included, a model from this file can have.
std::size_t most_parameters(const std::filesystem::path& file);

// Reads config[key] as an integer in least..most; throws seppo::FormatError naming the key.
int config_integer(const nlohmann::json& config, const std::string& key, int least, int most);
double config_number(const nlohmann::json& config, const std::string& key, double least, double most);
std::string config_text(const nlohmann::json& config, const std::string& key);
std::uint64_t config_seed(const nlohmann::json& config, const std::string& key);
const nlohmann::json& config_part(const nlohmann::json& config, const std::string& key);  // an object

seppo::Norm parse_norm(const std::string& text);  // "pre" or "post"

// Positional encodings by name, in the order of --help.
const std::vector<std::string>& position_names();
seppo::Positions parse_positions(const std::string& name);

}  // namespace examples

// The index is compared with the headers of all files before anything is loaded; each file can then be loaded alone.
#include "llm/weight_files.h"

#include "app/command_line.h"
#include "app/text_file.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/json.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <utility>

namespace llm {

namespace fs = std::filesystem;
using seppo::check;
using seppo::FormatError;
using seppo::printable;
using seppo::printable_path;

namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// A plain file name, which cannot lead out of the folder.
bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

void read_index(WeightFiles& weights) {
  const std::string name = printable_path(weights.index);
  const nlohmann::json all = seppo::parse_json(examples::read_text(weights.index), name);
  const bool has_map = all.is_object() && all.contains("weight_map") && all["weight_map"].is_object();
  check<FormatError>(has_map && !all["weight_map"].empty(), name, ": has no 'weight_map' of tensors");
  std::map<std::string, std::size_t> numbers;
  for (const auto& [tensor, value] : all["weight_map"].items()) {
    const bool is_name = value.is_string() && is_file_name(value.get<std::string>());
    check<FormatError>(is_name, name, ": tensor ", printable(tensor), ": ", printable(value.dump()),
                       " is not the name of a file beside it");
    const std::string file = value.get<std::string>();
    const auto [found, is_new] = numbers.try_emplace(file, weights.files.size());
    if (is_new) weights.files.push_back(weights.index.parent_path() / file);
    check<FormatError>(!is_new || fs::exists(weights.files.back()), name, ": tensor ", printable(tensor),
                       " is in the file '", printable(file), "', which is not there");
    weights.file_of[tensor] = found->second;
  }
}

}  // namespace

WeightFiles find_weights(const fs::path& folder) {
  WeightFiles weights;
  if (fs::exists(folder / kSingle)) {
    weights.files = {folder / kSingle};
  } else if (fs::exists(folder / kIndex)) {
    weights.index = folder / kIndex;
    read_index(weights);
  } else {
    throw examples::UsageError(
        fmt::format("--model: there is no '{0}/{1}', nor '{0}/{2}'", printable_path(folder), kSingle, kIndex));
  }
  std::set<std::string> seen;
  for (std::size_t i = 0; i < weights.files.size(); ++i) {
    const seppo::SafeTensorsFile file(weights.files[i]);
    weights.bytes += file.size();
    for (const seppo::TensorInfo& tensor : file.tensors()) {
      if (weights.index.empty()) weights.file_of[tensor.name] = i;
      const auto said = weights.file_of.find(tensor.name);
      check<FormatError>(said != weights.file_of.end(), file.name(), ": has the tensor ", printable(tensor.name),
                         ", which is not in ", printable_path(weights.index));
      check<FormatError>(said->second == i, file.name(), ": has the tensor ", printable(tensor.name), ", of which ",
                         printable_path(weights.index), " says that it is in ",
                         printable_path(weights.files[said->second].filename()));
      seen.insert(tensor.name);
    }
  }
  for (const auto& [tensor, number] : weights.file_of)
    check<FormatError>(seen.contains(tensor), printable_path(weights.files[number]), ": has no tensor ",
                       printable(tensor), ", which ", printable_path(weights.index), " says it has");
  return weights;
}

bool has_other_output(const WeightFiles& weights, const std::string& embedding) {
  constexpr const char* kOutput = "lm_head.weight";
  if (!weights.has(kOutput) || !weights.has(embedding)) return weights.has(kOutput);
  const auto stored = [&](const std::string& name) {
    const seppo::SafeTensorsFile file(weights.files[weights.file_of.at(name)]);
    const seppo::TensorInfo tensor = *std::ranges::find(file.tensors(), name, &seppo::TensorInfo::name);
    std::vector<std::byte> bytes(tensor.bytes());
    file.read(tensor, bytes);
    return std::tuple(tensor.dtype, tensor.shape, std::move(bytes));
  };
  return stored(kOutput) != stored(embedding);
}

void load_weights(const WeightFiles& weights, seppo::Parameters& parameters, const seppo::WeightOptions& options) {
  // The file with all tensors of each parameter. If they are in several files, they are first loaded into `scratch`.
  std::map<std::string, std::size_t> home;
  struct Part {
    const seppo::Parameters::Entry* whole;
    std::span<seppo::real> rows;
  };
  std::map<std::string, Part> parts;
  seppo::Parameters scratch(0, weights.bytes);
  std::string missing;
  for (const auto& entry : parameters.entries()) {
    const auto names = options.rename ? options.rename(entry.name) : std::vector{entry.name};
    std::set<std::size_t> files;
    for (const std::string& name : names)
      if (const auto found = weights.file_of.find(name); found != weights.file_of.end())
        files.insert(found->second);
      else if (!weights.index.empty() && !(options.skip && options.skip(entry.name)))
        missing += "; no file has " + name + (name == entry.name ? "" : " for " + entry.name);
    if (files.size() < 2) {
      home[entry.name] = files.empty() ? 0 : *files.begin();
      continue;
    }
    const auto shares = options.shares ? options.shares(entry.name) : std::vector(names.size(), 1);
    const int rows = entry.shape[0] / std::accumulate(shares.begin(), shares.end(), 0);
    std::span<seppo::real> left(entry.tensor.data(), entry.size());
    for (std::size_t i = 0; i < names.size() && missing.empty(); ++i) {
      const seppo::Shape shape = entry.shape.with(0, rows * shares[i]);
      scratch.root().parameter(names[i], shape, seppo::init_zeros());
      parts[names[i]] = {&entry, left.first(static_cast<std::size_t>(shape.numel()))};
      left = left.subspan(parts[names[i]].rows.size());
    }
  }
  check<FormatError>(missing.empty(), printable_path(weights.index), ": does not fit the model", missing);
  for (std::size_t i = 0; i < weights.files.size(); ++i) {
    seppo::WeightOptions whole = options, part;
    whole.skip = [&, i](const std::string& name) {
      const auto found = home.find(name);
      return (found != home.end() && found->second != i) || (found == home.end() && parameters.find(name)) ||
             (options.skip && options.skip(name));
    };
    seppo::load_weights(weights.files[i], parameters, whole);
    part.transpose = [&](const std::string& name) {
      return options.transpose && options.transpose(parts.at(name).whole->name);
    };
    part.skip = [&, i](const std::string& name) { return !parts.contains(name) || weights.file_of.at(name) != i; };
    if (!parts.empty()) seppo::load_weights(weights.files[i], scratch, part);
  }
  for (const auto& entry : scratch.entries())
    std::ranges::copy(entry.tensor.values(), parts.at(entry.name).rows.begin());
  parameters.changed();
}

}  // namespace llm

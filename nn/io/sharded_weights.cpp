// The index is compared with the headers of all files before anything is loaded; each file can then be loaded alone.
#include "sharded_weights.h"

#include "json.h"
#include "text_file.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// ---- finding -------------------------------------------------------------------------------------

// A plain file name, which cannot lead out of the folder.
bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

void read_index(WeightFiles& weights) {
  const std::string name = printable_path(weights.index);
  const nlohmann::json all = parse_json(read_text(weights.index), name);
  const bool has_map = all.is_object() && all.contains("weight_map") && all["weight_map"].is_object();
  check<FormatError>(has_map && !all["weight_map"].empty(), name, ": has no 'weight_map' of tensors");
  std::map<std::string, std::size_t> numbers;  // of the files
  for (const auto& [tensor, value] : all["weight_map"].items()) {
    const bool is_name = value.is_string() && is_file_name(value.get<std::string>());
    check<FormatError>(is_name, name, ": tensor ", printable(tensor), ": ", printable_json(value),
                       " is not the name of a file beside it");
    const std::string file = value.get<std::string>();
    const auto [found, is_new] = numbers.try_emplace(file, weights.files.size());
    if (is_new) weights.files.push_back(weights.index.parent_path() / file);
    check<FormatError>(!is_new || fs::exists(weights.files.back()), name, ": tensor ", printable(tensor),
                       " is in the file '", printable(file), "', which is not there");
    weights.file_of[tensor] = found->second;
  }
}

// Reads the header of a file, whose tensors must be those that the index lists for it.
void read_header(WeightFiles& weights, std::size_t number, std::set<std::string>& seen) {
  const SafeTensorsFile file(weights.files[number]);
  weights.bytes += file.size();
  for (const TensorInfo& tensor : file.tensors()) {
    weights.bytes_of[tensor.dtype] += tensor.bytes();
    if (weights.index.empty()) weights.file_of[tensor.name] = number;
    const auto said = weights.file_of.find(tensor.name);
    check<FormatError>(said != weights.file_of.end(), file.name(), ": has the tensor ", printable(tensor.name),
                       ", which is not in ", printable_path(weights.index));
    check<FormatError>(said->second == number, file.name(), ": has the tensor ", printable(tensor.name), ", of which ",
                       printable_path(weights.index), " says that it is in ",
                       printable_path(weights.files[said->second].filename()));
    seen.insert(tensor.name);
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
    const std::string name = printable_path(folder);
    fail<ArgumentError>("there is no '", name, "/", kSingle, "', nor '", name, "/", kIndex, "'");
  }
  std::set<std::string> seen;
  for (std::size_t i = 0; i < weights.files.size(); ++i) read_header(weights, i, seen);
  for (const auto& [tensor, number] : weights.file_of)
    check<FormatError>(seen.contains(tensor), printable_path(weights.files[number]), ": has no tensor ",
                       printable(tensor), ", which ", printable_path(weights.index), " says it has");
  return weights;
}

// ---- loading -------------------------------------------------------------------------------------

namespace {

// Loads one file after another. A parameter whose tensors are all in one file, its home, is loaded from there. The
// tensors of the others, which are stacks, become parameters of `scratch_` first.
class ShardLoader {
 public:
  ShardLoader(const WeightFiles& weights, Parameters& parameters, const WeightOptions& options)
      : weights_(weights), parameters_(parameters), options_(options), scratch_(0, weights.bytes) {
    std::string missing;
    for (const Parameters::Entry& entry : parameters.entries()) missing += plan(entry);
    check<FormatError>(missing.empty() || !options.strict, printable_path(weights.index), ": does not fit the model",
                       missing);
  }

  std::vector<std::string> load() {
    for (std::size_t i = 0; i < weights_.files.size(); ++i) load_file(i);
    for (const auto& entry : scratch_.entries())
      std::ranges::copy(entry.tensor.values(), parts_.at(entry.name).rows.begin());
    parameters_.changed();
    return std::move(misfits_);
  }

 private:
  // A tensor of a stack.
  struct Part {
    const Parameters::Entry* whole;
    std::span<real> rows;
  };

  // Returns what no file has.
  std::string plan(const Parameters::Entry& entry) {
    const auto names = options_.rename ? options_.rename(entry.name) : std::vector{entry.name};
    std::set<std::size_t> files;
    std::string missing;
    for (const std::string& name : names) {
      const auto found = weights_.file_of.find(name);
      if (found != weights_.file_of.end()) {
        files.insert(found->second);
      } else if (!weights_.index.empty() && !is_skipped(entry.name)) {
        missing += "; no file has " + name;
        if (name != entry.name) missing += " for " + entry.name;
      }
    }
    if (files.size() < 2 || !missing.empty())
      home_[entry.name] = files.empty() ? 0 : *files.begin();
    else
      add_parts(entry, names);
    return missing;
  }

  void add_parts(const Parameters::Entry& entry, const std::vector<std::string>& names) {
    const auto shares = options_.shares ? options_.shares(entry.name) : std::vector(names.size(), 1);
    const int rows = entry.shape[0] / std::accumulate(shares.begin(), shares.end(), 0);
    std::span<real> left(entry.tensor.data(), entry.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Shape shape = entry.shape.with(0, rows * shares[i]);
      const auto size = static_cast<std::size_t>(shape.numel());
      scratch_.root().parameter(names[i], shape, init_zeros());
      parts_[names[i]] = {&entry, left.first(size)};
      left = left.subspan(size);
    }
  }

  void load_file(std::size_t number) {
    WeightOptions whole = options_;
    whole.skip = [&](const std::string& name) { return !is_home(name, number) || is_skipped(name); };
    add_misfits(load_weights(weights_.files[number], parameters_, whole));
    if (parts_.empty()) return;
    const WeightOptions part{
        .transpose = [&](const std::string& name) { return is_transposed(parts_.at(name).whole->name); },
        .skip = [&](const std::string& name) { return !parts_.contains(name) || weights_.file_of.at(name) != number; },
        .strict = options_.strict};
    add_misfits(load_weights(weights_.files[number], scratch_, part));
  }

  void add_misfits(const std::vector<std::string>& lines) {
    misfits_.insert(misfits_.end(), lines.begin(), lines.end());
  }

  // Is this the file from which the parameter is loaded? True also for a name that is not a parameter's.
  bool is_home(const std::string& name, std::size_t number) const {
    const auto found = home_.find(name);
    if (found != home_.end()) return found->second == number;
    return !parameters_.find(name);
  }
  bool is_skipped(const std::string& name) const { return options_.skip && options_.skip(name); }
  bool is_transposed(const std::string& name) const { return options_.transpose && options_.transpose(name); }

  const WeightFiles& weights_;
  Parameters& parameters_;
  const WeightOptions& options_;
  Parameters scratch_;
  std::map<std::string, std::size_t> home_;
  std::map<std::string, Part> parts_;
  std::vector<std::string> misfits_;
};

}  // namespace

std::vector<std::string> load_weights(const WeightFiles& weights, Parameters& parameters,
                                      const WeightOptions& options) {
  return ShardLoader(weights, parameters, options).load();
}

}  // namespace SEPPO_ABI
}  // namespace seppo

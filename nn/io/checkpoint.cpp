// Checkpoints: values to and from safetensors, checked whole before any parameter changes.
#include "checkpoint.h"

#include "../data/text.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace seppo::inline SEPPO_ABI {
namespace {

constexpr const char* kDtype = sizeof(real) == 4 ? "F32" : "F64";
constexpr std::string_view kOptimizer = "adam.";

bool all_finite(std::span<const real> values) {
  return std::ranges::all_of(values, [](real v) { return std::isfinite(v); });
}

std::vector<std::int64_t> sizes_of(const Shape& shape) { return {shape.sizes().begin(), shape.sizes().end()}; }

std::string text_of(const std::vector<std::int64_t>& sizes) {
  std::string text = "[";
  for (const std::int64_t size : sizes) {
    if (text.size() > 1) text += ',';
    text += std::to_string(size);
  }
  return text += ']';
}

// The places where a checkpoint's tensors belong, each with its name.
struct Place {
  std::string name;
  const Shape& shape;
  std::span<real> values;
};

std::vector<Place> places_of(const Parameters& parameters, std::span<const OptimizerBlock> optimizer) {
  std::vector<Place> places;
  for (const auto& entry : parameters.entries())
    places.push_back({entry.name, entry.shape, {entry.tensor.data(), entry.size()}});
  for (const OptimizerBlock& block : optimizer)
    for (const auto& entry : parameters.entries())
      if (entry.trained)
        places.push_back(
            {block.prefix + "." + entry.name, entry.shape, block.values.subspan(entry.offset, entry.size())});
  return places;
}

template <class T>
std::vector<real> converted(const std::vector<std::byte>& bytes) {
  std::vector<T> stored(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(stored.data(), bytes.data(), bytes.size());
  return {stored.begin(), stored.end()};
}

std::vector<real> read_values(const SafeTensorsFile& file, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  file.read(tensor, bytes);
  std::vector<real> values = tensor.dtype == "F32" ? converted<float>(bytes) : converted<double>(bytes);
  check<FormatError>(all_finite(values), file.name(), ": tensor ", printable(tensor.name),
                     " has values that are not finite");
  return values;
}

// What a file and a model do not have in common; as much of it as one can read.
class Differences {
 public:
  void add(const std::string& what) {
    constexpr std::size_t kLongest = 8000;
    if (text_.size() < kLongest)
      text_ += "; " + what;
    else
      ++left_out_;
  }
  void check_none(const std::string& name) const {
    const std::string more = left_out_ > 0 ? "; and " + std::to_string(left_out_) + " more" : "";
    check<FormatError>(text_.empty(), name, ": does not fit the model", text_, more);
  }

 private:
  std::string text_;
  std::size_t left_out_ = 0;
};

// The values for each of the places.
std::vector<std::vector<real>> read_values(const SafeTensorsFile& file, std::span<const Place> places) {
  std::map<std::string_view, const TensorInfo*> stored;
  for (const TensorInfo& tensor : file.tensors()) stored[tensor.name] = &tensor;
  Differences differences;
  std::vector<const TensorInfo*> found;
  for (const Place& place : places) {
    const auto at = stored.find(place.name);
    if (at == stored.end()) {
      differences.add("the file has no " + place.name);
      continue;
    }
    const TensorInfo& tensor = *found.emplace_back(at->second);
    stored.erase(at);
    if (tensor.shape != sizes_of(place.shape))
      differences.add(place.name + " is " + text_of(tensor.shape) + " in the file, " + place.shape.str() +
                      " in the model");
    else if (tensor.dtype != "F32" && tensor.dtype != "F64")
      differences.add(place.name + " is " + tensor.dtype + ", not F32 or F64");
  }
  for (const auto& [name, tensor] : stored)
    if (!name.starts_with(kOptimizer)) differences.add("the model has no " + std::string(printable(name)));
  differences.check_none(file.name());
  file.verify();
  std::vector<std::vector<real>> values;
  for (const TensorInfo* tensor : found) values.push_back(read_values(file, *tensor));
  return values;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const Parameters& parameters,
                     const std::map<std::string, std::string>& metadata, std::span<const OptimizerBlock> optimizer) {
  std::vector<TensorView> tensors;
  for (const Place& p : places_of(parameters, optimizer)) {
    check<NumericError>(all_finite(p.values), "checkpoint: ", p.name, " is not finite; nothing was saved");
    tensors.push_back({p.name, kDtype, sizes_of(p.shape), std::as_bytes(p.values)});
  }
  write_safetensors(path, metadata, tensors);
}

void load_checkpoint(const SafeTensorsFile& file, Parameters& parameters, std::span<const OptimizerBlock> optimizer) {
  const std::vector<Place> places = places_of(parameters, optimizer);
  const std::vector<std::vector<real>> values = read_values(file, places);
  for (std::size_t i = 0; i < places.size(); ++i) std::ranges::copy(values[i], places[i].values.begin());
  parameters.changed();
}

void load_checkpoint(const std::filesystem::path& path, Parameters& parameters) {
  load_checkpoint(SafeTensorsFile(path), parameters);
}

void load_average(std::span<const std::filesystem::path> paths, Parameters& parameters) {
  check<ArgumentError>(!paths.empty(), "checkpoint: no files to take the mean of");
  const std::vector<Place> places = places_of(parameters, {});
  std::vector<std::vector<double>> sums(places.size());
  for (const auto& path : paths) {
    const std::vector<std::vector<real>> values = read_values(SafeTensorsFile(path), places);
    for (std::size_t i = 0; i < values.size(); ++i) {
      sums[i].resize(values[i].size());
      for (std::size_t j = 0; j < values[i].size(); ++j) sums[i][j] += static_cast<double>(values[i][j]);
    }
  }
  const auto count = static_cast<double>(paths.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    std::ranges::transform(sums[i], places[i].values.begin(),
                           [&](double sum) { return static_cast<real>(sum / count); });
  parameters.changed();
}

}  // namespace seppo::inline SEPPO_ABI

// Checkpoints: values to and from safetensors, checked whole before any parameter changes.
#include "checkpoint.h"

#include "../data/text.h"
#include "safetensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace seppo::inline SEPPO_ABI {
namespace {

constexpr const char* kDtype = sizeof(real) == 4 ? "F32" : "F64";

std::vector<std::int64_t> sizes_of(const Shape& shape) { return {shape.sizes().begin(), shape.sizes().end()}; }

std::string text_of(const std::vector<std::int64_t>& sizes) {
  std::string text = "[";
  for (const std::int64_t size : sizes) {
    if (text.size() > 1) text += ',';
    text += std::to_string(size);
  }
  return text += ']';
}

template <class T>
std::vector<real> converted(const std::vector<std::byte>& bytes) {
  std::vector<T> stored(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(stored.data(), bytes.data(), bytes.size());
  std::vector<real> values;
  values.reserve(stored.size());
  for (const T v : stored) values.push_back(static_cast<real>(v));
  return values;
}

// The values of every parameter, in the order of the parameters.
std::vector<std::vector<real>> read_values(const std::filesystem::path& path, const Parameters& parameters) {
  const SafeTensors content = read_safetensors(path);
  std::string differences;
  std::size_t count = 0;
  const auto differs = [&](const std::string& what) {
    if (++count <= 5) differences += "; " + what;
  };
  std::map<std::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : content.tensors) {
    stored[tensor.name] = &tensor;
    if (!parameters.find(tensor.name)) differs("the model has no " + printable(tensor.name));
  }
  std::vector<std::vector<real>> values;
  for (const auto& entry : parameters.entries()) {
    const auto found = stored.find(entry.name);
    if (found == stored.end()) {
      differs("the file has no " + entry.name);
      continue;
    }
    const StoredTensor& tensor = *found->second;
    if (tensor.shape != sizes_of(entry.shape)) {
      differs(entry.name + " is " + text_of(tensor.shape) + " in the file, " + entry.shape.str() + " in the model");
      continue;
    }
    values.push_back(tensor.dtype == "F32" ? converted<float>(tensor.bytes) : converted<double>(tensor.bytes));
    if (!std::all_of(values.back().begin(), values.back().end(), [](real v) { return std::isfinite(v); }))
      differs(entry.name + " has values that are not finite");
  }
  if (count > 5) differences += "; and " + std::to_string(count - 5) + " more";
  check<FormatError>(count == 0, printable_path(path), ": does not fit the model", differences);
  return values;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const Parameters& parameters,
                     const std::map<std::string, std::string>& metadata) {
  SafeTensors content{metadata, {}};
  for (const auto& entry : parameters.entries()) {
    const auto values = entry.tensor.values();
    check<NumericError>(std::all_of(values.begin(), values.end(), [](real v) { return std::isfinite(v); }),
                        "checkpoint: parameter ", entry.name, " is not finite; nothing was saved");
    StoredTensor tensor{entry.name, kDtype, sizes_of(entry.shape), std::vector<std::byte>(values.size_bytes())};
    if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), values.size_bytes());
    content.tensors.push_back(std::move(tensor));
  }
  write_safetensors(path, content);
}

std::map<std::string, std::string> read_checkpoint_metadata(const std::filesystem::path& path) {
  return read_safetensors(path).metadata;
}

void load_checkpoint(const std::filesystem::path& path, Parameters& parameters) {
  const std::vector<std::vector<real>> values = read_values(path, parameters);
  for (std::size_t i = 0; const auto& entry : parameters.entries())
    std::copy(values[i].begin(), values[i].end(), parameters.values().subspan(entry.offset).begin()), ++i;
}

void load_average(std::span<const std::filesystem::path> paths, Parameters& parameters) {
  check<ArgumentError>(!paths.empty(), "checkpoint: the mean of no files");
  std::vector<std::vector<double>> sums;
  for (const auto& path : paths) {
    const std::vector<std::vector<real>> values = read_values(path, parameters);
    sums.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      sums[i].resize(values[i].size());
      for (std::size_t j = 0; j < values[i].size(); ++j) sums[i][j] += static_cast<double>(values[i][j]);
    }
  }
  const auto count = static_cast<double>(paths.size());
  for (std::size_t i = 0; const auto& entry : parameters.entries()) {
    std::transform(sums[i].begin(), sums[i].end(), parameters.values().subspan(entry.offset).begin(),
                   [&](double sum) { return static_cast<real>(sum / count); });
    ++i;
  }
}

}  // namespace seppo::inline SEPPO_ABI

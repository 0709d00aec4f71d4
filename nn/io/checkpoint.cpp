// Checkpoints and weights: values to and from safetensors, checked completely before any parameter changes.
#include "checkpoint.h"

#include "../../autograd/core/printable.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

constexpr const char* kDtype = sizeof(real) == 4 ? "F32" : "F64";

bool all_finite(std::span<const real> values) {
  return std::ranges::all_of(values, [](real v) { return std::isfinite(v); });
}

using Sizes = std::vector<std::int64_t>;

Sizes sizes_of(const Shape& shape) { return {shape.sizes().begin(), shape.sizes().end()}; }

std::string text_of(const Sizes& sizes) { return nlohmann::json(sizes).dump(); }

// A tensor of a file, and its destination: a parameter, or some rows of one.
struct Place {
  std::string name, parameter;
  Sizes shape;  // in the file
  std::span<real> values;
  bool transposed = false, skipped = false;
  bool optional = false;  // not in a file if all values are zero
};

void add_places(std::vector<Place>& places, const Parameters::Entry& entry, const WeightOptions& options) {
  const std::string& name = entry.name;
  const auto names = options.rename ? options.rename(name) : std::vector{name};
  const auto shares = options.shares && names.size() > 1 ? options.shares(name) : std::vector(names.size(), 1);
  Sizes shape = sizes_of(entry.shape);
  const std::int64_t rows = shape.empty() ? 1 : shape[0];
  const std::int64_t parts = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  check<ArgumentError>(
      !names.empty() && shares.size() == names.size() && std::ranges::min(shares) > 0 && rows % parts == 0,
      "weights: the rows of ", name, " ", entry.shape, " cannot be those of ", names.size(), " tensors with ",
      shares.size(), " shares, ", parts, " together");
  const bool transposed = shape.size() == 2 && options.transpose && options.transpose(name);
  std::span<real> left(entry.tensor.data(), entry.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!shape.empty()) shape[0] = rows / parts * shares[i];
    const std::size_t size = entry.size() / static_cast<std::size_t>(parts) * static_cast<std::size_t>(shares[i]);
    const std::span<real> values = left.first(size);
    left = left.subspan(size);
    places.push_back({names[i], name, shape, values, transposed, options.skip && options.skip(name)});
    if (transposed) std::swap(places.back().shape[0], places.back().shape[1]);
  }
}

std::vector<Place> places_of(const Parameters& parameters, const WeightOptions& options,
                             std::span<const OptimizerBlock> optimizer = {}) {
  std::vector<Place> places;
  for (const auto& entry : parameters.entries()) add_places(places, entry, options);
  for (const OptimizerBlock& block : optimizer)
    for (const auto& entry : parameters.entries()) {
      const std::string name = block.prefix + "." + entry.name;
      if (!entry.is_buffer)
        places.push_back({name, name, sizes_of(entry.shape), block.values.subspan(entry.offset, entry.size()), false,
                          false, !entry.trained});
    }
  return places;
}

// [rows, columns] -> [columns, rows]
std::vector<real> transposed(std::span<const real> values, std::int64_t rows, std::int64_t columns) {
  std::vector<real> turned;
  turned.reserve(values.size());
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i) turned.push_back(values[static_cast<std::size_t>(i * columns + j)]);
  return turned;
}

template <class T>
std::vector<real> rounded(std::span<const std::byte> bytes) {
  std::vector<real> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T stored;
    std::memcpy(&stored, &bytes[i * sizeof(T)], sizeof(T));
    values[i] = static_cast<real>(stored);
  }
  return values;
}

const std::map<std::string_view, std::vector<real> (*)(std::span<const std::byte>)> kReaders{
    {"F32", rounded<float>}, {"F64", rounded<double>}, {"F16", rounded<Half>}, {"BF16", rounded<BFloat>}};

std::vector<real> as_real(const SafeTensorsFile& file, const TensorInfo& tensor) {
  if (tensor.dtype == kDtype) {  // without a second copy, which a large tensor could not afford
    std::vector<real> values(tensor.bytes() / sizeof(real));
    file.read(tensor, std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::vector<std::byte> bytes(tensor.bytes());
  file.read(tensor, bytes);
  return kReaders.at(tensor.dtype)(bytes);
}

// The values for a destination.
std::vector<real> read_values(const SafeTensorsFile& file, const TensorInfo& tensor, bool is_transposed) {
  std::vector<real> values = as_real(file, tensor);
  check<FormatError>(all_finite(values), file.name(), ": tensor ", printable(tensor.name),
                     " has values that are not finite");
  return is_transposed ? transposed(values, tensor.shape[0], tensor.shape[1]) : values;
}

// Reads everything before the first value changes. Returns what was left out.
std::vector<std::string> read(const SafeTensorsFile& file, std::span<const Place> places,
                              const WeightOptions& options) {
  std::map<std::string, const TensorInfo*> unused;
  for (const TensorInfo& tensor : file.tensors()) unused[tensor.name] = &tensor;
  const std::map<std::string, const TensorInfo*> stored = unused;
  std::vector<std::string> differences;
  std::set<std::string_view> kept;  // parameters that stay as they are
  for (const Place& place : places) {
    unused.erase(place.name);
    if (place.skipped) continue;
    const std::size_t before = differences.size();
    const std::string shown =
        std::string(printable(place.name, 512)) + (place.name == place.parameter ? "" : " for " + place.parameter);
    const auto found = stored.find(place.name);
    if (found == stored.end() && place.optional)
      kept.insert(place.parameter);
    else if (found == stored.end())
      differences.push_back("the file has no " + shown);
    else if (const TensorInfo& tensor = *found->second; tensor.shape != place.shape)
      differences.push_back(shown + " is " + text_of(tensor.shape) + " in the file, " + text_of(place.shape) +
                            " in the model");
    else if (!kReaders.contains(tensor.dtype))
      differences.push_back(shown + " is " + tensor.dtype + ", not F64, F32, F16 or BF16");
    if (differences.size() > before) kept.insert(place.parameter);
  }
  for (const auto& [name, tensor] : unused)
    if (!options.skip || !options.skip(name))
      differences.push_back("the model has no " + std::string(printable(name, 512)));
  std::string text;
  for (const std::string& difference : differences)
    text += text.size() < 50'000 ? "; " + difference : text.ends_with("more") ? "" : "; and more";
  check<FormatError>(!options.strict || differences.empty(), file.name(), ": does not fit the model", text);
  file.verify();
  std::vector<std::vector<real>> values(places.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    if (!places[i].skipped && !kept.contains(places[i].parameter))
      values[i] = read_values(file, *stored.at(places[i].name), places[i].transposed);
  for (std::size_t i = 0; i < places.size(); ++i) std::ranges::copy(values[i], places[i].values.begin());
  for (const Place& p : places)  // writes nothing to zeros: the memory of a large frozen model's state is never touched
    if (p.optional && !stored.contains(p.name)) std::ranges::replace_if(p.values, std::identity{}, real{0});
  return differences;
}

void write(const std::filesystem::path& path, std::span<const Place> places,
           const std::map<std::string, std::string>& metadata) {
  std::vector<TensorView> tensors;
  std::vector<std::vector<real>> turned(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place& p = places[i];
    if (p.skipped || (p.optional && std::ranges::all_of(p.values, [](real v) { return v == 0; }))) continue;
    check<NumericError>(all_finite(p.values), "checkpoint: ", p.parameter, " is not finite; nothing was saved");
    std::span<const real> values = p.values;
    if (p.transposed) values = turned[i] = transposed(values, p.shape[1], p.shape[0]);
    tensors.push_back({p.name, kDtype, p.shape, std::as_bytes(values)});
  }
  write_safetensors(path, metadata, tensors);
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const Parameters& parameters,
                     const std::map<std::string, std::string>& metadata, std::span<const OptimizerBlock> optimizer) {
  write(path, places_of(parameters, {}, optimizer), metadata);
}

void load_checkpoint(const SafeTensorsFile& file, Parameters& parameters, std::span<const OptimizerBlock> optimizer) {
  const auto is_passed_over = [&](const std::string& name) { return optimizer.empty() && name.starts_with("adam."); };
  read(file, places_of(parameters, {}, optimizer), {.skip = is_passed_over});
  parameters.changed();
}

std::vector<std::string> load_weights(const std::filesystem::path& path, Parameters& parameters,
                                      const WeightOptions& options) {
  const std::vector<std::string> left_out = read(SafeTensorsFile(path), places_of(parameters, options), options);
  parameters.changed();
  return left_out;
}

// Hugging Face's reader requires the framework that a file is for.
void save_weights(const std::filesystem::path& path, const Parameters& parameters, const WeightOptions& options) {
  write(path, places_of(parameters, options), {{"format", "pt"}});
}

}  // namespace SEPPO_ABI
}  // namespace seppo

// Checkpoints and weights: values to and from safetensors, checked completely before any parameter changes.
#include "checkpoint.h"

#include "../../autograd/core/printable.h"
#include "frozen_values.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

bool all_finite(std::span<const real> values) {
  return std::ranges::all_of(values, [](real v) { return std::isfinite(v); });
}

using Sizes = std::vector<std::int64_t>;

Sizes sizes_of(const Shape& shape) { return {shape.sizes().begin(), shape.sizes().end()}; }

std::string text_of(const Sizes& sizes) { return nlohmann::json(sizes).dump(); }

// A tensor of a file, and its place in memory: a parameter, or some rows of one.
struct Place {
  std::string name, parameter;
  Sizes shape;  // in the file
  std::span<real> values;
  std::size_t first = 0;       // of the values among the parameter's
  std::vector<int> rows = {};  // of the tensor, in the order of the values; empty: all
  bool is_transposed = false;
  bool is_skipped = false;
  bool is_optional = false;  // not in a file if all values are zero
};

// The tensors that make up a parameter, each with its share of the rows.
struct WeightStack {
  std::vector<std::string> names;
  std::vector<int> shares;

  std::int64_t parts() const { return std::accumulate(shares.begin(), shares.end(), std::int64_t{0}); }
};

WeightStack stack_of(const std::string& parameter, const WeightOptions& options) {
  WeightStack stack;
  stack.names = options.rename ? options.rename(parameter) : std::vector{parameter};
  stack.shares.assign(stack.names.size(), 1);
  if (options.shares && stack.names.size() > 1) stack.shares = options.shares(parameter);
  return stack;
}

void check_stack(const WeightStack& stack, const Parameters::Entry& entry, std::int64_t rows) {
  const bool is_whole = !stack.names.empty() && stack.shares.size() == stack.names.size();
  const bool is_shared = is_whole && std::ranges::min(stack.shares) > 0 && rows % stack.parts() == 0;
  check<ArgumentError>(is_shared, "weights: the rows of ", entry.name, " ", entry.shape, " cannot be those of ",
                       stack.names.size(), " tensors with ", stack.shares.size(), " shares, ", stack.parts(),
                       " together");
}

// The rows of a tensor that a parameter has.
TensorRows rows_of(const Parameters::Entry& entry, const WeightStack& stack, const WeightOptions& options) {
  TensorRows rows = options.rows ? options.rows(entry.name) : TensorRows{};
  if (rows.order.empty()) return {};
  const auto is_row = [&](int row) { return row >= 0 && row < rows.of; };
  const bool fits = stack.names.size() == 1 && entry.shape.rank() > 0 && std::ssize(rows.order) == entry.shape[0] &&
                    std::ranges::all_of(rows.order, is_row) && !(options.transpose && options.transpose(entry.name));
  check<ArgumentError>(fits, "weights: ", entry.name, " ", entry.shape, " cannot have ", rows.order.size(), " rows of ",
                       stack.names.size(), " tensors with ", rows.of);
  return rows;
}

void add_places(std::vector<Place>& places, const Parameters::Entry& entry, const WeightOptions& options) {
  const std::string& name = entry.name;
  const WeightStack stack = stack_of(name, options);
  const Sizes whole = sizes_of(entry.shape);
  const std::int64_t rows = whole.empty() ? 1 : whole[0];
  check_stack(stack, entry, rows);
  const std::int64_t parts = stack.parts();
  const TensorRows picked = rows_of(entry, stack, options);
  const bool is_transposed = whole.size() == 2 && options.transpose && options.transpose(name);
  const bool is_skipped = options.skip && options.skip(name);
  std::span<real> left(entry.tensor.data(), entry.size());
  for (std::size_t i = 0; i < stack.names.size(); ++i) {
    const auto share = static_cast<std::size_t>(stack.shares[i]);
    const std::size_t size = entry.size() / static_cast<std::size_t>(parts) * share;
    Sizes shape = whole;
    if (!shape.empty()) shape[0] = rows / parts * stack.shares[i];
    if (!picked.order.empty()) shape[0] = picked.of;
    if (is_transposed) std::swap(shape[0], shape[1]);
    places.push_back({.name = stack.names[i],
                      .parameter = name,
                      .shape = shape,
                      .values = left.first(size),
                      .first = entry.size() - left.size(),
                      .rows = picked.order,
                      .is_transposed = is_transposed,
                      .is_skipped = is_skipped});
    left = left.subspan(size);
  }
}

std::vector<Place> places_of(const Parameters& parameters, const WeightOptions& options,
                             std::span<const OptimizerBlock> optimizer = {}) {
  std::vector<Place> places;
  for (const auto& entry : parameters.entries()) add_places(places, entry, options);
  for (const OptimizerBlock& block : optimizer)
    for (const auto& entry : parameters.entries()) {
      if (entry.is_buffer) continue;
      const std::string name = block.prefix + "." + entry.name;
      places.push_back({.name = name,
                        .parameter = name,
                        .shape = sizes_of(entry.shape),
                        .values = block.values.subspan(entry.offset, entry.size()),
                        .is_optional = !entry.trained});
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

// Rounds the values of a tensor, some at a time.
template <class T>
void read_rounded(const SafeTensorsFile& file, const TensorInfo& tensor, std::span<real> to) {
  std::vector<T> stored(std::min(to.size(), std::size_t{1} << 18));
  for (std::size_t first = 0; first < to.size(); first += stored.size()) {
    const std::span piece(stored.data(), std::min(stored.size(), to.size() - first));
    file.read(tensor, first * sizeof(T), std::as_writable_bytes(piece));
    std::ranges::transform(piece, to.begin() + static_cast<std::ptrdiff_t>(first),
                           [](T value) { return static_cast<real>(value); });
  }
}

const std::map<std::string_view, void (*)(const SafeTensorsFile&, const TensorInfo&, std::span<real>)> kReaders{
    {"F32", read_rounded<float>},
    {"F64", read_rounded<double>},
    {"F16", read_rounded<Half>},
    {"BF16", read_rounded<BFloat>}};

// Columns of a matrix with so many rows, or what else there is in each.
std::size_t row_size(std::size_t values, std::size_t rows) { return rows == 0 ? 0 : values / rows; }

// Reads a tensor, without a copy of it where the file has reals in their order.
void read_tensor(const SafeTensorsFile& file, const TensorInfo& tensor, const Place& place) {
  const std::span<real> to = place.values;
  if (!place.rows.empty()) {
    const std::size_t size = row_size(to.size(), place.rows.size());
    std::vector<real> all(static_cast<std::size_t>(place.shape[0]) * size);
    kReaders.at(tensor.dtype)(file, tensor, all);
    for (std::size_t i = 0; i < place.rows.size(); ++i)
      std::copy_n(all.data() + static_cast<std::size_t>(place.rows[i]) * size, size, to.data() + i * size);
  } else if (tensor.dtype == dtype_of(WeightType::own)) {
    file.read(tensor, std::as_writable_bytes(to));
  } else {
    kReaders.at(tensor.dtype)(file, tensor, to);
  }
  check<FormatError>(all_finite(to), file.name(), ": tensor ", printable(tensor.name),
                     " has values that are not finite");
  if (place.is_transposed) std::ranges::copy(transposed(to, tensor.shape[0], tensor.shape[1]), to.begin());
}

using Tensors = std::map<std::string, const TensorInfo*>;

Tensors tensors_of(const SafeTensorsFile& file) {
  Tensors tensors;
  for (const TensorInfo& tensor : file.tensors()) tensors[tensor.name] = &tensor;
  return tensors;
}

// Why a file cannot fill a place; empty if it can.
std::string difference_at(const Place& place, const Tensors& tensors) {
  std::string shown(printable(place.name, 512));
  if (place.name != place.parameter) shown += " for " + place.parameter;
  const auto found = tensors.find(place.name);
  if (found == tensors.end()) return place.is_optional ? "" : "the file has no " + shown;
  const TensorInfo& tensor = *found->second;
  if (tensor.shape != place.shape)
    return shown + " is " + text_of(tensor.shape) + " in the file, " + text_of(place.shape) + " in the model";
  if (!kReaders.contains(tensor.dtype)) return shown + " is " + tensor.dtype + ", not F64, F32, F16 or BF16";
  return "";
}

// What a file cannot fill, and what it has that nothing needs.
struct Differences {
  std::vector<std::string> lines;
  std::set<std::string_view> parameters;  // those that cannot be loaded completely
};

Differences differences(const Tensors& tensors, std::span<const Place> places, const WeightOptions& options) {
  Differences found;
  Tensors unused = tensors;
  for (const Place& place : places) {
    unused.erase(place.name);
    if (place.is_skipped) continue;
    const std::string line = difference_at(place, tensors);
    if (line.empty()) continue;
    found.lines.push_back(line);
    found.parameters.insert(place.parameter);
  }
  for (const auto& [name, tensor] : unused) {
    const bool is_ignored = options.skip && options.skip(name);
    if (!is_ignored) found.lines.push_back("the model has no " + std::string(printable(name, 512)));
  }
  return found;
}

[[noreturn]] void refuse(const SafeTensorsFile& file, const std::vector<std::string>& differences) {
  constexpr std::size_t kMostText = 50'000;
  std::string text;
  for (const std::string& difference : differences) {
    if (text.size() >= kMostText) {
      text += "; and more";
      break;
    }
    text += "; " + difference;
  }
  fail<FormatError>(file.name(), ": does not fit the model", text);
}

void read_all(const SafeTensorsFile& file, const Tensors& tensors, std::span<const Place> places) {
  for (const Place& place : places) read_tensor(file, *tensors.at(place.name), place);
}

// The same, but reads everything before the first value changes.
void read_all_or_nothing(const SafeTensorsFile& file, const Tensors& tensors, std::span<const Place> places) {
  std::vector<std::vector<real>> values;
  std::vector<Place> copies(places.begin(), places.end());
  for (Place& copy : copies) copy.values = values.emplace_back(copy.values.size());
  read_all(file, tensors, copies);
  for (std::size_t i = 0; i < places.size(); ++i) std::ranges::copy(values[i], places[i].values.begin());
}

// Returns what was left out.
std::vector<std::string> read(const SafeTensorsFile& file, std::span<const Place> places, const WeightOptions& options,
                              AfterFailure after_failure) {
  const Tensors tensors = tensors_of(file);
  const Differences found = differences(tensors, places, options);
  if (options.strict && !found.lines.empty()) refuse(file, found.lines);
  file.verify();
  std::vector<Place> filled;
  std::vector<Place> zero;
  for (const Place& place : places) {
    if (place.is_skipped || found.parameters.contains(place.parameter)) continue;
    (tensors.contains(place.name) ? filled : zero).push_back(place);
  }
  if (after_failure == AfterFailure::unchanged)
    read_all_or_nothing(file, tensors, filled);
  else
    read_all(file, tensors, filled);
  // Does not touch pages that are already zero, such as a large frozen model's state.
  for (const Place& place : zero)
    for (real& value : place.values)
      if (value != 0) value = 0;
  return found.lines;
}

bool is_zero(std::span<const real> values) {
  return std::ranges::all_of(values, [](real v) { return v == 0; });
}

// The rows of a tensor that several parameters share, or one has in another order: each must be someone's, and once.
void check_rows(std::span<const Place* const> parts) {
  const Place& first = *parts[0];
  std::vector<bool> is_given(static_cast<std::size_t>(first.shape[0]));
  for (const Place* part : parts) {
    check<ArgumentError>(part->shape == first.shape, "weights: ", first.parameter, " and ", part->parameter,
                         " do not agree about the shape of ", first.name);
    for (const int row : part->rows) is_given[static_cast<std::size_t>(row)] = true;
  }
  std::size_t rows = 0;
  for (const Place* part : parts) rows += part->rows.size();
  const bool is_whole = rows == is_given.size() && std::ranges::all_of(is_given, std::identity());
  check<ArgumentError>(is_whole, "weights: of the ", is_given.size(), " rows of ", first.name,
                       " some belong to no parameter, or to several");
}

// What is written of places, one after another.
class Values {
 public:
  explicit Values(const WeightOptions& options) : options_(options) {}

  // The bytes of a tensor, which consists of these parts. They last until the next call.
  std::span<const std::byte> bytes_of(std::span<const Place* const> parts) {
    const std::span<const real> values = of(parts);
    if (options_.type == WeightType::own) return std::as_bytes(values);
    narrow_ = bytes_as(options_.type, values, "checkpoint: " + parts[0]->parameter);
    return narrow_;
  }

 private:
  std::span<const real> of(const Place& place) {
    const std::span<const real> values = chosen(place);
    check<NumericError>(all_finite(values), "checkpoint: ", place.parameter, " is not finite; nothing was saved");
    if (!place.is_transposed) return values;
    turned_ = transposed(values, place.shape[1], place.shape[0]);
    return turned_;
  }
  std::span<const real> of(std::span<const Place* const> parts) {
    if (parts[0]->rows.empty()) return of(*parts[0]);
    joined_.clear();
    for (const Place* part : parts) {
      const std::span<const real> values = of(*part);
      const std::size_t size = row_size(values.size(), part->rows.size());
      joined_.resize(static_cast<std::size_t>(part->shape[0]) * size);
      for (std::size_t i = 0; i < part->rows.size(); ++i)
        std::copy_n(values.data() + i * size, size, joined_.data() + static_cast<std::size_t>(part->rows[i]) * size);
    }
    return joined_;
  }
  std::span<const real> chosen(const Place& place) {
    if (!options_.values) return place.values;
    if (std::exchange(parameter_, place.parameter) != place.parameter) all_ = options_.values(place.parameter);
    return all_.empty() ? place.values : all_.subspan(place.first, place.values.size());
  }

  const WeightOptions& options_;
  std::string parameter_;      // whose values `all_` are
  std::span<const real> all_;  // those to write instead of its own
  std::vector<real> turned_;
  std::vector<real> joined_;
  std::vector<std::byte> narrow_;
};

WeightOptions without_frozen(const Parameters& parameters) {
  return {.skip = [&](const std::string& name) { return is_frozen(*parameters.find(name)); }};
}

void write(const std::filesystem::path& path, std::span<const Place> places,
           const std::map<std::string, std::string>& metadata, const WeightOptions& options = {}) {
  std::vector<TensorInfo> tensors;
  std::vector<std::vector<const Place*>> written;  // of each tensor: its parts
  std::map<std::string_view, std::size_t> shared;
  for (const Place& p : places) {
    if (p.is_skipped) continue;
    if (p.is_optional && is_zero(p.values)) continue;
    if (!p.rows.empty()) {
      const auto [found, is_new] = shared.try_emplace(p.name, written.size());
      if (!is_new) written[found->second].push_back(&p);
      if (!is_new) continue;
    }
    tensors.push_back({.name = p.name, .dtype = dtype_of(options.type), .shape = p.shape});
    written.push_back({&p});
  }
  for (const auto& [name, index] : shared) check_rows(written[index]);
  Values values(options);
  write_safetensors(path, metadata, std::move(tensors), [&](std::size_t i) { return values.bytes_of(written[i]); });
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const Parameters& parameters,
                     const std::map<std::string, std::string>& metadata, std::span<const OptimizerBlock> optimizer,
                     FrozenValues frozen) {
  if (frozen == FrozenValues::saved) return write(path, places_of(parameters, {}, optimizer), metadata);
  std::map<std::string, std::string> with_digest = metadata;
  with_digest[kFrozenKey] = digest_of_frozen(parameters);
  write(path, places_of(parameters, without_frozen(parameters), optimizer), with_digest);
}

void load_checkpoint(const SafeTensorsFile& file, Parameters& parameters, std::span<const OptimizerBlock> optimizer,
                     AfterFailure after_failure) {
  const bool is_whole = !file.metadata().contains(kFrozenKey);
  if (!is_whole) check_frozen(file, parameters);
  const auto is_passed_over = [&](const std::string& name) { return optimizer.empty() && is_optimizer_state(name); };
  const WeightOptions options = is_whole ? WeightOptions{} : without_frozen(parameters);
  read(file, places_of(parameters, options, optimizer), {.skip = is_passed_over}, after_failure);
  parameters.changed();
}

std::vector<std::string> load_weights(const std::filesystem::path& path, Parameters& parameters,
                                      const WeightOptions& options) {
  const SafeTensorsFile file(path);
  std::vector<std::string> left_out = read(file, places_of(parameters, options), options, options.after_failure);
  parameters.changed();
  return left_out;
}

// Hugging Face's reader requires the framework that a file is for.
void save_weights(const std::filesystem::path& path, const Parameters& parameters, const WeightOptions& options) {
  write(path, places_of(parameters, options), {{"format", "pt"}}, options);
}

}  // namespace SEPPO_ABI
}  // namespace seppo

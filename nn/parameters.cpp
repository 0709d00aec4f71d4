// Parameters: the growing blocks, and the tensors that point into them.
#include "parameters.h"

#include "../autograd/core/arena.h"
#include "../autograd/core/leaf.h"

#include <tuple>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// FNV-1a: a fixed function of the name, so that initial values do not depend on the order of construction.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

// Entries begin at multiples of a vector.
std::size_t aligned(std::size_t elements) {
  constexpr std::size_t kAlign = Arena::kAlignment / sizeof(real);
  return (elements + kAlign - 1) / kAlign * kAlign;
}

// Copies n values to where all are zero; pages of zeros stay untouched on both sides.
void copy_to_zeros(const real* from, std::size_t n, real* to) {
  constexpr std::size_t kPiece = std::size_t{1} << 12;
  for (std::size_t begin = 0; begin < n; begin += kPiece) {
    const std::span piece(from + begin, std::min(kPiece, n - begin));
    if (std::ranges::any_of(piece, [](real v) { return v != 0; })) std::ranges::copy(piece, to + begin);
  }
}

}  // namespace

Tensor Scope::parameter(std::string_view name, const Shape& shape, const Init& init, std::optional<bool> decay) const {
  return parameters_->add((*this / name).path_, shape, init, decay.value_or(shape.rank() >= 2), true);
}

Tensor Scope::buffer(std::string_view name, const Shape& shape, const Init& init) const {
  return parameters_->add((*this / name).path_, shape, init, false, false);
}

Tensor Scope::constant(const Shape& shape, const Init& init) const { return parameters_->add_constant(shape, init); }

Parameters::~Parameters() {
  for (const Entry& entry : entries_) release_leaf(entry.tensor.node());
  for (Node* node : constants_) release_leaf(*node);
}

Parameters& Parameters::operator=(Parameters&& other) noexcept {
  const auto all = [](Parameters& p) {
    return std::tie(p.seed_, p.most_, p.entries_, p.by_name_, p.trained_runs_, p.values_, p.gradients_, p.size_,
                    p.capacity_, p.constants_size_, p.constant_values_, p.constants_);
  };
  auto own = all(*this);
  auto others = all(other);
  own.swap(others);
  return *this;
}

// The blocks double in capacity; pages beyond size_ are never touched, so they cost nothing.
void Parameters::reserve(std::size_t size) {
  if (size <= capacity_) return;
  const std::size_t capacity = std::max(size, 2 * capacity_);
  Memory values(capacity * sizeof(real));
  Memory gradients(capacity * sizeof(real));
  copy_to_zeros(values_.as<real>(), size_, values.as<real>());
  copy_to_zeros(gradients_.as<real>(), size_, gradients.as<real>());
  values_ = std::move(values);
  gradients_ = std::move(gradients);
  capacity_ = capacity;
  for (const Entry& entry : entries_) {
    if (entry.tensor.node().data) entry.tensor.node().data = values_.as<real>() + entry.offset;  // else it is compact
    entry.tensor.node().grad = gradients_.as<real>() + entry.offset;
  }
}

void Parameters::check_grows(std::string_view name) const {
  check<StateError>(!fixed_when_, "parameters: ", name, " cannot be added ", fixed_when_ ? fixed_when_ : "",
                    ": make it before");
}

Tensor Parameters::add(std::string name, const Shape& shape, const Init& init, bool decay, bool trained) {
  check_grows(name);
  check<ArgumentError>(!find(name), "parameters: the name ", name, " is taken");
  const std::size_t offset = size_;
  const std::size_t count = static_cast<std::size_t>(shape.numel());
  check<ModelSizeError>(count <= most_ && offset <= most_ - count, "parameters: with ", name, " ", shape,
                        " the model has more than the allowed ", most_, " values");
  const std::size_t end = aligned(offset + count);
  reserve(end);
  // So that noting what is trained cannot fail.
  if (trained_runs_.size() == trained_runs_.capacity()) trained_runs_.reserve(2 * trained_runs_.size() + 1);
  Entry& entry = entries_.emplace_back(Entry{.name = std::move(name),
                                             .shape = shape,
                                             .offset = offset,
                                             .decay = decay,
                                             .is_buffer = !trained,
                                             .trained = trained,
                                             .tensor = {}});
  size_ = end;
  try {
    by_name_.emplace(entry.name, &entry);
    initialise(entry, init);
  } catch (...) {
    if (entry.tensor.defined()) release_leaf(entry.tensor.node());
    by_name_.erase(entry.name);
    entries_.pop_back();
    std::fill(values_.as<real>() + offset, values_.as<real>() + end, real{0});
    size_ = offset;
    throw;
  }
  note_trained(entry);
  return entry.tensor;
}

void Parameters::note_trained(const Entry& entry) {
  if (!entry.trained || entry.size() == 0) return;
  const std::size_t end = aligned(entry.offset + entry.size());
  if (!trained_runs_.empty() && trained_runs_.back().end == entry.offset)
    trained_runs_.back().end = end;
  else
    trained_runs_.push_back({entry.offset, end});
}

void Parameters::zero_gradients() {
  real* const gradients = gradients_.as<real>();
  for (const Run& run : trained_runs_) std::fill(gradients + run.begin, gradients + run.end, real{0});
}

void Parameters::initialise(Entry& entry, const Init& init) {
  const Fixed fixed(*this, "while an initialiser writes to them");
  real* const values = values_.as<real>() + entry.offset;
  entry.tensor = Tensor(acquire_leaf(entry.shape, values, gradients_.as<real>() + entry.offset, &entry.name));
  entry.tensor.node().requires_grad = entry.trained;
  RandomStream random(seed_, Purpose::init, hash(entry.name));
  if (draws_) init({values, entry.size()}, entry.shape, random);
}

Tensor Parameters::add_constant(const Shape& shape, const Init& init) {
  check_grows("a constant");
  const std::size_t count = static_cast<std::size_t>(shape.numel());
  const std::size_t most = std::max(most_, std::size_t{1} << 24);
  check<ModelSizeError>(count <= most && constants_size_ <= most - count, "parameters: with a constant ", shape,
                        " the model has more than the allowed ", most, " values");
  const Fixed fixed(*this, "while an initialiser writes to them");
  Memory values(std::max<std::size_t>(1, count) * sizeof(real));
  RandomStream random(seed_, Purpose::init, constants_.size());
  init({values.as<real>(), count}, shape, random);
  constants_.reserve(constants_.size() + 1);
  constant_values_.reserve(constants_.size() + 1);
  Node& node = acquire_leaf(shape, values.as<real>(), nullptr, nullptr);
  node.requires_grad = false;
  constants_.push_back(&node);
  constant_values_.push_back(std::move(values));
  constants_size_ += count;
  return Tensor(node);
}

void Parameters::freeze(std::string_view prefix, bool frozen) {
  bool is_found = false;
  trained_runs_.reserve(entries_.size());
  for (Entry& entry : entries_) {
    if (entry.is_buffer || !entry.name.starts_with(prefix)) continue;
    is_found = true;
    entry.trained = !frozen;
    entry.tensor.node().requires_grad = !frozen;
    for (real& g : gradients().subspan(entry.offset, entry.size()))
      if (g != 0) g = 0;  // other pages stay untouched
  }
  check<ArgumentError>(is_found, "parameters: none has a name that begins with '", prefix, "'");
  trained_runs_.clear();
  for (const Entry& entry : entries_) note_trained(entry);
}

const Parameters::Entry* Parameters::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

std::size_t Parameters::count() const {
  std::size_t total = 0;
  for (const Entry& entry : entries_)
    if (entry.trained) total += entry.size();
  return total;
}

}  // namespace SEPPO_ABI
}  // namespace seppo

// Parameters: the trainable values of a model, in one flat block, with their gradients in another.
//
// Modules ask a Scope, a path into the Parameters, for what they need; the path becomes the name:
//
//   Parameters parameters(seed);
//   Linear up(parameters.root() / "ffn" / "up", 32, 64);   // "ffn.up.weight", "ffn.up.bias"
//
// Initial values depend only on the seed and the name. Optimisers and checkpoints see flat blocks, padded with zeros.
#pragma once

#include "../autograd/core/leaf.h"
#include "../autograd/core/memory.h"
#include "../autograd/core/random.h"
#include "../autograd/core/region.h"
#include "../autograd/core/scoped_value.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// ---- initialisers: how a parameter's initial values are drawn

// Fills the values of a parameter of this shape from its own random stream.
using Init = std::function<void(std::span<real> values, const Shape& shape, RandomStream& random)>;

inline Init init_constant(double value) {
  return [=](std::span<real> values, const Shape&, RandomStream&) {
    std::fill(values.begin(), values.end(), static_cast<real>(value));
  };
}
inline Init init_zeros() { return init_constant(0); }
inline Init init_ones() { return init_constant(1); }

// N(0, deviation^2)
inline Init init_normal(double deviation) {
  return [=](std::span<real> values, const Shape&, RandomStream& random) {
    for (real& v : values) v = static_cast<real>(deviation * random.normal());
  };
}

inline Init init_uniform(double bound) {
  return [=](std::span<real> values, const Shape&, RandomStream& random) {
    for (real& v : values) v = static_cast<real>(bound * (2 * random.uniform() - 1));
  };
}

// U(-c, c) with c = gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010). The fans of a weight
// [out, in] are in and out / stacked, where `stacked` is the number of matrices stacked in it.
inline Init init_xavier_uniform(double gain = 1, int stacked = 1) {
  return [=](std::span<real> values, const Shape& shape, RandomStream& random) {
    const double fans = shape.cols() + static_cast<double>(shape.rows()) / stacked;
    init_uniform(gain * std::sqrt(6 / fans))(values, shape, random);
  };
}

// U(-c, c) with c = sqrt(6 / fan_in), for layers followed by ReLU (He et al. 2015).
inline Init init_kaiming_uniform() {
  return [](std::span<real> values, const Shape& shape, RandomStream& random) {
    init_uniform(std::sqrt(6.0 / shape.cols()))(values, shape, random);
  };
}

// ---- parameters

class Parameters;

class Scope {
 public:
  Scope operator/(std::string_view child) const {
    return Scope(*parameters_, path_.empty() ? std::string(child) : path_ + "." + std::string(child));
  }
  Scope operator/(int index) const { return *this / std::to_string(index); }

  // A new parameter of this name; by default, matrices have weight decay. Throws ArgumentError if the name is taken,
  // StateError within an initialiser or while the parameters are Fixed.
  Tensor parameter(std::string_view name, const Shape& shape, const Init& init, std::optional<bool> decay = {}) const;
  // A tensor that lives as long as the parameters but is neither trained nor saved.
  Tensor constant(const Shape& shape, const Init& init) const;

  // Values that are saved with the parameters but not trained: running statistics. Their gradient stays zero.
  Tensor buffer(std::string_view name, const Shape& shape, const Init& init) const;

  const std::string& path() const { return path_; }
  RegionName region() const { return RegionName(path_); }  // for the module's calls (region.h)

 private:
  friend class Parameters;
  Scope(Parameters& parameters, std::string path) : parameters_(&parameters), path_(std::move(path)) {}

  Parameters* parameters_;
  std::string path_;
};

class Parameters {
 public:
  struct Entry {
    std::string name;
    Shape shape;
    std::size_t offset;  // of its first element in the flat blocks
    bool decay;
    bool is_buffer;
    bool trained;  // neither a buffer nor frozen
    Tensor tensor;
    std::size_t size() const { return static_cast<std::size_t>(shape.numel()); }
  };

  // `most` caps the number of values, so that a small corrupt file cannot make us allocate a huge model: beyond it
  // Scope::parameter throws ArgumentError; Scope::constant beyond `most` or 2^24, whichever is more.
  explicit Parameters(std::uint64_t seed, std::size_t most = Shape::kMaxElements) : seed_(seed), most_(most) {}
  ~Parameters();
  // Movable: modules, their tensors and views of these stay valid with the new object. Whatever refers to the object
  // itself (scopes, optimisers, a Trainer) must be made after the move.
  Parameters(Parameters&& other) : Parameters(other.seed_, other.most_) { *this = std::move(other); }
  Parameters& operator=(Parameters&& other) noexcept;

  Scope root() { return Scope(*this, ""); }

  // For writing; to read only, use std::as_const(parameters).values(). Backward through ops that used the previous
  // values then throws StateError; if you keep the span and write to it later, call changed().
  std::span<real> values() { return changed(), std::span(values_.as<real>(), size_); }
  void changed() {
    for (const Entry& entry : entries_) mark_changed(entry.tensor.node());
  }
  std::span<real> gradients() { return {gradients_.as<real>(), size_}; }
  std::span<const real> values() const { return {values_.as<real>(), size_}; }
  std::span<const real> gradients() const { return {gradients_.as<real>(), size_}; }
  void zero_gradients() { std::ranges::fill(gradients(), real{0}); }

  // Freezes the parameters whose names begin with `prefix` or, with false, unfreezes them. Backward computes nothing
  // for frozen parameters, optimisers and weight decay leave them alone, and checks skip them; they are saved like the
  // others. Throws ArgumentError if there are none.
  void freeze(std::string_view prefix, bool frozen = true);

  const std::deque<Entry>& entries() const { return entries_; }
  const Entry* find(std::string_view name) const;  // null if there is none
  std::size_t count() const;                       // trained scalars: without buffers, frozen ones and padding
  std::uint64_t seed() const { return seed_; }

  // While one is in scope, nothing can be added, since something refers to the blocks or the entries, which may move:
  // a step of a Trainer, gradient_check. `when` ends the error's message: "during a training step".
  class Fixed {
   public:
    Fixed(Parameters& parameters, const char* when) : when_(parameters.fixed_when_, when) {}

   private:
    ScopedValue<const char*> when_;
  };

  // While one is in scope, new parameters and buffers are zero instead of drawn: their values will come from a file.
  class Undrawn {
   public:
    explicit Undrawn(Parameters& parameters) : draws_(parameters.draws_, false) {}

   private:
    ScopedValue<bool> draws_;
  };

 private:
  friend class Scope;
  void check_grows(std::string_view name) const;
  void reserve(std::size_t size);
  Tensor add(std::string name, const Shape& shape, const Init& init, bool decay, bool trained);
  Tensor add_constant(const Shape& shape, const Init& init);

  std::uint64_t seed_;
  std::size_t most_;
  std::deque<Entry> entries_;
  Memory values_, gradients_;
  std::size_t size_ = 0, capacity_ = 0;
  const char* fixed_when_ = nullptr;  // set by Fixed
  bool draws_ = true;                 // initial values; set by Undrawn
  std::size_t constants_size_ = 0;
  std::vector<Memory> constant_values_;
  std::vector<Node*> constants_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo

// Parameters: the trainable values of a model, in one flat block, with their gradients in another.
//
// Modules ask a Scope, a path into the Parameters, for what they need; the path becomes the name:
//
//   Parameters parameters(seed);
//   Linear up(parameters.root() / "ffn" / "up", 32, 64);   // "ffn.up.weight", "ffn.up.bias"
//
// Initial values depend only on the seed and the name. Optimisers and checkpoints see flat blocks, padded with zeros.
#pragma once

#include "../autograd/core/check.h"
#include "../autograd/core/leaf.h"
#include "../autograd/core/memory.h"
#include "../autograd/core/random.h"
#include "../autograd/core/region.h"
#include "../autograd/core/scoped_value.h"
#include "init.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct ModelSizeError : ArgumentError {  // a model has more values than its Parameters may hold
  using ArgumentError::ArgumentError;
};

class Parameters;

class Scope {
 public:
  Scope operator/(std::string_view child) const {
    return Scope(*parameters_, path_.empty() ? std::string(child) : path_ + "." + std::string(child), initialisation_);
  }
  Scope operator/(int index) const { return *this / std::to_string(index); }
  // The same path, whose modules, and those below it, draw their initial values in this way (init.h).
  Scope with(Initialisation initialisation) const { return Scope(*parameters_, path_, initialisation); }

  // A new parameter of this name; by default, matrices have weight decay. Throws ArgumentError if the name is taken,
  // StateError within an initialiser or while the parameters are Fixed.
  Tensor parameter(std::string_view name, const Shape& shape, const Init& init, std::optional<bool> decay = {}) const;
  // A tensor that lives as long as the parameters but is neither trained nor saved.
  Tensor constant(const Shape& shape, const Init& init) const;

  // Values that are saved with the parameters but not trained: running statistics. Their gradient stays zero.
  Tensor buffer(std::string_view name, const Shape& shape, const Init& init) const;

  const std::string& path() const { return path_; }
  Initialisation initialisation() const { return initialisation_; }
  RegionName region() const { return RegionName(path_); }  // for the module's calls (region.h)

 private:
  friend class Parameters;
  Scope(Parameters& parameters, std::string path, Initialisation initialisation)
      : parameters_(&parameters), path_(std::move(path)), initialisation_(initialisation) {}

  Parameters* parameters_;
  std::string path_;
  Initialisation initialisation_;
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
  // Scope::parameter throws ModelSizeError; Scope::constant beyond `most` or 2^24, whichever is more.
  explicit Parameters(std::uint64_t seed, std::size_t most = Shape::kMaxElements) : seed_(seed), most_(most) {}
  ~Parameters();
  // Movable: modules, their tensors and views of these stay valid with the new object. Whatever refers to the object
  // itself (scopes, optimisers, a Trainer) must be made after the move.
  Parameters(Parameters&& other) : Parameters(other.seed_, other.most_) { *this = std::move(other); }
  Parameters& operator=(Parameters&& other) noexcept;

  Scope root() { return Scope(*this, "", Initialisation::seppo); }

  std::span<const real> values() const { return {values_.as<real>(), size_}; }
  // The values, to be written. Backward through ops that used the previous ones then throws StateError; if you keep the
  // span and write to it later, call changed().
  std::span<real> edit() {
    changed();
    return {values_.as<real>(), size_};
  }
  void changed() {
    for (const Entry& entry : entries_) mark_changed(entry.tensor.node());
  }

  std::span<const real> gradients() const { return {gradients_.as<real>(), size_}; }
  std::span<real> gradients() { return {gradients_.as<real>(), size_}; }
  void zero_gradients();

  // Elements of the flat blocks.
  struct Run {
    std::size_t begin, end;
  };
  // What is trained, in order, with the padding between. Gradients of anything else are zero, in memory that is never
  // touched and so costs nothing.
  std::span<const Run> trained_runs() const { return trained_runs_; }

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
  void note_trained(const Entry& entry);
  Tensor add(std::string name, const Shape& shape, const Init& init, bool decay, bool trained);
  void initialise(Entry& entry, const Init& init);
  Tensor add_constant(const Shape& shape, const Init& init);

  std::uint64_t seed_;
  std::size_t most_;
  std::deque<Entry> entries_;
  std::unordered_map<std::string_view, const Entry*> by_name_;
  Memory values_, gradients_;
  std::size_t size_ = 0, capacity_ = 0;
  const char* fixed_when_ = nullptr;  // set by Fixed
  bool draws_ = true;                 // initial values; set by Undrawn
  std::size_t constants_size_ = 0;
  std::vector<Memory> constant_values_;
  std::vector<Node*> constants_;
  std::vector<Run> trained_runs_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo

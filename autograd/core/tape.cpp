// The tape: nodes, the record and the reverse walk.
#include "tape.h"

#include "check.h"
#include "gradient.h"
#include "guards.h"
#include "leaf.h"
#include "node_pool.h"
#include "observer.h"
#include "region.h"
#include "scoped_value.h"

#include <algorithm>
#include <iterator>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

thread_local Tape* chosen_tape = nullptr;

}  // namespace

Tape*& Tape::chosen() { return chosen_tape; }

Tape& tape() {
  if (chosen_tape) return *chosen_tape;
  thread_local Tape own;
  return own;
}

Tape::~Tape() {
  truncate(0);
  for (Node* chunk : chunks_) give_back_chunk(chunk);
}

void Tape::clear() {
  check<StateError>(!in_backward_, "clear: called during backward, which needs the tape");
  truncate(0);
  ++random.step;
  random.site = 0;
  backwards_ = 0;
  longer_ = 0;
  longest_ = 0;
  ++clears_;
  arena_.reset();
}

void Tape::rewind(const Position& position) {
  if (position.clears != clears_) {  // everything on the tape is newer
    truncate(0);
    arena_.rewind({});
    return;
  }
  truncate(position.nodes);
  // Backward may have allocated gradients of older tensors after the position: they must stay.
  const bool keeps_gradients = in_backward_ || position.backwards != backwards_;
  if (position.nodes == 0 || !keeps_gradients) arena_.rewind(position.arena);
}

Node& Tape::node_at(std::size_t index) { return chunks_[index / kNodesPerChunk][index % kNodesPerChunk]; }

void Tape::truncate(std::size_t count) {
  for (std::size_t i = count; i < count_; ++i) node_at(i).kill();
  std::erase_if(uses_, [=](const Use& use) { return use.node >= count; });
  count_ = count;
}

Node& Tape::new_node(const Shape& shape, real* values) {
  if (count_ == chunks_.size() * kNodesPerChunk) {
    chunks_.reserve(chunks_.size() + 1);
    chunks_.push_back(take_chunk());
  }
  Node& node = node_at(count_);
  node.revive();
  node.tape = this;
  node.index = static_cast<std::uint32_t>(count_++);
  node.shape = shape;
  node.data = values;
  node.part = nullptr;
  if (const RegionName region = current_region(); !region.empty()) node.region = &region.text();
  return node;
}

Tensor Tape::create(const Shape& shape) {
  const Tensor made(new_node(shape, allocate<real>(static_cast<std::size_t>(shape.numel()))));
  notify(*this, &Observer::created, made);
  return made;
}

Tensor Tape::share(const Tensor& x, const Shape& shape, std::ptrdiff_t offset) {
  const Tensor leaf = leaf_of(x);
  if (!leaf.defined()) return create_external(shape, x.data() + offset);
  leaf.node();  // throws if its Parameters have ended
  const std::ptrdiff_t own = x.node().tape ? x.node().part->offset : 0;
  const LeafPart part{leaf, own + offset};
  const Tensor made = create_external(shape, nullptr);
  made.node().part = new (allocate<LeafPart>(1)) LeafPart(part);
  return made;
}

Tensor Tape::view(const Tensor& base, const Shape& shape, std::ptrdiff_t offset) {
  const Tensor made = share(base, shape, offset);
  made.node().base = &base.node();
  made.node().requires_grad = base.requires_grad() && records();
  begin_record("view", made, {&base, 1});
  return made;
}

bool Tape::begin_record(const char* op, const Tensor& output, std::span<const Tensor> inputs) {
  while (!inputs.empty() && !inputs.back().defined()) inputs = inputs.first(inputs.size() - 1);
  bool requires_grad = output.requires_grad();  // it may depend on more than the inputs
  bool has_parameter = false;
  for (const Tensor& input : inputs) {
    check_owned(op, input);
    const Node& node = input.node();
    requires_grad |= node.requires_grad;
    has_parameter |= !node.tape || node.part;
  }
  output.node().op = op;
  notify(*this, &Observer::forward, output, inputs);
  if (!requires_grad || !records()) return false;
  check<StateError>(!in_backward_, op, ": recorded during backward; second derivatives are not supported: compute on ",
                    "the values, or within NoGrad");
  if (has_parameter) note_uses(output, inputs);
  return true;
}

void Tape::note_uses(const Tensor& output, std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    const Tensor leaf = leaf_of(input);
    if (leaf.defined()) uses_.push_back({output.node().index, leaf.node().version, leaf});
  }
}

void Tape::use_settings_of(const Tape& other) {
  mode = other.mode;
  recording = other.recording;
  recomputes = other.recomputes;
  sees_a_part = other.sees_a_part;
  redirect_ = other.redirect_;
  observers_ = other.observers_;
}

void Tape::check_owned(const char* op, const Tensor& tensor) const {
  const Tape* owner = tensor.node().tape;
  check<StateError>(owner == nullptr || owner == this, op, ": tensor ", tensor, " belongs to another tape or thread: ",
                    "make it where it is used, such as inside the loss, or with Scope::constant; pass it to "
                    "checkpoint() as an input");
}

real* Tape::leaf_gradient(const Tensor& leaf) const {
  real* const grad = leaf.node().grad;
  if (!redirect_ || leaf.numel() == 0) return grad;
  const auto offset = reinterpret_cast<std::uintptr_t>(grad) - reinterpret_cast<std::uintptr_t>(redirect_->home.data());
  check<StateError>(offset < redirect_->home.size_bytes(), "gradient: ", leaf,
                    " is not among the Parameters that this step trains: freeze it, or compute with it within NoGrad");
  return redirect_->target + offset / sizeof(real);
}

void Tape::backward(const Tensor& loss) {
  check(loss.numel() == 1, "backward: the loss must have one element, got ", loss,
        "; give a cotangent for any other shape");
  constexpr real kOne = 1;
  backward(loss, {&kOne, 1});
}

void Tape::backward(const Tensor& output, std::span<const real> cotangent) {
  check_owned("backward", output);
  check<StateError>(!NoBackward::is_in_scope(),
                    "backward: called by a loss that was given to a Trainer, which runs backward on ",
                    "what the loss returns");
  check<StateError>(output.requires_grad(), "backward: output ", output,
                    " does not depend on a tensor that requires a gradient, or was computed in eval mode");
  check(cotangent.size() == output.numel(), "backward: cotangent has ", cotangent.size(), " elements, output ", output,
        " has ", output.numel());
  check<StateError>(!in_backward_, "backward: called during backward");
  expect_clear();
  real* const grad = grad_of(output);
  for (std::size_t i = 0; i < cotangent.size(); ++i) grad[i] += cotangent[i];
  ++backwards_;
  if (output.node().tape) run_backward(output.node().index);
}

// A loop that forgets clear() runs backward on a tape that has grown each time. One backward for each of many outputs
// of the same graph is no such loop.
void Tape::expect_clear() {
  constexpr std::size_t kMost = 10'000;
  if (count_ <= longest_) return;
  check<StateError>(longer_ + 1 < kMost, "backward: called ", kMost,
                    " times since tape().clear(), and the tape has grown each time, to ", count_,
                    " tensors: each step should call clear()");
  longest_ = count_;
  ++longer_;
}

void Tape::check_unchanged(const Use& use) {
  const Node& leaf = use.leaf.node();
  if (leaf.version == use.version) [[likely]]
    return;
  const Node& op = node_at(use.node);
  fail<StateError>("backward: ", leaf.name() ? *leaf.name() : "a parameter", " has changed since ", op.op,
                   op.region ? " in " + *op.region : "",
                   " used it: finish the backward pass before a step, or run forward again");
}

void Tape::recycle_gradient(Node& node) {
  arena_.recycle(node.grad, static_cast<std::size_t>(node.shape.numel()) * sizeof(real));
  node.grad = nullptr;
}

void Tape::run_closure(Node& node) {
  if (node.retains_grad) keep_gradient(node);
  const Tensor output(node);
  notify(*this, &Observer::backward_begins, output);
  node.backward(node.closure);
  notify(*this, &Observer::backward, output);
  recycle_gradient(node);
}

void Tape::run_backward(std::size_t from) {
  // Ops are recorded in the order of their outputs, except those that run other ops meanwhile.
  if (!std::ranges::is_sorted(uses_, {}, &Use::node)) std::ranges::sort(uses_, {}, &Use::node);
  auto use = std::ranges::upper_bound(uses_, from, {}, &Use::node);
  const ScopedValue<bool> running(in_backward_, true);
  std::size_t left = from + 1;
  try {
    for (; left > 0; --left) {
      Node& node = node_at(left - 1);
      const bool is_reached = node.backward && node.grad;
      for (; use != uses_.begin() && std::prev(use)->node == node.index; --use)
        if (is_reached) check_unchanged(*std::prev(use));
      if (is_reached) run_closure(node);
    }
  } catch (...) {  // drop the gradients of intermediate tensors
    while (left-- > 0)
      if (Node& node = node_at(left); node.backward && node.grad) recycle_gradient(node);
    throw;
  }
}

void Tape::keep_gradient(Node& node) {
  const auto n = static_cast<std::size_t>(node.shape.numel());
  if (!node.retained) {
    node.retained = allocate<real>(n);
    std::fill_n(node.retained, n, real{0});
  }
  for (std::size_t i = 0; i < n; ++i) node.retained[i] += node.grad[i];
}

}  // namespace SEPPO_ABI
}  // namespace seppo

// The tape: nodes, the record, the reverse walk, and the pool that nodes come from. Also the interned names of regions,
// the current region of each thread, and error messages, which end with that region.
#include "tape.h"

#include "check.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <mutex>
#include <unordered_set>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Nodes of destroyed tapes and leaves wait here for reuse, in lists linked by `base`; they are never freed, so that
// stale handles can always be recognised. The pool is leaked on purpose: destructors of static objects may still
// examine handles.
struct NodePool {
  std::mutex mutex;
  Node *chunks = nullptr, *leaves = nullptr;
};

NodePool& pool() {
  static NodePool* const pool = new NodePool;
  return *pool;
}

// The first of `size` nodes in a row; a list always has the same size.
Node* take(Node* NodePool::*list, std::size_t size) {
  const std::lock_guard lock(pool().mutex);
  Node*& first = pool().*list;
  return first ? std::exchange(first, first->base) : new Node[size];
}

void give_back(Node* NodePool::*list, Node* nodes) {
  const std::lock_guard lock(pool().mutex);
  nodes->base = std::exchange(pool().*list, nodes);
}

void kill(Node& node) { node.generation += node.generation % 2; }

// Resets everything but the generation, which only grows.
void revive(Node& node) {
  const std::uint64_t generation = node.generation;
  std::construct_at(&node)->generation = generation + 1;
}

thread_local Tape* chosen_tape = nullptr;
thread_local bool has_no_backward = false;
thread_local RegionName current_name;

}  // namespace

Tape*& Tape::chosen() { return chosen_tape; }
bool& NoBackward::is_in_scope() { return has_no_backward; }

Tape& tape() {
  if (chosen_tape) return *chosen_tape;
  thread_local Tape own;
  return own;
}

Tape::~Tape() {
  truncate(0);
  for (Node* chunk : chunks_) give_back(&NodePool::chunks, chunk);
}

void Tape::clear() {
  check<StateError>(!in_backward_, "clear: called during backward, which needs the tape");
  truncate(0);
  if (random.advances) ++random.step, random.site = 0;
  backwards_ = 0, ++clears_;
  arena_.reset();
}

void Tape::truncate(std::size_t count) {
  for (std::size_t i = count; i < count_; ++i) kill(node_at(i));
  std::erase_if(uses_, [=](const Use& use) { return use.node >= count; });
  count_ = count;
}

Node& Tape::new_node(const Shape& shape, real* values) {
  if (count_ == chunks_.size() * kChunk) {
    chunks_.reserve(chunks_.size() + 1);
    chunks_.push_back(take(&NodePool::chunks, kChunk));
  }
  Node& node = node_at(count_);
  revive(node);
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
  const LeafPart part{leaf, x.data() - leaf.data() + offset};
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
  bool requires_grad = output.requires_grad(), has_parameter = false;  // it may depend on more than the inputs
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
  for (const Tensor& input : has_parameter ? inputs : std::span<const Tensor>())
    if (const Tensor leaf = leaf_of(input); leaf.defined())
      uses_.push_back({output.node().index, leaf.node().index, leaf});
  return true;
}

void Tape::use_settings_of(const Tape& other) {
  mode = other.mode;
  recording = other.recording, recomputes = other.recomputes;
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
  real* const grad = grad_of(output);
  for (std::size_t i = 0; i < cotangent.size(); ++i) grad[i] += cotangent[i];
  constexpr std::size_t kMany = 1000;
  static std::once_flag told;
  if (++backwards_ == kMany)
    std::call_once(told, [this] {
      std::fprintf(stderr,
                   "seppo: backward has run %zu times since tape().clear(), which each step should call; the tape "
                   "holds %zu tensors\n",
                   kMany, count_);
    });
  if (output.node().tape) run_backward(output.node().index);
}

void Tape::check_unchanged(const Use& use) {
  const Node& leaf = use.leaf.node();
  if (leaf.index == use.version) [[likely]]
    return;
  const Node& op = node_at(use.node);
  fail<StateError>("backward: ", leaf.name() ? *leaf.name() : "a parameter", " has changed since ", op.op,
                   op.region ? " in " + *op.region : "",
                   " used it: finish the backward pass before a step, or run forward again");
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
      if (!is_reached) continue;
      if (node.retains_grad) keep_gradient(node);
      const Tensor output(node);
      notify(*this, &Observer::backward_begins, output);
      node.backward(node.closure);
      notify(*this, &Observer::backward, output);
      recycle_gradient(node);
    }
  } catch (...) {  // drop the gradients of intermediate tensors
    while (left-- > 0)
      if (Node& node = node_at(left); node.backward && node.grad) recycle_gradient(node);
    throw;
  }
}

void Tape::recycle_gradient(Node& node) {
  arena_.recycle(node.grad, static_cast<std::size_t>(node.shape.numel()) * sizeof(real));
  node.grad = nullptr;
}

void Tape::keep_gradient(Node& node) {
  const auto n = static_cast<std::size_t>(node.shape.numel());
  if (!node.retained) {
    node.retained = allocate<real>(n);
    std::fill_n(node.retained, n, real{0});
  }
  for (std::size_t i = 0; i < n; ++i) node.retained[i] += node.grad[i];
}

Node& acquire_leaf(const Shape& shape, real* values, real* grads, const std::string* name) {
  Node& node = *take(&NodePool::leaves, 1);
  revive(node);
  node.requires_grad = true;
  node.shape = shape;
  node.data = values;
  node.grad = grads;
  node.leaf_name = name;
  return node;
}

void release_leaf(Node& node) {
  kill(node);
  give_back(&NodePool::leaves, &node);
}

// Never freed: nodes and messages may refer to a name at any time.
RegionName::RegionName(std::string_view text) {
  static auto* const mutex = new std::mutex;
  static auto* const names = new std::unordered_set<std::string>;
  if (text.empty()) return;
  const std::lock_guard lock(*mutex);
  text_ = &*names->emplace(text).first;
}

const std::string& RegionName::text() const {
  static const auto* const none = new std::string;
  return text_ ? *text_ : *none;
}

RegionName current_region() { return current_name; }

namespace detail {

void Part::add_number(std::string& text, double number) {
  char buffer[32];
  text.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr);
}

std::string concat(std::initializer_list<Part> parts) {
  std::string text;
  for (const Part& part : parts) part.append_to(text);
  return text;
}

std::string where() { return current_name.empty() ? "" : " (in " + current_name.text() + ")"; }

}  // namespace detail

Region::Region(RegionName name) : name_(name), current_(current_name, name.empty() ? current_name : name) {}

const Tensor& Region::operator()(const Tensor& output) const {
  if (!name_.empty()) notify(tape(), &Observer::region_output, name_.text(), output);
  return output;
}

}  // namespace SEPPO_ABI
}  // namespace seppo

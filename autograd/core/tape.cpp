#include "../kernels/kernels.h"
#include "observer.h"
#include "region.h"
#include "tape.h"

#include <algorithm>
#include <mutex>

namespace seppo::inline SEPPO_ABI {
namespace {

// Nodes of tapes and leaves that are gone wait here for reuse; they are never given back, so that a
// stale handle can always be recognised. Allocated once and leaked on purpose: handles may be
// examined by destructors of static objects.
struct NodePool {
  std::mutex mutex;
  std::vector<Node*> chunks;  // free ones; there is always room for all that were made, so that giving back
  std::vector<Node*> leaves;  // one, in a destructor, cannot fail
  std::size_t chunks_made = 0, leaves_made = 0;
};

NodePool& pool() {
  static NodePool* const pool = new NodePool;
  return *pool;
}

Node* take_chunk(std::size_t size) {
  NodePool& p = pool();
  const std::lock_guard lock(p.mutex);
  if (p.chunks.empty()) {
    p.chunks.reserve(p.chunks_made + 1);
    Node* const chunk = new Node[size];
    ++p.chunks_made;
    return chunk;
  }
  Node* chunk = p.chunks.back();
  p.chunks.pop_back();
  return chunk;
}

void kill(Node& node) { node.generation += node.generation % 2; }

// Resets everything but the generation, which only grows.
void revive(Node& node) {
  const std::uint64_t generation = node.generation + 1;
  node = Node{};
  node.generation = generation;
}

thread_local Tape* current = nullptr;

}  // namespace

Tape& tape() {
  if (current) return *current;
  thread_local Tape own;
  return own;
}

UseTape::UseTape(Tape& other) : previous_(current) { current = &other; }
UseTape::~UseTape() { current = previous_; }

Tape::~Tape() {
  truncate(0);
  NodePool& p = pool();
  const std::lock_guard lock(p.mutex);
  for (Node* chunk : chunks_) p.chunks.push_back(chunk);
}

void Tape::clear() {
  truncate(0);
  arena_.reset();
}

void Tape::truncate(std::size_t count) {
  for (std::size_t i = count; i < count_; ++i) kill(node_at(i));
  count_ = count;
}

Node& Tape::new_node(const Shape& shape) {
  if (count_ == chunks_.size() * kChunk) {
    chunks_.reserve(chunks_.size() + 1);
    chunks_.push_back(take_chunk(kChunk));
  }
  Node& node = node_at(count_);
  revive(node);
  node.tape = this;
  node.index = static_cast<std::uint32_t>(count_++);
  node.shape = shape;
  if (const RegionName region = current_region(); !region.empty()) node.region = &region.text();
  return node;
}

Tensor Tape::create(const Shape& shape) {
  auto* values = static_cast<real*>(arena_.allocate(static_cast<std::size_t>(shape.numel()) * sizeof(real)));
  Node& node = new_node(shape);
  node.data = values;
  node.in_arena = true;
  const Tensor made(node);
  for (const ObserverLink* link = observers_; link; link = link->next) link->observer.created(made);
  return made;
}

Tensor Tape::create_external(const Shape& shape, real* values) {
  Node& node = new_node(shape);
  node.data = values;
  return Tensor(node);
}

Tensor Tape::view(const Tensor& base, const Shape& shape, std::ptrdiff_t offset) {
  Node& source = base.node();
  Node& node = new_node(shape);
  node.base = source.base ? source.base : &source;
  node.offset = source.offset + offset;
  node.data = source.data + offset;
  node.requires_grad = source.requires_grad && records();
  const Tensor made(node);
  notes("view", made, {&base, 1});
  return made;
}

bool Tape::notes(const char* op, const Tensor& output, std::span<const Tensor> inputs) {
  bool wanted = false;
  for (const Tensor& input : inputs) {
    check_owned(input);
    wanted |= input.requires_grad();
  }
  output.node().op = op;
  for (const ObserverLink* link = observers_; link; link = link->next) link->observer.forward(output, inputs);
  if (!wanted || !records()) return false;
  check<StateError>(!in_backward_, op, ": recorded during backward; second derivatives are not supported: compute on ",
                    "the values, or within NoGrad");
  return true;
}

Tape& Tape::inner() {
  if (!inner_) inner_ = std::make_unique<Tape>();
  inner_->clear();
  inner_->mode = mode;
  inner_->recording = recording;
  inner_->redirect_ = redirect_;
  inner_->observers_ = observers_;
  return *inner_;
}

void Tape::check_owned(const Tensor& tensor) const {
  const Tape* owner = tensor.node().tape;
  check<StateError>(owner == nullptr || owner == this, "tape: tensor ", tensor, " belongs to another tape or thread");
}

real* Tape::leaf_gradient(real* grad) const {
  const auto offset = reinterpret_cast<std::uintptr_t>(grad) - reinterpret_cast<std::uintptr_t>(redirect_.home.data());
  return offset < redirect_.home.size_bytes() ? redirect_.target + offset / sizeof(real) : grad;
}

namespace {

constexpr real kOne = 1;

std::span<const real> cotangent_of_loss(const Tensor& loss) {
  check(loss.numel() == 1, "backward: the loss must have one element, got ", loss,
        "; give a cotangent for any other shape");
  return {&kOne, 1};
}

}  // namespace

void Tape::backward(const Tensor& loss) { start_backward(loss, cotangent_of_loss(loss), false); }

void Tape::backward(const Tensor& output, std::span<const real> cotangent) { start_backward(output, cotangent, false); }

void Tape::backward_and_clear(const Tensor& loss) {
  start_backward(loss, cotangent_of_loss(loss), true);
  clear();
}

void Tape::start_backward(const Tensor& output, std::span<const real> cotangent, bool clears) {
  check_owned(output);
  check<StateError>(output.requires_grad(), "backward: output ", output,
                    " does not depend on a tensor that requires a gradient, or was computed in eval mode");
  check(cotangent.size() == output.numel(), "backward: cotangent has ", cotangent.size(), " elements, output ", output,
        " has ", output.numel());
  check<StateError>(!in_backward_, "backward: called during backward");
  if (clears) forget_gradients();
  const auto [grad, beta] = grad_target(output);
  kernels::axpy(grad, beta, cotangent.data(), 1, cotangent.size());
  if (output.node().tape) run_backward(output.node().index, clears);
}

void Tape::run_backward(std::size_t from, bool clears) {
  // In an exception's way out: gradients under way are dropped.
  struct Running {
    Tape& tape;
    std::size_t next;
    explicit Running(Tape& t, std::size_t from) : tape(t), next(from + 1) { t.in_backward_ = true; }
    ~Running() {
      tape.in_backward_ = false;
      while (next-- > 0)
        if (Node& node = tape.node_at(next); node.backward && node.grad) tape.release(node);
    }
  } running(*this, from);
  while (running.next > 0) {
    Node& node = node_at(running.next - 1);
    if (node.backward && node.grad) {
      if (node.retain_grad) keep_gradient(node);
      const Tensor output(node);
      for (const ObserverLink* link = observers_; link; link = link->next) link->observer.backward_begins(output);
      node.backward(node.closure);
      for (const ObserverLink* link = observers_; link; link = link->next) link->observer.backward(output);
      release(node);
    }
    --running.next;
    if (clears) forget_from(running.next);
  }
}

// Nothing reads the node `index` and those after it any more, nor what was allocated since that node's values.
void Tape::forget_from(std::size_t index) {
  truncate(index);
  if (const Node& node = node_at(index); node.in_arena) arena_.unwind_to(node.data);
}

// Those of leaves on the tape, left by an earlier backward in memory that is about to be given away.
void Tape::forget_gradients() {
  for (std::size_t i = 0; i < count_; ++i) node_at(i).grad = node_at(i).retained = nullptr;
  arena_.start_unwinding();
}

void Tape::release(Node& node) {
  arena_.recycle(node.grad, static_cast<std::size_t>(node.shape.numel()) * sizeof(real));
  node.grad = nullptr;
  node.released = true;
}

void Tape::keep_gradient(Node& node) {
  const auto n = static_cast<std::size_t>(node.shape.numel());
  if (!node.retained) {
    node.retained = allocate<real>(n);
    std::fill_n(node.retained, n, real{0});
  }
  for (std::size_t i = 0; i < n; ++i) node.retained[i] += node.grad[i];
}

// ---- Tensor -------------------------------------------------------------------------------------

real Tensor::item() const {
  check(numel() == 1, "item: the tensor must have one element, got ", *this);
  return *data();
}

const Tensor& Tensor::retain_grad() const {
  Node& n = node();
  (n.base ? n.base : &n)->retain_grad = true;
  return *this;
}

real* grad_of(const Tensor& x) {
  const GradTarget target = grad_target(x);
  if (target.beta == 0) std::fill_n(target.grad, x.numel(), real{0});
  return target.grad;
}

GradTarget grad_target(const Tensor& x) {
  Node& n = x.node();
  if (n.base) {
    const Tensor base(*n.base);
    const bool is_whole = n.shape.numel() == n.base->shape.numel();
    const GradTarget target = is_whole ? grad_target(base) : GradTarget{grad_of(base), 1};
    return {target.grad + n.offset, target.beta};
  }
  if (!n.tape) return {tape().leaf_gradient(n.grad), 1};
  if (n.grad) return {n.grad, 1};
  n.grad = static_cast<real*>(n.tape->arena().allocate_recycled(x.numel() * sizeof(real)));
  return {n.grad, 0};
}

std::span<const real> Tensor::grad() const {
  Node& n = node();
  check<StateError>(n.requires_grad, "grad: tensor ", *this, " does not require a gradient");
  Node& owner = n.base ? *n.base : n;
  if (!owner.backward) return {grad_of(*this), numel()};
  check<StateError>(owner.retain_grad, "grad: that of intermediate tensor ", *this,
                    owner.released ? " was recycled by backward" : " is not kept",
                    "; call retain_grad() on it before backward");
  if (!owner.retained) {
    owner.retained = owner.tape->allocate<real>(static_cast<std::size_t>(owner.shape.numel()));
    std::fill_n(owner.retained, static_cast<std::size_t>(owner.shape.numel()), real{0});
  }
  return {owner.retained + n.offset, numel()};
}

std::string Tensor::describe() const {
  const Node& n = node();
  const std::string* name = n.base ? n.base->name : n.name;
  return name ? n.shape.str() + " (" + *name + ")" : n.shape.str();
}

void Tensor::stale() const {
  if (!node_) fail<StateError>("tensor: an empty handle was used");
  fail<StateError>("tensor: stale handle; its tape was cleared, or rewound, after it was made");
}

// ---- leaves -------------------------------------------------------------------------------------

Node& acquire_leaf(const Shape& shape, real* values, real* grads, const std::string* name) {
  NodePool& p = pool();
  const std::lock_guard lock(p.mutex);
  if (p.leaves.empty()) {
    p.leaves.reserve(p.leaves_made + 64);
    Node* chunk = new Node[64];
    p.leaves_made += 64;
    for (int i = 63; i >= 0; --i) p.leaves.push_back(chunk + i);
  }
  Node& node = *p.leaves.back();
  p.leaves.pop_back();
  revive(node);
  node.requires_grad = true;
  node.shape = shape;
  node.data = values;
  node.grad = grads;
  node.name = name;
  return node;
}

void release_leaf(Node& node) {
  kill(node);
  NodePool& p = pool();
  const std::lock_guard lock(p.mutex);
  p.leaves.push_back(&node);
}

}  // namespace seppo::inline SEPPO_ABI

// The memory of a step: pieces of the arena, and gradients that take the room of what backward has passed.
#define BOOST_TEST_MODULE arena
#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/ops.h>
#include <seppo/autograd/tools/checkpointing.h>
#include <seppo/models/transformer.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string_view>
#include <vector>

using namespace seppo;

namespace {

// The pieces that are in use; no two may overlap.
class Pieces {
 public:
  void add(void* piece, std::size_t bytes) {
    auto* const begin = static_cast<std::byte*>(piece);
    const auto next = pieces_.lower_bound(begin);
    BOOST_REQUIRE(next == pieces_.end() || begin + bytes <= next->first);
    BOOST_REQUIRE(next == pieces_.begin() || std::prev(next)->first + std::prev(next)->second <= begin);
    pieces_[begin] = bytes;
  }
  std::size_t remove(void* piece) {
    const auto found = pieces_.find(static_cast<std::byte*>(piece));
    const std::size_t bytes = found->second;
    pieces_.erase(found);
    return bytes;
  }

 private:
  std::map<std::byte*, std::size_t> pieces_;
};

// Forward allocates, with scratch memory that comes and goes; backward unwinds that while gradients come and go.
class Step {
 public:
  Step(Arena& arena, std::mt19937& random) : arena_(arena), random_(random) {}

  void forward(int pieces) {
    for (int i = 0; i < pieces; ++i) {
      if (random_() % 4 == 0) come(scratch_);
      if (random_() % 4 == 0) go(scratch_);
      const std::size_t bytes = random_bytes();
      values_.push_back(arena_.allocate(bytes));
      used_.add(values_.back(), bytes);
    }
    while (!scratch_.empty()) go(scratch_);
  }

  void backward() {
    arena_.start_unwinding();
    while (!values_.empty()) {
      come(gradients_);
      if (random_() % 2 == 0) come(gradients_);
      used_.remove(values_.back());
      if (random_() % 8 != 0) arena_.unwind_to(values_.back());  // several at once, too
      values_.pop_back();
      while (gradients_.size() > 3) go(gradients_);
    }
  }

 private:
  using Owned = std::vector<void*>;

  std::size_t random_bytes() { return 1 + random_() % (std::size_t{1} << (6 + random_() % 10)); }
  void come(Owned& owned) {
    const std::size_t bytes = random_bytes();
    owned.push_back(arena_.allocate_recycled(bytes));
    used_.add(owned.back(), bytes);
  }
  void go(Owned& owned) {
    if (owned.empty()) return;
    std::swap(owned[random_() % owned.size()], owned.back());
    arena_.recycle(owned.back(), used_.remove(owned.back()));
    owned.pop_back();
  }

  Arena& arena_;
  std::mt19937& random_;
  Pieces used_;
  Owned values_, scratch_, gradients_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(pieces_never_overlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    Arena arena;
    for (int step = 0; step < 5; ++step, arena.reset()) {  // the first in several blocks, later ones in one or two
      Step s(arena, random);
      s.forward(100);
      s.backward();
    }
  }
}

BOOST_AUTO_TEST_CASE(unwinding_makes_room_in_every_block) {
  constexpr std::size_t kBytes = 60'000;  // a block for each
  Arena arena;
  std::vector<void*> pieces;
  for (int i = 0; i < 3; ++i) pieces.push_back(arena.allocate(kBytes));
  const std::size_t used = arena.used();
  arena.start_unwinding();
  for (; !pieces.empty(); pieces.pop_back()) {
    arena.unwind_to(pieces.back());
    arena.allocate_recycled(kBytes - 8192);
    BOOST_CHECK_EQUAL(arena.used(), used);
  }
  arena.allocate_recycled(kBytes);
  BOOST_CHECK_GT(arena.used(), used);
}

BOOST_AUTO_TEST_CASE(the_newest_piece_goes_back_at_once) {
  Arena arena;
  arena.allocate(100);
  const std::size_t used = arena.used();
  void* const piece = arena.allocate_recycled(5000);
  arena.recycle(piece, 5000);
  BOOST_CHECK_EQUAL(arena.used(), used);
  BOOST_CHECK_EQUAL(arena.allocate(50), piece);
}

// Gradients of intermediates come and go in the same memory: backward of a long chain takes a few of them.
BOOST_AUTO_TEST_CASE(gradients_are_recycled) {
  Tape own;
  const UseTape use(own);
  constexpr int kLength = 100;
  const std::vector<real> ones(10'000, 1);
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second time in one block
    own.clear();
    const Tensor x = variable({10'000}, ones);
    Tensor y = x;
    for (int i = 0; i < kLength; ++i) y = tanh(y);
    const std::size_t forward = own.used();
    BOOST_CHECK_GE(forward, kLength * ones.size() * sizeof(real));
    own.backward(y, ones);
    BOOST_CHECK_LT(own.used() - forward, 6 * ones.size() * sizeof(real));
  }
}

namespace {

// Calls a function when backward of an op has ended.
class AfterBackward : public Observer {
 public:
  using Function = std::function<void(const Tensor& output)>;
  explicit AfterBackward(Function function) : function_(std::move(function)) {}
  void backward(const Tensor& output) override { function_(output); }

 private:
  Function function_;
};

}  // namespace

// Every gradient of the chain has a size of its own, so none fits where another was. What backward has passed has
// room for them.
BOOST_AUTO_TEST_CASE(clearing_on_the_way_makes_room_for_gradients) {
  constexpr int kRows = 100, kLargest = 100, kLength = 40;
  Tape own;
  const UseTape use(own);
  const std::vector<real> values(kRows * kLargest, real(0.01));
  const std::size_t largest = values.size() * sizeof(real);
  const auto growth = [&](bool clears) {
    own.clear();
    Tensor y = variable({kRows, kLargest}, values);
    for (int n = kLargest; n > kLargest - kLength; --n)
      y = linear(y, tensor({n - 1, n}, std::span(values).first(static_cast<std::size_t>(n * (n - 1)))));
    const Tensor loss = sum(y);
    const std::size_t forward = own.used();
    std::size_t most = 0;
    AfterBackward watch([&](const Tensor&) { most = std::max(most, own.used() - forward); });
    const Observe scope(watch);
    clears ? own.backward_and_clear(loss) : own.backward(loss);
    return most;
  };
  for (int repeat = 0; repeat < 2; ++repeat) {  // in several blocks, then in one
    BOOST_CHECK_GT(growth(false), 5 * largest);
    BOOST_CHECK_LT(growth(true), 3 * largest);
  }
}

BOOST_AUTO_TEST_CASE(clearing_on_the_way_gives_the_same_gradients) {
  Parameters parameters(5);
  const Transformer model(parameters.root(),
                          {.src_vocabulary = 9,
                           .tgt_vocabulary = 9,
                           .layer = {.d_model = 24, .n_heads = 3, .d_ff = 40, .dropout = 0.2, .norm = Norm::pre},
                           .enc_layers = 2,
                           .dec_layers = 2,
                           .max_length = 40});
  Ragged src, tgt;
  src.add(std::vector<int>(39, 4)), src.add(std::vector<int>{6, 7});
  tgt.add(std::vector<int>{1, 2, 3}), tgt.add(std::vector<int>{4, 5});
  const std::vector<int> next{2, 3, 4, 5, 6};
  const auto gradients = [&](bool clears) {
    Tape own;
    const UseTape use(own);
    std::vector<std::vector<real>> steps;
    for (std::uint32_t step = 0; step < 3; ++step) {  // in several blocks, then in one
      parameters.zero_gradients();
      own.random = {1, step, 0, 0};
      const Tensor gate = sigmoid(mean(model.tgt_embedding.weight, 1));
      const Tensor logits = checkpoint({model.logits(src, tgt)}, [](const auto& x) { return tanh(x[0]); });
      const Tensor scores = gelu_linear(logits * reshape(gate, {1, 9}), transpose(model.tgt_embedding.weight), {});
      const Tensor loss = cross_entropy(scores, next);
      mean(logits);  // made after what the loss needs, and not asked for
      clears ? own.backward_and_clear(loss) : own.backward(loss);
      if (clears) {
        BOOST_CHECK_THROW(loss.item(), StateError);
        BOOST_CHECK_THROW(gate.values(), StateError);
        BOOST_CHECK_EQUAL(own.size(), 0);
      }
      own.clear();
      steps.emplace_back(parameters.gradients().begin(), parameters.gradients().end());
    }
    return steps;
  };
  const auto plain = gradients(false), clearing = gradients(true);
  BOOST_CHECK(plain == clearing);
  BOOST_CHECK(plain[0] != plain[1]);
}

// A gradient that an earlier backward left on the tape lies where there will be others: it is forgotten.
BOOST_AUTO_TEST_CASE(clearing_on_the_way_forgets_earlier_gradients) {
  Tape own;
  const UseTape use(own);
  const std::vector<real> values{1, 2, 3};
  const Tensor x = variable({3}, values);
  own.backward(sum(x));
  bool is_seen = false;
  AfterBackward watch([&](const Tensor& output) {
    if (std::string_view(output.node().op) != "scale") return;
    is_seen = true;
    for (const real g : x.grad()) BOOST_CHECK_EQUAL(g, 5);
  });
  const Observe scope(watch);
  own.backward_and_clear(sum(scale(x, 5)));
  BOOST_CHECK(is_seen);
}

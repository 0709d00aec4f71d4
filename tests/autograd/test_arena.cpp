// The memory of a step: pieces of the arena, and gradients that are allocated and recycled.
#include <seppo/autograd/core/arena.h>
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <new>
#include <random>
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

// The forward pass allocates values, and recycles its scratch memory; the backward pass allocates and recycles nothing
// but gradients.
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
    for (std::size_t i = 0; i < values_.size(); ++i) {
      come(gradients_);
      if (random_() % 2 == 0) come(gradients_);
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
    for (int step = 0; step < 5; ++step, arena.reset()) {  // several blocks in the first, one or two in later ones
      Step s(arena, random);
      s.forward(100);
      s.backward();
    }
  }
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

// Gradients of intermediates are recycled: the backward pass of a long chain takes the memory of only a few.
BOOST_AUTO_TEST_CASE(gradients_are_recycled) {
  Tape own;
  const UseTape use(own);
  constexpr int kLength = 100;
  const std::vector<real> ones(10'000, 1);
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second time within a single block
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

// After a step that took several blocks, these are merged into one, which suffices for the next step of that size.
BOOST_AUTO_TEST_CASE(a_second_step_of_the_same_size_allocates_nothing) {
  Arena arena;
  const auto step = [&] {
    for (int i = 0; i < 50; ++i) arena.allocate(100'000);
    void* const piece = arena.allocate_recycled(300'000);
    arena.recycle(piece, 300'000);
  };
  step();
  const std::size_t used = arena.used();
  arena.reset();
  BOOST_CHECK_EQUAL(arena.used(), 0);
  const std::size_t capacity = arena.capacity();
  BOOST_CHECK_GE(capacity, used);
  void* const begin = arena.allocate(used);  // fits into the single block
  BOOST_CHECK_EQUAL(arena.capacity(), capacity);
  arena.reset();
  for (int repeat = 0; repeat < 3; ++repeat) {
    step();
    BOOST_CHECK_EQUAL(arena.capacity(), capacity);
    arena.reset();
    BOOST_CHECK_EQUAL(arena.allocate(0), begin);
    arena.reset();
  }
}

BOOST_AUTO_TEST_CASE(a_piece_goes_to_the_next_of_its_size_class) {
  Arena arena;
  void* const piece = arena.allocate_recycled(5000);
  arena.allocate(100);  // so that the piece is not the newest
  arena.recycle(piece, 5000);
  BOOST_CHECK_NE(arena.allocate_recycled(9000), piece);
  BOOST_CHECK_EQUAL(arena.allocate_recycled(4990), piece);
  BOOST_CHECK_NE(arena.allocate_recycled(4990), piece);  // no longer free
}

BOOST_AUTO_TEST_CASE(memory_that_is_not_there) {
  BOOST_CHECK_THROW(Memory(std::size_t{1} << 62), std::bad_alloc);
  BOOST_CHECK_THROW(Memory(std::size_t{1} << 62, /*huge=*/true), std::bad_alloc);
}

BOOST_AUTO_TEST_CASE(a_fresh_arena_holds_nothing) {
  Arena arena;
  BOOST_CHECK_EQUAL(arena.capacity(), 0u);
  BOOST_CHECK_EQUAL(arena.used(), 0u);
}

BOOST_AUTO_TEST_CASE(memory_that_is_reserved_is_one_block) {
  Arena arena;
  arena.reserve(std::size_t{1} << 20);
  BOOST_CHECK_EQUAL(arena.used(), 0u);
  const std::size_t capacity = arena.capacity();
  BOOST_CHECK_GE(capacity, std::size_t{1} << 20);
  auto* const begin = static_cast<std::byte*>(arena.allocate(300'000));
  BOOST_CHECK_GT(static_cast<std::byte*>(arena.allocate(300'000)), begin);
  BOOST_CHECK_EQUAL(arena.capacity(), capacity);
  arena.reserve(std::size_t{1} << 22);  // it is in use
  BOOST_CHECK_EQUAL(arena.capacity(), capacity);
  arena.reset();
  BOOST_CHECK_EQUAL(arena.capacity(), capacity);
  arena.reserve(1);
  BOOST_CHECK_EQUAL(arena.capacity(), capacity);
}

// Views: they find their values wherever those are, and their gradients are their own.
// needs: precision: double
#include "support/errors.h"

#include <seppo/autograd/ops.h>
#include <seppo/autograd/ops/ctc_loss.h>
#include <seppo/autograd/tools/checkpointing.h>
#include <seppo/nn/parameters.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace seppo;
using test::check_error;

namespace {

// Every way to make a view, of a tensor [4,4].
const std::map<std::string, std::function<Tensor(const Tensor&)>> kViews{
    {"reshape",
     [](const Tensor& x) {
       return reshape(x, {2, 8});
     }},
    {"slice", [](const Tensor& x) { return slice(x, 0, 1, 3); }},
    {"split", [](const Tensor& x) { return split(x, 2)[1]; }},
    {"chunk", [](const Tensor& x) { return chunk(x, 4)[2]; }},
    {"unsqueeze", [](const Tensor& x) { return unsqueeze(x, 0); }},
    {"squeeze",
     [](const Tensor& x) {
       return squeeze(reshape(x, {1, 4, 4}), 0);
     }},
    {"einsum", [](const Tensor& x) { return einsum("ij->ij", x); }},
    {"detach", [](const Tensor& x) { return detach(x); }},
    {"a view of views", [](const Tensor& x) { return slice(reshape(slice(x, 0, 1, 4), {12}), 0, 3, 9); }}};

std::vector<real> copied(std::span<const real> values) { return {values.begin(), values.end()}; }

// Values that can be told apart.
Init count_from(int first) {
  return [=](std::span<real> values, const Shape&, RandomStream&) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<real>(first) + static_cast<real>(i);
  };
}

// Twelve are so many that the blocks move several times, from operator new to mapped memory.
void add_parameters(const Scope& scope, int count = 12) {
  for (int i = 0; i < count; ++i) (scope / "more").parameter(std::to_string(i), {1 << (8 + i)}, init_constant(7));
}

}  // namespace

BOOST_AUTO_TEST_CASE(views_of_parameters_stay_right_when_the_blocks_move) {
  for (const auto& [name, view] : kViews) {
    BOOST_TEST_CONTEXT(name) {
      tape().clear();
      Parameters parameters(1);
      const Tensor w = parameters.root().parameter("w", {4, 4}, count_from(1));
      const Tensor v = view(w), y = square(v);
      const std::vector<real> before = copied(v.values()), squares = copied(y.values());
      const std::ptrdiff_t offset = v.data() - w.data();
      const real* const old_place = w.data();
      add_parameters(parameters.root());
      BOOST_REQUIRE(w.data() != old_place);
      BOOST_CHECK(v.data() == w.data() + offset);
      BOOST_CHECK(copied(v.values()) == before);
      BOOST_CHECK(copied(square(v).values()) == squares);
      if (!v.requires_grad()) continue;
      backward(sum(y) + sum(square(view(w))));
      std::vector<real> expected(w.numel());
      for (std::size_t i = 0; i < before.size(); ++i) expected[static_cast<std::size_t>(offset) + i] = 4 * before[i];
      BOOST_CHECK(copied(w.grad()) == expected);
      parameters.edit()[0] = 100;  // a view sees what changes
      BOOST_CHECK_EQUAL(reshape(v, {-1}).at(0), offset == 0 ? 100 : before[0]);
      BOOST_CHECK_THROW(backward(sum(y)), StateError);
    }
  }
}

// Backward functions look for values where they are by then.
BOOST_AUTO_TEST_CASE(ops_of_parameters_that_moved_since) {
  const std::vector<int> index{0, 2}, lengths{3};
  const std::vector<std::vector<int>> texts{{1}};
  const std::vector<std::pair<Shape, std::function<Tensor(const Tensor&)>>> ops{
      {{2}, [&](const Tensor& w) { return index_amax(zeros({3}), 0, index, w); }},
      {{3, 1, 2}, [&](const Tensor& w) { return ctc_loss(log_softmax(w), lengths, texts, {.blank = 0}); }},
      {{3, 1, 2}, [&](const Tensor& w) { return ctc_loss(w, lengths, texts, {.blank = 0}); }}};
  for (const auto& [shape, op] : ops) {
    std::vector<std::vector<real>> gradients;
    for (const bool moves : {false, true}) {
      tape().clear();
      Parameters parameters(1);
      const Tensor w = parameters.root().parameter("w", shape, count_from(1));
      const Tensor y = sum(op(w));
      const real* const old_place = w.data();
      if (moves) add_parameters(parameters.root());
      BOOST_CHECK_EQUAL(w.data() != old_place, moves);
      std::fill_n(tape().allocate<real>(1000), 1000, real{7});
      backward(y);
      gradients.push_back(copied(w.grad()));
    }
    BOOST_CHECK(gradients[0] == gradients[1]);
    BOOST_CHECK(gradients[0] != std::vector<real>(gradients[0].size()));
  }
}

BOOST_AUTO_TEST_CASE(views_of_parameters_end_with_them) {
  for (const auto& [name, view] : kViews) {
    BOOST_TEST_CONTEXT(name) {
      tape().clear();
      Tensor w, v, loss;
      {
        Parameters parameters(1);
        w = parameters.root().parameter("w", {4, 4}, count_from(1));
        v = view(w).retain_grad();
        loss = sum(square(v));
      }
      Parameters reuses_the_nodes(2);
      const Tensor other = reuses_the_nodes.root().parameter("other", {4, 4}, init_ones());
      for (const auto& use :
           std::vector<std::function<void()>>{[&] { v.values(); }, [&] { v.data(); }, [&] { square(v); },
                                              [&] { reshape(v, {-1}); }, [&] { detach(v); }, [&] { v.describe(); }}) {
        BOOST_CHECK_EXCEPTION(use(), StateError, [](const StateError& e) {
          return std::string(e.what()) == "tensor: stale handle; the Parameters that its values belonged to have ended";
        });
      }
      if (v.requires_grad()) BOOST_CHECK_THROW(backward(loss), StateError);
      for (const real g : other.grad()) BOOST_CHECK_EQUAL(g, 0);
    }
  }
}

// What backward knows of an op's parameters does not refer to their Parameters' memory.
BOOST_AUTO_TEST_CASE(parameters_that_ended_are_not_asked_whether_they_changed) {
  tape().clear();
  Tensor loss;
  {
    Parameters parameters(1);
    loss = sum(square(parameters.root().parameter("a name that is long enough to be on the heap", {4}, init_ones())));
    parameters.changed();
  }
  Parameters reuses_the_nodes(2);
  reuses_the_nodes.root().parameter("other", {4}, init_ones());
  reuses_the_nodes.changed();
  BOOST_CHECK_EXCEPTION(backward(loss), StateError, [](const StateError& e) {
    return std::string(e.what()).find("Parameters that its values belonged to have ended") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(views_of_parameters_move_with_them) {
  tape().clear();
  std::optional<Parameters> first(std::in_place, 1);
  const Tensor w = first->root().parameter("w", {4, 4}, count_from(1)), v = reshape(w, {16}), loss = sum(square(v));
  Parameters second = std::move(*first);
  first.reset();
  add_parameters(second.root());
  BOOST_CHECK_EQUAL(v.at(5), 6);
  backward(loss);
  BOOST_CHECK_EQUAL(second.gradients()[5], 12);
}

// A function under checkpoint() may make a layer when it is first called.
BOOST_AUTO_TEST_CASE(inputs_of_checkpoint_stay_right_when_the_blocks_move) {
  for (const auto& [name, view] : kViews) {
    BOOST_TEST_CONTEXT(name) {
      tape().clear();
      Parameters parameters(1);
      const Tensor w = parameters.root().parameter("w", {4, 4}, count_from(1)), v = view(w);
      const auto f = [&](std::span<const Tensor> in) {
        if (!parameters.find("more.0")) {
          add_parameters(parameters.root());
          std::fill_n(parameters.edit().begin(), 16, real{5});
        }
        return square(in[0]);
      };
      const Tensor y = checkpoint({v}, f);
      for (const real value : y.values()) BOOST_CHECK_EQUAL(value, 25);
      if (!v.requires_grad()) continue;
      backward(sum(y));
      const std::vector<real> gradient = copied(w.grad());
      parameters.zero_gradients();
      backward(sum(square(v)));
      BOOST_CHECK(gradient == copied(w.grad()));
    }
  }
}

BOOST_AUTO_TEST_CASE(views_without_elements) {
  tape().clear();
  Parameters parameters(1);
  const Tensor none = parameters.root().parameter("none", {0, 4}, init_zeros()), v = reshape(none, {4, 0});
  BOOST_CHECK_EQUAL(v.values().size(), 0U);
  add_parameters(parameters.root());
  BOOST_CHECK_EQUAL(v.values().size(), 0U);
  backward(sum(v) + sum(slice(none, 0, 0, 0)));
  BOOST_CHECK_EQUAL(none.grad().size(), 0U);
}

BOOST_AUTO_TEST_CASE(the_gradient_of_a_view_is_its_own) {
  tape().clear();
  const Tensor x = variable({2}, {1, 2}), y = reshape(x, {2, 1});
  y.retain_grad();
  backward(sum(y) + scale(sum(x), 10));
  BOOST_CHECK_EQUAL(y.grad()[0], 1);
  BOOST_CHECK_EQUAL(x.grad()[0], 11);
  backward(sum(y));  // adds up
  BOOST_CHECK_EQUAL(y.grad()[0], 2);
  BOOST_CHECK_EQUAL(x.grad()[0], 12);
  // That of a tensor is not kept because a view's is, and the other way round.
  const Tensor base = scale(x, 3), view = slice(base, 0, 0, 1);
  view.retain_grad();
  backward(sum(view));
  BOOST_CHECK_THROW(base.grad(), StateError);
  const Tensor kept = scale(x, 3).retain_grad(), other = slice(kept, 0, 1, 2);
  backward(sum(other));
  BOOST_CHECK_EQUAL(kept.grad()[1], 1);
  BOOST_CHECK_THROW(other.grad(), StateError);
}

BOOST_AUTO_TEST_CASE(without_retain_grad_the_gradient_of_a_view_is_not_kept) {
  for (const auto& [name, view] : kViews) {
    BOOST_TEST_CONTEXT(name) {
      Parameters parameters(1);
      const Tensor w = parameters.root().parameter("w", {4, 4}, count_from(1));
      if (!view(w).requires_grad()) continue;
      const auto read = [&, &view = view](const Tensor& x) {
        const Tensor v = view(x);
        backward(sum(v));
        v.grad();
      };
      const std::string rule = "which an op computed, is not kept; call retain_grad() on it before backward";
      check_error<StateError>([&] { read(w); }, {"grad: that of [", "(w), " + rule});
      check_error<StateError>([&] { read(variable({4, 4}, w.values())); }, {"grad: that of [", rule});
      check_error<StateError>([&] { read(exp(w)); }, {"grad: that of [", rule});
    }
  }
}

namespace {

// A program that makes views of views, and adds up a part of each. Coefficients are small integers, so that sums of
// gradients are exact in any order.
struct Program {
  std::uint64_t seed;
  bool retains;  // some views, before or after other views and ops use them
  bool copies;   // instead of views: each is an op's result
  std::vector<Tensor> tensors = {};
  std::vector<std::size_t> retained = {};
  std::vector<real> leaf_gradient = {};

  void run() {
    RandomStream random(seed, Purpose::test);
    Parameters parameters(1);
    const Tensor leaf = parameters.root().parameter("w", {4, 4}, count_from(-8));
    tensors = {random.below(2) == 0 ? leaf : scale(leaf, 3)};
    Tensor loss = zeros({});
    for (int i = 0; i < 12; ++i) {
      const Tensor x = tensors[random.below(static_cast<std::uint32_t>(tensors.size()))];
      Tensor y = view_of(x, random);
      if (copies) y = scale(y, 1);
      tensors.push_back(y);
      if (random.below(3) == 0) retain(tensors.size() - 1);
      if (random.below(2) == 0) loss += scale(sum(y), 1 + static_cast<int>(random.below(5)));
      if (random.below(3) == 0) retain(random.below(static_cast<std::uint32_t>(tensors.size())));
      if (i == 6) add_parameters(parameters.root(), seed % 20 == 0 ? 12 : 3);  // clearing memory takes long
    }
    loss += sum(tensors.back());
    for (int pass = 0; pass < 2; ++pass) backward(loss);
    leaf_gradient = copied(leaf.grad());
  }
  void retain(std::size_t i) {
    if (i == 0) return;  // perhaps a leaf
    if (retains || copies) tensors[i].retain_grad();
    retained.push_back(i);
  }
  static Tensor view_of(const Tensor& x, RandomStream& random) {
    const int rows = x.rank() == 0 ? 1 : x.size(0);
    if (random.below(2) == 0 || rows < 2) return reshape(x, {-1, random.below(2) == 0 ? 1 : x.shape().cols()});
    const int begin = static_cast<int>(random.below(static_cast<std::uint32_t>(rows)));
    const int end = begin + 1 + static_cast<int>(random.below(static_cast<std::uint32_t>(rows - begin)));
    return slice(x, 0, begin, end);
  }
};

}  // namespace

// Views of views, retained in any order: as if each view were a copy, whose gradient a framework of copies has.
BOOST_AUTO_TEST_CASE(random_views_have_the_gradients_of_copies) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    tape().clear();
    Program views{seed, true, false}, unretained{seed, false, false}, copies{seed, true, true};
    views.run();
    unretained.run();
    copies.run();
    BOOST_REQUIRE(views.leaf_gradient == copies.leaf_gradient);
    BOOST_REQUIRE(unretained.leaf_gradient == copies.leaf_gradient);
    for (const std::size_t i : copies.retained) {
      const auto gradient_of = [i](const Program& p) -> std::optional<std::vector<real>> {
        try {
          return copied(p.tensors[i].grad());
        } catch (const StateError&) {  // not reached
          return {};
        }
      };
      BOOST_REQUIRE_MESSAGE(gradient_of(views) == gradient_of(copies), "seed " << seed << ", tensor " << i);
      BOOST_REQUIRE(!gradient_of(unretained));
    }
  }
}

// record() also gives a view a gradient of its own: here one that is reversed on its way (Ganin et al. 2016).
BOOST_AUTO_TEST_CASE(an_op_may_return_a_view) {
  tape().clear();
  const auto reversed = [](const Tensor& x) {
    const Tensor y = reshape(x, x.shape());
    record("reversed", y, {x}, [=] {
      for (std::size_t i = 0; i < x.numel(); ++i) grad_of(x)[i] -= grad_of(y)[i];
    });
    return y;
  };
  const Tensor x = variable({2}, {1, 2}), y = reversed(x);
  backward(sum(square(y)) + sum(x));
  BOOST_CHECK_EQUAL(x.grad()[0], -1);
  BOOST_CHECK_EQUAL(x.grad()[1], -3);
}

BOOST_AUTO_TEST_CASE(a_long_chain_of_views) {
  tape().clear();
  const Tensor x = variable({2, 1}, {1, 2});
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = reshape(y, {i % 2 + 1, -1});
  y.retain_grad();
  backward(sum(square(y)));
  BOOST_CHECK_EQUAL(x.grad()[1], 4);
  BOOST_CHECK_EQUAL(y.grad()[1], 4);
}

// Whatever used it.
BOOST_AUTO_TEST_CASE(a_leaf_that_is_frozen_after_an_op_gets_no_gradient) {
  const std::vector<std::function<Tensor(const Tensor&)>> ops{[](const Tensor& w) { return exp(w); },
                                                              [](const Tensor& w) {
                                                                return permute(w, {1, 0});
                                                              },
                                                              [](const Tensor& w) { return sum(w); },
                                                              [](const Tensor& w) { return softmax(w); },
                                                              [](const Tensor& w) { return slice(w, 1, 1, 3); },
                                                              [](const Tensor& w) { return w * w; },
                                                              [](const Tensor& w) { return linear(w, w); }};
  for (const auto& op : ops) {
    Parameters parameters(1);
    const Tensor w = parameters.root().parameter("w", {4, 4}, count_from(1));
    const Tensor trained = parameters.root().parameter("trained", {1}, count_from(1));
    const Tensor y = sum(op(w)) * trained;
    parameters.freeze("w");
    backward(sum(y));
    BOOST_CHECK(
        std::ranges::all_of(std::span<const real>(parameters.gradients()).first(16), [](real g) { return g == 0; }));
    BOOST_CHECK_NE(trained.grad()[0], 0);
    tape().clear();
  }
}

BOOST_AUTO_TEST_CASE(a_leaf_that_is_frozen_after_a_view_was_made_gets_no_gradient) {
  for (const bool retains : {false, true}) {
    Parameters parameters(1);
    const Scope scope = parameters.root();
    const Tensor w = scope.parameter("w", {4, 4}, count_from(1));
    const Tensor trained = scope.parameter("trained", {2, 8}, count_from(1));
    const Tensor view = reshape(w, {2, 8});
    const Tensor part = slice(view, 0, 1, 2);
    if (retains) view.retain_grad();
    parameters.freeze("w");
    backward(sum(view * trained) + sum(square(part)));
    const auto is_zero = [](real g) { return g == 0; };
    BOOST_CHECK(std::ranges::all_of(std::span<const real>(parameters.gradients()).first(16), is_zero));
    BOOST_CHECK(std::ranges::none_of(trained.grad(), is_zero));
    if (retains) BOOST_CHECK_EQUAL(view.grad()[0], trained.values()[0]);
    tape().clear();
  }
}

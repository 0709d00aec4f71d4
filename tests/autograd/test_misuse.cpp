// Every op with random arguments, valid or not: it either works or throws a typed error with a one-line message.
// Under AddressSanitizer this also shows that nothing is read out of bounds.
// needs: precision: double; full: single
#include "support/ops/table.h"

#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace seppo;

namespace {

// Draws arguments that are valid often enough for every op to work at times.
struct Draw {
  RandomStream random;
  Shape last = shape();

  int integer(int low, int high) {
    return low + static_cast<int>(random.below(static_cast<std::uint32_t>(high - low + 1)));
  }
  bool flag() { return random.below(2) == 0; }
  int axis() { return integer(-5, 5); }
  Shape shape() {
    std::vector<int> sizes(random.below(5));
    for (int& size : sizes) size = integer(0, 3);
    return Shape(std::span<const int>(sizes));
  }
  // The last shape every other time, else a vector of its width or a new shape.
  Shape near() {
    const std::uint32_t choice = random.below(4);
    if (choice == 1 && last.rank() > 0) return Shape{last[-1]};
    return last = choice == 0 ? shape() : last;
  }
  Tensor tensor() {
    if (random.below(50) == 0) return {};  // an empty handle
    const Shape s = near();
    std::vector<real> values(static_cast<std::size_t>(s.numel()));
    for (real& v : values) v = static_cast<real>(random.normal());
    return variable(s, values);
  }
  std::vector<int> integers() {
    std::vector<int> values(random.below(9));
    for (int& v : values) v = integer(-1, 3);
    return values;
  }
  double scalar() {
    return random.below(10) == 0 ? std::numeric_limits<double>::quiet_NaN() : 3 * random.uniform() - 1;
  }
};

using Call = std::function<Tensor(Draw&)>;

// What the rows of the table do not draw: lists of any length, malformed equations, options that rows leave out.
std::map<std::string, Call> calls() {
  std::map<std::string, Call> all;
  all["where of any condition"] = [](Draw& d) { return where(d.tensor(), d.tensor(), d.tensor()); };
  all["dropout"] = [](Draw& d) { return dropout(d.tensor(), d.scalar()); };
  all["einsum"] = [](Draw& d) {
    const char* equations[] = {"ij,jk->ik", "i,i->",     "ijk,ikl->ijl", "ij->i",          "ii,ij->j", "i,j",
                               "a,b->c",    "ab,bc->ca", "1,2->",        "...i,...i->...", "...",      "ab"};
    return einsum(equations[d.random.below(12)], d.tensor(), d.flag() ? d.tensor() : Tensor());
  };
  all["masked softmax"] = [](Draw& d) {
    const std::vector<int> lengths = d.integers();
    return softmax(d.tensor(), d.flag() ? Mask::valid_lengths(lengths) : Mask::causal());
  };
  all["attention"] = [](Draw& d) {
    const Tensor q = d.tensor(), k = d.tensor(), v = d.tensor();
    std::vector<int> q_rows = d.integers(), k_rows = d.integers();
    if (d.flag()) q_rows = {0, q.size(0)}, k_rows = {0, k.size(0)};
    return attention(q, k, v, d.integer(-1, 3), q_rows, k_rows);
  };
  all["attention of batches"] = [](Draw& d) {
    return attention(d.tensor(), d.tensor(), d.tensor(), d.integer(-1, 3),
                     {.mask = Mask::causal(), .dropout = d.scalar()});
  };
  all["attention with a bias"] = [](Draw& d) {
    const Tensor q = d.tensor();
    const std::vector<int> rows{0, q.size(0)}, positions = d.integers();
    const std::vector<real> slopes(d.random.below(3), 1);
    return attention(q, q, q, d.integer(1, 2), rows, rows,
                     {.bias = d.tensor(),
                      .slopes = d.flag() ? std::span<const real>() : slopes,
                      .positions = d.flag() ? std::span<const int>() : positions});
  };
  all["rotary"] = [](Draw& d) {
    const Tensor x = d.tensor();
    const std::vector<int> zeros(x.rows());
    return rotary(x, d.integer(0, 1), d.tensor(), d.flag() ? zeros : d.integers());
  };
  all["add_dropout"] = [](Draw& d) { return add_dropout(d.tensor(), d.tensor(), d.scalar()); };
  all["uniform"] = [](Draw& d) { return uniform(d.shape(), d.scalar(), d.scalar(), d.random); };
  all["arange"] = [](Draw& d) { return arange(d.scalar(), d.scalar(), d.flag() ? d.scalar() : d.integer(-1, 1)); };
  all["embedding with positions"] = [](Draw& d) {
    const std::vector<int> ids = d.integers();
    return embedding(d.tensor(), ids, {.positions = d.tensor(), .position_ids = d.flag() ? ids : d.integers()});
  };
  all["gather"] = [](Draw& d) {
    const std::vector<int> indices = d.integers();
    return gather(d.tensor(), d.axis(), {d.shape(), indices});
  };
  all["scatter_add"] = [](Draw& d) {
    const std::vector<int> indices = d.integers();
    return scatter_add(d.tensor(), d.axis(), {d.shape(), indices}, d.tensor());
  };
  all["elu of any alpha"] = [](Draw& d) { return elu(d.tensor(), static_cast<real>(d.scalar())); };
  all["weighted cross_entropy"] = [](Draw& d) {
    const Tensor weight = d.flag() ? d.tensor() : Tensor();
    const double smoothing = d.flag() ? 0 : d.scalar();
    const Reduction reduction = d.flag() ? Reduction::none : Reduction::mean;
    if (d.flag()) return cross_entropy(d.tensor(), d.integers(), {smoothing, -1, reduction, weight});
    return cross_entropy(d.tensor(), d.tensor(), {smoothing, -1, reduction, weight});
  };
  all["weighted binary_cross_entropy"] = [](Draw& d) {
    return binary_cross_entropy_with_logits(d.tensor(), d.tensor(), {.weight = d.tensor(), .pos_weight = d.tensor()});
  };
  all["at"] = [](Draw& d) { return full({}, d.tensor().at(d.axis(), d.axis())); };
  all["cross_entropy"] = [](Draw& d) {
    return cross_entropy(d.tensor(), d.integers(), {.label_smoothing = d.scalar(), .ignore_index = -1});
  };
  all["attention_scores"] = [](Draw& d) {
    return attention_scores(d.tensor(), d.tensor(), d.integer(-1, 3), {.bias = d.tensor(), .softcap = d.scalar()});
  };
  all["reshape"] = [](Draw& d) { return reshape(d.tensor(), {d.integer(-2, 4), d.integer(-1, 4)}); };
  all["permute"] = [](Draw& d) { return permute(d.tensor(), d.integers()); };
  all["split"] = [](Draw& d) { return split(d.tensor(), d.integers(), d.axis()).at(0); };
  return all;
}

// Runs the op forward and backward; whether it was refused, which must be with one typed line.
bool is_refused(const std::string& name, std::uint64_t seed, const std::function<Tensor()>& op) {
  try {
    const Tensor y = op();
    if (y.requires_grad()) tape().backward(y, std::vector<real>(y.numel(), 1));
    return false;
  } catch (const Error& e) {
    const std::string text = e.what();
    BOOST_CHECK_MESSAGE(text.size() <= 250 && text.find('\n') == std::string::npos && text.find(": ") < 40, text);
  } catch (const std::out_of_range&) {  // .at(0) of an empty list
  } catch (const std::exception& e) {
    BOOST_ERROR(name << ", seed " << seed << ": another kind of error: " << e.what());
  }
  return true;
}

// Runs the op with many random arguments, of which some fit and some do not. refused(seed) runs it once.
void check_misuse(const std::string& name, const std::function<bool(std::uint64_t)>& refused) {
  int worked = 0, failed = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    tape().clear();
    refused(seed) ? ++failed : ++worked;
  }
  BOOST_CHECK_MESSAGE(worked > 0 && failed > 0,
                      name << " worked " << worked << " times and was refused " << failed << " times");
}

std::vector<Tensor> random_inputs(const std::vector<Shape>& shapes, RandomStream& random) {
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes) {
    std::vector<real> values(static_cast<std::size_t>(shape.numel()));
    for (real& v : values) v = static_cast<real>(random.normal());
    inputs.push_back(variable(shape, values));
  }
  return inputs;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_op_works_or_throws_one_typed_line) {
  for (const auto& [name, call] : calls())
    check_misuse(name, [&, name = name, call = call](std::uint64_t seed) {
      Draw draw{RandomStream(seed, Purpose::test)};
      return is_refused(name, seed, [&] { return call(draw); });
    });
}

// Each op of the table accepts and refuses what its row says; some tensors are empty handles.
BOOST_AUTO_TEST_CASE(every_row_is_refused_what_does_not_fit) {
  for (const test::OpRow& row : test::ops_table())
    check_misuse(row.name, [&](std::uint64_t seed) {
      test::RandomDraw draw(seed);
      const test::OpCase c = test::drawn(row, draw);
      std::vector<Tensor> inputs = random_inputs(c.shapes, draw.random);
      const bool has_empty = !inputs.empty() && draw.random.below(20) == 0;
      if (has_empty) inputs[draw.random.below(static_cast<std::uint32_t>(inputs.size()))] = Tensor();
      const bool refused = is_refused(row.name, seed, [&] { return c.op(inputs); });
      if (!has_empty) BOOST_CHECK_MESSAGE(refused == !c.fits, row.name << ", seed " << seed << ": refused " << refused);
      return refused;
    });
}

BOOST_AUTO_TEST_CASE(sizes_cannot_overflow) {
  const int large = std::numeric_limits<int>::max();
  tape().clear();
  const Tensor x = zeros({large, 0});
  BOOST_CHECK_THROW(concat({x, x}), ShapeError);
  BOOST_CHECK_THROW(matmul(x, zeros({0, large})), Error);
  BOOST_CHECK_THROW(einsum("ijk,l->ijkl", zeros({large, 2, 0}), zeros({1})), ShapeError);
}

BOOST_AUTO_TEST_CASE(clearing_the_tape_within_a_mark_leaves_nothing_behind) {
  for (const int before : {1, 5, 300}) {
    tape().clear();
    for (int i = 0; i < before; ++i) zeros({10000});  // in blocks of memory that clear() joins
    Tensor inside;
    {
      const TapeMark outer;
      const Inference inference;
      for (int i = 0; i < 3; ++i) {
        tape().clear();
        inside = square(full({2}, 3));
      }
      BOOST_CHECK_EQUAL(inside.at(1), 9);
    }
    BOOST_CHECK_THROW(inside.item(), StateError);
    BOOST_CHECK_EQUAL(tape().size(), 0);
    BOOST_CHECK_EQUAL(tape().used(), 0);
    const Tensor x = variable({1}, {3}), y = square(x);
    backward(y);
    BOOST_CHECK_EQUAL(x.grad()[0], 6);
  }
}

// Random programs of ops in double precision (ops_machine.h). This file is the catalogue: how an input's bytes call
// each op, which operands it accepts, and its naive reference.
#include "fuzz/ops_rows.h"
#include "fuzz/ops_shapes.h"

#include <functional>
#include <numbers>
#include <string>
#include <vector>

namespace {

using namespace fuzz;

double normal_of(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double density_of(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }

void table(Machine& m) {
  const auto& rows = test::ops_table();
  m.run(rows[static_cast<std::size_t>(m.bytes.below(static_cast<int>(rows.size())))]);
}

// ---- products -------------------------------------------------------------------------------------

void matmul(Machine& m) {
  const Value& a = m.any();
  Ints other = a.x.shape;
  if (other.size() >= 2) std::swap(other[other.size() - 1], other[other.size() - 2]);
  if (!other.empty()) other.back() = m.bytes.below(4);
  if (other.size() == 1) other = {a.size(0), m.bytes.below(4)};
  const Value& b = m.broadcast(other);
  const auto as_matrix = [](auto x, bool left) {
    if (x.rank() == 1) x.shape.insert(left ? x.shape.begin() : x.shape.end(), 1);
    return x;
  };
  bool fits = a.rank() > 0 && b.rank() > 0;
  if (fits) {
    const Ints s = as_matrix(a.x, true).shape, t = as_matrix(b.x, false).shape;
    fits = at(s, -1) == at(t, -2);
    for (int i = 3; fits && i <= std::min(std::ssize(s), std::ssize(t)); ++i)
      fits = at(s, -i) == at(t, -i) || at(s, -i) == 1 || at(t, -i) == 1;
  }
  m.apply(
      "matmul", {&a, &b}, {fits_if(fits), largest(a) * largest(b), true},
      [&] { return seppo::matmul(a.tensor, b.tensor); },
      [&](const auto& in) {
        auto y = naive::matmul(as_matrix(in[0], true), as_matrix(in[1], false));
        if (b.rank() == 1) y.shape.pop_back();
        if (a.rank() == 1) y.shape.erase(y.shape.end() - (b.rank() == 1 ? 1 : 2));
        return y;
      });
}

void einsum(Machine& m) {
  const Value& a = m.any();
  Ints sizes = a.x.shape;
  std::string left, right, result;
  for (int i = 0; i < a.rank(); ++i) left += static_cast<char>('a' + i);
  std::string common = left;
  if (!sizes.empty() && m.bytes.below(2)) common.back() = 'z', sizes.back() = 2;
  const int turn = m.bytes.byte();
  if (!sizes.empty()) {
    std::rotate(common.begin(), common.begin() + turn % std::ssize(common), common.end());
    std::rotate(sizes.begin(), sizes.begin() + turn % std::ssize(sizes), sizes.end());
  }
  const Value& b = m.like(sizes);
  right = common;
  for (const char c : left + right)
    if (m.bytes.below(2) && result.find(c) == std::string::npos) result += c;
  std::vector<int> extents(26, -1);
  bool fits = b.rank() == std::ssize(right) && std::ssize(result) <= Shape::kMaxRank;
  const auto note = [&](const std::string& labels, const Value& x) {
    for (std::size_t i = 0; fits && i < labels.size(); ++i) {
      int& extent = extents[static_cast<std::size_t>(labels[i] - 'a')];
      fits = extent < 0 || extent == x.x.shape[i];
      extent = x.x.shape[i];
    }
  };
  note(left, a);
  note(right, b);
  const std::string equation = left + "," + right + "->" + result;
  m.apply(
      "einsum", {&a, &b}, {fits_if(fits), largest(a) * largest(b), true},
      [&] { return seppo::einsum(equation, a.tensor, b.tensor); },
      [&](const auto& in) {
        std::string all = left;
        for (const char c : right)
          if (all.find(c) == std::string::npos) all += c;
        const auto sizes_of = [&](const std::string& labels) {
          Ints s;
          for (const char c : labels) s.push_back(extents[static_cast<std::size_t>(c - 'a')]);
          return s;
        };
        Nd<Scalar<decltype(in)>> y(sizes_of(result));
        test::each_index(sizes_of(all), [&](const Ints& index) {
          const auto part = [&](const std::string& labels) {
            Ints own;
            for (const char c : labels) own.push_back(index[all.find(c)]);
            return own;
          };
          y(part(result)) += in[0](part(left)) * in[1](part(right));
        });
        return y;
      });
}

void linear(Machine& m) {
  const Value& x = m.any();
  const int out = m.bytes.below(4), kind = m.bytes.below(3);
  const Value& w = m.like({out, x.rank() ? x.size(-1) : 1});
  const Value& b = m.like({out});
  const bool fits = x.rank() > 0 && w.rank() == 2 && w.size(1) == x.size(-1) && b.rank() == 1 && b.size(0) == w.size(0);
  const auto gelu = [](const auto& t) {
    return lifted(
        t, [](double e) { return e * normal_of(e); }, [](double e) { return normal_of(e) + e * density_of(e); });
  };
  m.apply(
      "linear", {&x, &w, &b}, {fits_if(fits), largest(x) * largest(w) + largest(b), true},
      [&] { return seppo::linear(x.tensor, w.tensor, b.tensor, static_cast<seppo::Activation>(kind)); },
      [&](const auto& in) {
        using T = Scalar<decltype(in)>;
        auto rows = in[0];
        rows.shape = {static_cast<int>(x.tensor.shape().rows()), x.size(-1)};
        auto y = naive::zip(naive::matmul(rows, naive::permute(in[1], {1, 0})), in[2],
                            [](const T& p, const T& q) { return p + q; });
        y.shape = x.x.shape;
        y.shape.back() = w.size(0);
        if (kind == 1)
          y = naive::map(y, [](const T& e) {
            T r = real_part(e) > 0 ? e : T(0);
            // Near the kink rounding chooses the branch, so there is no slope to compare.
            if (std::abs(real_part(e)) < 1e-9) make(r, real_part(r), std::numeric_limits<double>::quiet_NaN());
            return r;
          });
        return kind == 2 ? gelu(y) : y;
      });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Machine machine(std::string_view(reinterpret_cast<const char*>(data), size));
  static constexpr void (*kOps[])(Machine&) = {table,  table,   table,  matmul, einsum,  linear, rows,     norms,
                                               reduce, extreme, shapes, parts,  indices, losses, attention};
  for (int steps = 0; steps < 16 && !machine.bytes.rest().empty(); ++steps)
    kOps[machine.bytes.below(static_cast<int>(std::size(kOps)))](machine);
  machine.finish();
  return 0;
}

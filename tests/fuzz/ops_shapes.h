// Shapes, parts, indices, losses and attention for fuzz_ops.cpp.
#pragma once

#include "fuzz/ops_machine.h"

#include <numeric>

namespace fuzz {

namespace naive = test::reference;
using test::real_part;

// ---- shapes ---------------------------------------------------------------------------------------

inline void shapes(Machine& m) {
  const Value& x = m.any();
  const int a = m.axis(x.rank()), b = m.axis(x.rank()), kind = m.bytes.below(9);
  const auto normal = [&](int axis) { return axis < 0 ? axis + x.rank() : axis; };
  const auto shaped = [](const Ints& sizes) {
    return [=](const auto& in) {
      auto y = in[0];
      y.shape = sizes;
      return y;
    };
  };
  Ints sizes = x.x.shape;
  if (kind == 0) {
    const Ints wanted = m.bytes.below(2) ? m.shape() : Ints{static_cast<int>(x.x.v.size())};
    const bool fits = Nd<double>::count(wanted) == x.x.v.size();
    return m.apply(
        "reshape", {&x}, {fits_if(fits)}, [&] { return seppo::reshape(x.tensor, shape_of(wanted)); }, shaped(wanted));
  }
  if (kind == 1) {
    const int place = a < 0 ? a + x.rank() + 1 : a;
    const bool fits = x.rank() < Shape::kMaxRank && place >= 0 && place <= x.rank();
    if (fits) sizes.insert(sizes.begin() + place, 1);
    return m.apply(
        "unsqueeze", {&x}, {fits_if(fits)}, [&] { return seppo::unsqueeze(x.tensor, a); }, shaped(sizes));
  }
  if (kind == 2) {
    const bool fits = have_axis(x, a) && x.size(a) == 1;
    if (fits) sizes.erase(sizes.begin() + normal(a));
    return m.apply(
        "squeeze", {&x}, {fits_if(fits)}, [&] { return seppo::squeeze(x.tensor, a); }, shaped(sizes));
  }
  if (kind == 3) {
    Ints wanted = sizes;
    for (int& size : wanted)
      if (size == 1) size = m.bytes.below(4);
    if (m.bytes.below(3) == 0) wanted.insert(wanted.begin(), m.bytes.below(3));
    if (m.bytes.below(8) == 0) wanted = m.shape();
    bool fits = std::ssize(wanted) <= Shape::kMaxRank && x.rank() <= std::ssize(wanted);
    for (int i = 1; fits && i <= x.rank(); ++i) fits = x.size(-i) == at(wanted, -i) || x.size(-i) == 1;
    return m.apply(
        "expand", {&x}, {fits_if(fits)}, [&] { return seppo::expand(x.tensor, shape_of(wanted)); },
        [&](const auto& in) {
          const Nd<Scalar<decltype(in)>> frame(wanted);
          return naive::zip(in[0], frame, [](const auto& e, const auto&) { return e; });
        });
  }
  if (kind == 4 || kind == 5) {
    Ints order(static_cast<std::size_t>(x.rank()));
    std::iota(order.begin(), order.end(), 0);
    bool fits = true;
    if (kind == 4) {
      for (int& axis : order) axis = (axis + a + 8) % std::max(1, x.rank());
      if (m.bytes.below(8) == 0 && !order.empty()) order[0] = b;
      for (std::size_t i = 0; i < order.size(); ++i) {
        fits = fits && have_axis(x, order[i]);
        for (std::size_t j = 0; j < i; ++j) fits = fits && normal(order[i]) != normal(order[j]);
      }
    } else {
      fits = have_axis(x, a) && have_axis(x, b);
      if (fits) std::swap(order[static_cast<std::size_t>(normal(a))], order[static_cast<std::size_t>(normal(b))]);
    }
    Ints plain;
    for (const int axis : order) plain.push_back(normal(axis));
    return m.apply(
        "permute", {&x}, {fits_if(fits)},
        [&] { return kind == 4 ? seppo::permute(x.tensor, order) : seppo::transpose(x.tensor, a, b); },
        [&](const auto& in) { return naive::permute(in[0], plain); });
  }
  if (kind == 6) {
    return m.apply(
        "flip", {&x}, {fits_if(have_axis(x, a))}, [&] { return seppo::flip(x.tensor, a); },
        [&](const auto& in) { return naive::along(in[0], a, [](auto& row) { std::ranges::reverse(row); }); });
  }
  const int diagonal = m.bytes.below(9) - 4;
  m.apply(
      "tril", {&x}, {fits_if(x.rank() >= 2)},
      [&] { return kind == 7 ? seppo::tril(x.tensor, diagonal) : seppo::triu(x.tensor, diagonal); },
      [&](const auto& in) {
        auto y = in[0];
        test::each_index(y.shape, [&](const Ints& index) {
          const int over = at(index, -1) - at(index, -2);
          if (kind == 7 ? over > diagonal : over < diagonal) y(index) = 0;
        });
        return y;
      });
}

inline void parts(Machine& m) {
  const Value& x = m.any();
  const int axis = m.axis(x.rank());
  const bool has_axis = have_axis(x, axis);
  const std::size_t place = has_axis ? static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis) : 0;
  if (m.bytes.below(2)) {
    const int begin = m.bytes.below(6) - 1, end = m.bytes.below(7) - 1;
    const int n = has_axis ? x.size(axis) : 0, first = begin < 0 ? begin + n : begin, last = end < 0 ? end + n : end;
    const bool fits = has_axis && 0 <= first && first <= last && last <= n;
    return m.apply(
        "slice", {&x}, {fits_if(fits)}, [&] { return seppo::slice(x.tensor, axis, begin, end); },
        [&](const auto& in) {
          Ints sizes = x.x.shape;
          sizes[place] = last - first;
          return naive::pick(in[0], sizes, [&](Ints index) {
            index[place] += first;
            return index;
          });
        });
  }
  const Value& y = m.like(x.x.shape);
  bool fits = has_axis && x.rank() == y.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == static_cast<int>(place) || x.size(i) == y.size(i);
  m.apply(
      "concat", {&x, &y}, {fits_if(fits)},
      [&] {
        return seppo::concat(std::vector<Tensor>{x.tensor, y.tensor, x.tensor}, axis);
      },
      [&](const auto& in) {
        Ints sizes = x.x.shape;
        const int one = sizes[place], two = one + y.size(axis);
        sizes[place] = two + one;
        Nd<Scalar<decltype(in)>> all(sizes);
        test::each_index(sizes, [&](const Ints& index) {
          Ints own = index;
          const int i = index[place];
          own[place] = i < one ? i : i < two ? i - one : i - two;
          all(index) = in[i < one || i >= two ? 0 : 1](own);
        });
        return all;
      });
}

// ---- indices, losses, attention -------------------------------------------------------------------

inline void indices(Machine& m) {
  const Value& x = m.any();
  const int axis = m.axis(x.rank()), kind = m.bytes.below(3);
  const bool has_axis = have_axis(x, axis);
  const std::size_t place = has_axis ? static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis) : 0;
  Ints sizes = x.x.shape;
  if (has_axis) sizes[place] = m.bytes.below(4);
  Ints ids(kind == 2 ? static_cast<std::size_t>(m.bytes.below(6)) : Nd<double>::count(sizes));
  if (ids.size() > 64) return;
  const int n = has_axis ? x.size(axis) : 3;
  bool fits = has_axis;
  for (int& id : ids) {
    const int byte = m.bytes.byte();
    id = byte == 255 ? -1 : byte == 254 ? n : n == 0 ? 0 : byte % n;
    fits = fits && id >= -n && id < n;
  }
  if (kind == 0 && Nd<double>::count(sizes) == 0) fits = has_axis;
  const auto from_start = [n](int id) { return id < 0 ? id + n : id; };
  const auto moved = [&](const Ints& index) {
    std::size_t o = 0;
    for (std::size_t i = 0; i < index.size(); ++i)
      o = o * static_cast<std::size_t>(sizes[i]) + static_cast<std::size_t>(index[i]);
    Ints own = index;
    own[place] = from_start(ids[o]);
    return own;
  };
  const seppo::Indices where{shape_of(sizes), ids};
  if (kind == 0)
    return m.apply(
        "gather", {&x}, {fits_if(fits)}, [&] { return seppo::gather(x.tensor, axis, where); },
        [&](const auto& in) { return naive::pick(in[0], sizes, moved); });
  if (kind == 1) {
    const Value& source = m.like(sizes);
    fits = fits && source.rank() == x.rank();
    for (int i = 0; fits && i < x.rank(); ++i) fits = sizes[static_cast<std::size_t>(i)] <= source.size(i);
    return m.apply(
        "scatter_add", {&x, &source}, {fits_if(fits), largest(source), true},
        [&] { return seppo::scatter_add(x.tensor, axis, where, source.tensor); },
        [&](const auto& in) {
          auto y = in[0];
          test::each_index(sizes, [&](const Ints& index) { y(moved(index)) += in[1](index); });
          return y;
        });
  }
  m.apply(
      "index_select", {&x}, {fits_if(fits)}, [&] { return seppo::index_select(x.tensor, axis, ids); },
      [&](const auto& in) {
        Ints wanted = x.x.shape;
        wanted[place] = static_cast<int>(ids.size());
        return naive::pick(in[0], wanted, [&](Ints index) {
          index[place] = from_start(ids[static_cast<std::size_t>(index[place])]);
          return index;
        });
      });
}

inline void losses(Machine& m) {
  const Value& x = m.any();
  const int kind = m.bytes.below(3);
  const bool is_mean = m.bytes.below(2);
  const auto reduction = is_mean ? seppo::Reduction::mean : seppo::Reduction::sum;
  if (kind == 2) {
    const Value& y = m.like(x.x.shape);
    const double most = largest(x) + largest(y);
    const Fit fit = x.x.shape != y.x.shape ? Fit::refused : x.x.v.empty() ? Fit::either : Fit::fits;
    return m.apply(
        "mse_loss", {&x, &y}, {fit, most * most, true}, [&] { return seppo::mse_loss(x.tensor, y.tensor, reduction); },
        [&](const auto& in) {
          Nd<Scalar<decltype(in)>> loss(Ints{});
          for (std::size_t i = 0; i < in[0].v.size(); ++i)
            loss.v[0] += (in[0].v[i] - in[1].v[i]) * (in[0].v[i] - in[1].v[i]);
          if (is_mean && !in[0].v.empty()) loss.v[0] /= static_cast<double>(in[0].v.size());
          return loss;
        });
  }
  const int classes = x.rank() ? x.size(-1) : 1;
  Ints targets(static_cast<std::size_t>(x.rank() ? x.tensor.shape().rows() : 1));
  bool fits = x.rank() > 0 && classes > 0;
  for (int& target : targets) {
    const int byte = m.bytes.byte();
    target = byte == 255 ? -1 : byte == 254 ? classes : byte >= 240 ? -100 : classes ? byte % classes : 0;
    fits = fits && (target == -100 || (target >= 0 && target < classes));
  }
  const double smoothing = kind ? 0 : m.bytes.below(9) / 8.0;
  m.apply(
      "cross_entropy", {&x}, {fits_if(fits), 1 + largest(x), true},
      [&] {
        if (kind) return seppo::nll_loss(x.tensor, targets, {.ignore_index = -100, .reduction = reduction});
        return seppo::cross_entropy(x.tensor, targets, {smoothing, -100, reduction});
      },
      [&](const auto& in) {
        Nd<Scalar<decltype(in)>> loss(Ints{});
        if (!kind) loss.v[0] = naive::cross_entropy(in[0], targets, smoothing, -100, is_mean);
        double count = 0;
        for (std::size_t i = 0; kind && i < targets.size(); ++i)
          if (targets[i] != -100)
            loss.v[0] -= in[0].v[i * static_cast<std::size_t>(classes) + static_cast<std::size_t>(targets[i])], ++count;
        if (is_mean && count > 0) loss.v[0] /= count;
        return loss;
      });
}

inline void attention(Machine& m) {
  const Value& q = m.any();
  const int n_heads = m.bytes.below(4), causal = m.bytes.below(2);
  // Several query heads may share one head of keys and values.
  const int width = q.rank() == 3 && n_heads > 0 ? q.size(2) / n_heads : 1;
  const Value& k =
      m.like(q.rank() == 3 ? Ints{q.size(0), m.bytes.below(4), width * (1 + m.bytes.below(n_heads + 1))} : q.x.shape);
  const Value& v = m.like(k.x.shape);
  bool fits = q.rank() == 3 && k.rank() == 3 && v.rank() == 3 && q.size(0) == k.size(0) && q.size(0) == v.size(0) &&
              k.size(1) == v.size(1) && q.size(2) > 0 && k.size(2) > 0 && v.size(2) > 0 && n_heads > 0 &&
              q.size(2) % n_heads == 0 && k.size(2) % width == 0;
  const bool has_heads = width > 0 && k.rank() == 3 && k.size(2) > 0 && k.size(2) % width == 0;
  const int kv_heads = has_heads ? k.size(2) / width : 1;
  fits = fits && n_heads % kv_heads == 0 && v.size(2) % kv_heads == 0;
  const Fit fit = q.rank() == 3 && q.size(0) == 0 ? Fit::either : fits_if(fits);  // no sequences, nothing to compare
  const double score = largest(q) * largest(k);
  m.apply(
      "attention", {&q, &k, &v}, {fit, score > 1e3 ? 1e300 : (1 + score) * largest(v), true},
      [&] {
        const auto mask = causal ? seppo::Mask::causal() : seppo::Mask::none();
        return seppo::attention(q.tensor, k.tensor, v.tensor, n_heads, {.mask = mask});
      },
      [&](const auto& in) {
        // One head at a time, padded to the wider of the two widths: zero columns change only the scale of the scores.
        using T = Scalar<decltype(in)>;
        const int queries = q.size(1), keys = k.size(1), v_width = v.size(2) / kv_heads;
        const int wide = std::max(width, v_width);
        const auto head_of = [&](const Nd<T>& x, int head, int columns, double scale) {
          const int rows = x.shape[0] * x.shape[1], stride = x.shape[2];
          Nd<T> y(Ints{rows, wide});
          for (int i = 0; i < rows; ++i)
            for (int c = 0; c < columns; ++c)
              y({i, c}) = scale * x.v[static_cast<std::size_t>(i * stride + head * columns + c)];
          return y;
        };
        Nd<T> out(Ints{q.size(0), queries, n_heads * v_width});
        for (int head = 0; head < n_heads; ++head) {
          const int kv = head / (n_heads / kv_heads);
          const Nd<T> a = head_of(in[0], head, width, std::sqrt(wide / static_cast<double>(width))),
                      b = head_of(in[1], kv, width, 1), c = head_of(in[2], kv, v_width, 1);
          Nd<T> part(a.shape);
          for (int s = 0; s < q.size(0); ++s)
            naive::attention(part, a, b, c, s * queries, (s + 1) * queries, s * keys, (s + 1) * keys, 0, wide,
                             [&](int i, int j) { return !causal || j <= i + keys - queries; });
          for (int i = 0; i < a.shape[0]; ++i)
            for (int e = 0; e < v_width; ++e)
              out.v[static_cast<std::size_t>((i * n_heads + head) * v_width + e)] = part({i, e});
        }
        return out;
      });
}

}  // namespace fuzz

// The row of ctc_loss.
#include "support/ops/rows.h"
#include "support/reference.h"

#include <seppo/autograd/ops.h>
#include <seppo/autograd/ops/ctc_loss.h>

#include <algorithm>
#include <cmath>

namespace test {

namespace {

namespace ref = test::reference;
using seppo::Reduction;
using Text = std::vector<int>;

struct Sequences {
  int blank = 0;
  std::vector<int> lengths = {};
  std::vector<Text> texts = {};
};

// One for each symbol and one between equal ones.
int frames_needed(const Text& text) {
  int frames = static_cast<int>(text.size());
  for (std::size_t i = 1; i < text.size(); ++i) frames += text[i] == text[i - 1];
  return frames;
}

// Texts of at most three symbols that fit their frames, with the first or the last class as the blank.
Sequences sequences(Draw& d, const Shape& x) {
  const int frames = x[0], batch = x[1], classes = x[2];
  Sequences s{.blank = d.flag() ? classes - 1 : 0};
  const int first = s.blank == 0 ? 1 : 0;
  s.lengths = d.indices(static_cast<std::size_t>(batch), 0, frames);
  for (const int length : s.lengths) {
    Text text = d.indices(3, first, first + std::max(classes - 2, 0));
    while (!text.empty() && frames_needed(text) > length) text.pop_back();
    s.texts.push_back(text);
  }
  return s;
}

bool fit(const Sequences& s, const Shape& x) {
  const auto is_symbol = [&](int symbol) { return symbol >= 0 && symbol < x[2] && symbol != s.blank; };
  const auto is_text = [&](const Text& text) { return std::ranges::all_of(text, is_symbol); };
  const auto is_length = [&](int length) { return length >= 0 && length <= x[0]; };
  return s.blank >= 0 && s.blank < x[2] && std::ranges::all_of(s.lengths, is_length) &&
         std::ranges::all_of(s.texts, is_text);
}

// What the classes of frames say: without repetitions, and then without blanks.
Text said(Text path, int blank) {
  path.erase(std::unique(path.begin(), path.end()), path.end());
  std::erase(path, blank);
  return path;
}

// The probability of all ways to say a text from frame path.size() on, each way written down in full.
template <class T>
T probability(const Nd<T>& x, int row, const Sequences& s, Text path) {
  const auto n = static_cast<std::size_t>(row);
  const int frame = static_cast<int>(path.size());
  if (frame == s.lengths[n]) return said(path, s.blank) == s.texts[n] ? 1 : 0;
  T sum = 0;
  path.push_back(0);
  for (int& c = path.back(); c < x.size(2); ++c) sum += std::exp(x({frame, row, c})) * probability(x, row, s, path);
  return sum;
}

template <class T>
Nd<T> log_softmax(const Nd<T>& x) {
  const Nd<T> p = ref::along(x, -1, [](auto& row) { ref::softmax(row); });
  return ref::map(p, [](const T& e) { return std::log(e); });
}

template <class T>
Nd<T> losses(const Nd<T>& x, const Sequences& s, Reduction reduction) {
  Nd<T> rows({x.size(1)}), total{std::vector<int>{}};
  for (int row = 0; row < x.size(1); ++row) {
    const auto n = static_cast<std::size_t>(row);
    rows.v[n] = -std::log(probability(x, row, s, {}));
    const double symbols = std::max(1.0, static_cast<double>(s.texts[n].size()));
    total.v[0] += reduction == Reduction::mean ? rows.v[n] / (symbols * x.size(1)) : rows.v[n];
  }
  return reduction == Reduction::none ? rows : total;
}

// PyTorch's gradient is that of scores before a log_softmax whether there is one or not: so there is one. It takes no
// sequence without frames.
std::string torch_of(const Sequences& s, const std::string& reduction) {
  if (std::ranges::any_of(s.lengths, [](int length) { return length == 0; })) return "";
  Text symbols, sizes;
  for (const Text& text : s.texts) {
    symbols.insert(symbols.end(), text.begin(), text.end());
    sizes.push_back(static_cast<int>(text.size()));
  }
  return "F.ctc_loss(F.log_softmax(x[0], -1), torch.tensor(" + text(symbols) + ", dtype=torch.long), torch.tensor(" +
         text(s.lengths) + "), torch.tensor(" + text(sizes) + "), blank=" + std::to_string(s.blank) + ", reduction='" +
         reduction + "')";
}

// Of numbers that need not be log-probabilities: then a part of the gradient that log_softmax takes away is seen too.
OpCase ctc_loss(Draw& d) {
  const Shape x = d.input({{4, 2, 3}, {5, 1, 2}, {3, 3, 4}, {0, 1, 2}});
  const Sequences s = x.rank() == 3 ? sequences(d, x) : Sequences{};
  const bool is_normalised = d.flag();
  const int reduction = d.one_of<int>({0, 1, 2});
  const char* const names[] = {"mean", "sum", "none"};
  const seppo::CtcOptions options{.blank = s.blank, .reduction = static_cast<Reduction>(reduction)};
  const auto input = [=](const Tensor& given) { return is_normalised ? seppo::log_softmax(given) : given; };
  const bool has_mean = reduction != 0 || (x.rank() == 3 && x[1] > 0);
  return {.op = [=](Inputs in) { return seppo::ctc_loss(input(in[0]), s.lengths, s.texts, options); },
          .reference =
              [=](const auto& in) { return losses(is_normalised ? log_softmax(in[0]) : in[0], s, options.reduction); },
          .fits = x.rank() == 3 && fit(s, x) && has_mean,
          .torch = is_normalised ? torch_of(s, names[reduction]) : "",
          .terms = [](std::span<const double> most) { return 1 + 10 * most[0]; }};
}

}  // namespace

std::vector<OpRow> ctc_rows() { return {{"ctc_loss", ctc_loss, {{30, 40, 20}}}}; }

}  // namespace test

// ctc_loss: the sum over all ways through a text, forward, and how much of it each frame has, backward.
#include "ctc_loss.h"

#include "op.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// log(e^a + e^b)
double log_add(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;  // which max() and min() would hide
  const double larger = std::max(a, b), smaller = std::min(a, b);
  return smaller == kNever ? larger : larger + std::log1p(std::exp(smaller - larger));
}

// One sequence: the log-probabilities of its frames, and its text with a blank before, between and behind the symbols.
// Frames move through these places from the first to the last: each stays, goes one further, or passes over a blank
// between two different symbols.
struct Sequence {
  const real* log_p;  // of frame 0; frames are `stride` apart
  std::size_t stride;
  std::size_t frames;
  std::span<const int> text;
  int blank;

  std::size_t places() const { return 2 * text.size() + 1; }
  std::size_t states() const { return (frames + 1) * places(); }
  int symbol(std::size_t place) const { return place % 2 == 1 ? text[place / 2] : blank; }
  double log_probability(std::size_t frame, std::size_t place) const {
    return double{log_p[frame * stride + static_cast<std::size_t>(symbol(place))]};
  }
  // Whether a frame may come to this place from the last but one.
  bool can_pass(std::size_t place) const {
    return place % 2 == 1 && place > 1 && text[place / 2] != text[place / 2 - 1];
  }
};

// alpha [frames + 1, places]: the log-probability of being at a place after so many frames. Returns log p(text).
double sum_forward(const Sequence& s, double* alpha) {
  const std::size_t places = s.places();
  std::fill_n(alpha, places, kNever);
  alpha[0] = 0;
  for (std::size_t t = 0; t < s.frames; ++t) {
    const double* const before = alpha + t * places;
    for (std::size_t place = 0; place < places; ++place) {
      double sum = before[place];
      if (place >= 1) sum = log_add(sum, before[place - 1]);
      if (s.can_pass(place)) sum = log_add(sum, before[place - 2]);
      alpha[(t + 1) * places + place] = sum + s.log_probability(t, place);
    }
  }
  const double* const end = alpha + s.frames * places;
  return places == 1 ? end[0] : log_add(end[places - 1], end[places - 2]);
}

// Adds -slope times the share of p(text) that shows a symbol in a frame to the gradient of its log-probability, from
// the last frame to the first. after[place]: the log-probability of the frames that follow.
void sum_backward(const Sequence& s, const double* alpha, double log_p_text, real slope, real* grad) {
  const std::size_t places = s.places();
  std::vector<double> after(places, kNever), with_frame(places);
  after[places - 1] = 0;
  if (places > 1) after[places - 2] = 0;
  for (std::size_t t = s.frames; t-- > 0;) {
    for (std::size_t place = 0; place < places; ++place) {
      const double share = std::exp(alpha[(t + 1) * places + place] + after[place] - log_p_text);
      grad[t * s.stride + static_cast<std::size_t>(s.symbol(place))] -= slope * static_cast<real>(share);
      with_frame[place] = after[place] + s.log_probability(t, place);
    }
    for (std::size_t place = 0; place < places; ++place) {
      double sum = with_frame[place];
      if (place + 1 < places) sum = log_add(sum, with_frame[place + 1]);
      if (place + 2 < places && s.can_pass(place + 2)) sum = log_add(sum, with_frame[place + 2]);
      after[place] = sum;
    }
  }
}

void check_arguments(const Tensor& x, List<int> lengths, const std::vector<std::vector<int>>& texts, int blank) {
  const char* const op = "ctc_loss";
  check(x.rank() == 3, op, ": needs log_probabilities [frames, batch, classes], got ", x);
  const int frames = x.size(0), batch = x.size(1), classes = x.size(2);
  check(std::ssize(lengths) == batch, op, ": ", lengths.size(), " lengths for the ", batch, " sequences of ", x);
  check(std::ssize(texts) == batch, op, ": ", texts.size(), " texts for the ", batch, " sequences of ", x);
  check<IndexError>(blank >= 0 && blank < classes, op, ": blank ", blank, " is not in 0..", classes - 1,
                    ", the classes of ", x);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    check<IndexError>(lengths[i] >= 0 && lengths[i] <= frames, op, ": length ", lengths[i], " of sequence ", i,
                      " is not in 0..", frames);
    for (int symbol : texts[i])
      check<IndexError>(symbol >= 0 && symbol < classes && symbol != blank, op, ": symbol ", symbol, " of text ", i,
                        " is the blank or not in 0..", classes - 1, ", the classes of ", x);
  }
}

// A loss for each sequence [batch].
Tensor sequence_losses(const Tensor& x, List<int> lengths, const std::vector<std::vector<int>>& texts, int blank) {
  const std::size_t batch = texts.size();
  auto* const sequences = tape().allocate<Sequence>(batch);
  auto* const alphas = tape().allocate<double*>(batch);
  const std::size_t classes = x.cols();
  for (std::size_t i = 0; i < batch; ++i) {
    sequences[i] = {.log_p = x.data() + i * classes,
                    .stride = batch * classes,
                    .frames = static_cast<std::size_t>(lengths[i]),
                    .text = tape().keep<int>(texts[i]),
                    .blank = blank};
    alphas[i] = tape().allocate<double>(sequences[i].states());
  }
  Tensor y = zeros({static_cast<int>(batch)});
  auto* const log_p = tape().allocate<double>(batch);
  parallel_range(0, batch, 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      log_p[i] = sum_forward(sequences[i], alphas[i]);
      y.data()[i] = static_cast<real>(-log_p[i]);
    }
  });
  record("ctc_loss", y, {x}, [=] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    for (std::size_t i = 0; i < batch; ++i)
      sequences[i].log_p = x.data() + i * classes;  // as parameters may have moved
    parallel_range(0, batch, 1, [=](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i)
        if (log_p[i] != kNever) sum_backward(sequences[i], alphas[i], log_p[i], dy[i], dx + i * classes);
    });
  });
  return y;
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probabilities, List<int> lengths, const std::vector<std::vector<int>>& texts,
                const CtcOptions& options) {
  check_arguments(log_probabilities, lengths, texts, options.blank);
  const Tensor losses = sequence_losses(log_probabilities, lengths, texts, options.blank);
  if (options.reduction == Reduction::none) return losses;
  if (options.reduction == Reduction::sum) return sum(losses);
  std::vector<int> symbols;  // of each text, at least 1
  for (const std::vector<int>& text : texts) symbols.push_back(std::max(1, static_cast<int>(text.size())));
  return mean(losses / tensor(losses.shape(), symbols));
}

}  // namespace SEPPO_ABI
}  // namespace seppo

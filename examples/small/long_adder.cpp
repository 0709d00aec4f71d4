// The adder of nine trained numbers learns from numbers of up to 30 digits, and adds those of 200. Places lie on a
// large circle, and attention depends only on how far apart they are, so those that it has never seen are as good as
// others; docs/records.md says more. Takes one second.
#include <seppo/autograd/ops.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/clip.h>
#include <seppo/nn/optim/schedule.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <string_view>
#include <vector>

using namespace seppo;

constexpr int kCircle = 1024;                                                     // places, more than a number has
constexpr double kStep = 2 * std::numbers::pi / kCircle, kRadius = kCircle / 3.;  // neighbours are two apart

// Texts of two numbers and their sum: each is a delimiter, which is token 0 as well, and digits from the least
// significant on, one more than are drawn. The place of a token is that in its number.
struct Texts {
  int places;
  std::vector<int> tokens = {}, next = {};  // what is read, and what follows it: -1 until the sum begins

  int length() const { return 3 * places - 1; }
  std::size_t size() const { return tokens.size() / static_cast<std::size_t>(length()); }
  void add(const std::vector<int>& a, const std::vector<int>& b) {
    std::vector<int> sum(a.size() + 1);
    for (std::size_t i = 0; i < a.size(); ++i) {
      sum[i] += a[i] + b[i];
      sum[i + 1] = sum[i] / 10, sum[i] %= 10;
    }
    tokens.insert(tokens.end(), a.begin(), a.end()), tokens.insert(tokens.end(), b.begin(), b.end());
    tokens.insert(tokens.end(), sum.begin(), sum.end() - 2);
    next.insert(next.end(), 2 * a.size(), -1), next.insert(next.end(), sum.begin() + 1, sum.end() - 1);
  }
  // Two random numbers, whose digits add to nine at this share of the places, so that carries run far.
  void draw(RandomStream& random, double nines = 0) {
    std::vector<int> a(static_cast<std::size_t>(places)), b(a);
    for (std::size_t i = 1; i + 1 < a.size(); ++i) {
      a[i] = static_cast<int>(random.below(10));
      b[i] = random.uniform() < nines ? 9 - a[i] : static_cast<int>(random.below(10));
    }
    add(a, b);
  }
  void add_one(int nines) {  // 9...9 + 1
    std::vector<int> a(static_cast<std::size_t>(places)), one(a);
    std::fill_n(a.begin() + 1, nines, 9);
    one[1] = 1;
    add(a, one);
  }
};

struct Adder {
  explicit Adder(const Scope& s) {
    const auto number = [&](const char* name, double mean) {
      return s.parameter(name, {1}, [=](std::span<real> value, const Shape&, RandomStream& random) {
        value[0] = static_cast<real>(mean + 0.1 * random.normal());
      });
    };
    first = number("first", -4.5), distance = number("distance", 1), scale = number("scale", 1);
    turn = number("turn", 1), own = number("own", 1), seen = number("seen", 1);
    up = number("up", 1), down = number("down", 0), sharpness = number("sharpness", 0.3);
  }
  Tensor operator()(const Texts& texts) const {          // the scores of each next token, [tokens, 10]
    const Tensor table = first + distance * arange(10);  // where digits lie on a line
    std::vector<double> angles;
    for (int i = 0; i < texts.length(); ++i) angles.push_back(kStep * (i % texts.places));
    const Tensor angle = tensor({texts.length()}, angles);
    const auto on_circle = [](const Tensor& a) { return kRadius * stack({cos(a), sin(a)}, 1); };
    const Tensor weights = softmax(scale * linear(on_circle(angle + kStep * turn), on_circle(angle)), Mask::causal());
    const Tensor x = reshape(embedding(reshape(table, {10, 1}), texts.tokens), {-1, texts.length()});
    const Tensor y = own * x + seen * linear(x, weights);
    return -square(sharpness * (reshape(y + down * tanh(up * y), {-1, 1}) - table));
  }
  Tensor first, distance, scale, turn, own, seen, up, down, sharpness;
};

void train(Parameters& parameters, const Adder& model, RandomStream random) {
  Adam adam(parameters, {.betas = {0.9, 0.99}});
  const Schedule rate{.kind = ScheduleKind::cosine, .lr = 0.02, .min_lr = 1e-3, .warmup_steps = 200, .steps = 1500};
  for (int step = 1; step <= rate.steps; ++step) {
    Texts texts{.places = 2 + 1 + static_cast<int>(random.below(30))};  // 1 to 30 digits
    for (int n = 0; n < 64; ++n) texts.draw(random);
    tape().clear();
    const Tensor loss = cross_entropy(model(texts), texts.next, {.ignore_index = -1});
    backward(loss);
    adam.step(rate(step), clip_factor(gradient_norm(parameters), 1));
    if (step % 250 == 0) std::printf("step %d: loss %.4f\n", step, loss.item());
  }
}

// How many of the sums the model writes by itself. One pass tells: while all is right, what it is given here is what it
// has written.
std::size_t count_right(const Adder& model, const Texts& texts) {
  const Inference inference;
  const std::vector<int> written = argmax(model(texts));
  std::vector<bool> is_right(texts.size(), true);
  for (std::size_t i = 0; i < written.size(); ++i)
    if (texts.next[i] >= 0 && written[i] != texts.next[i]) is_right[i / (written.size() / texts.size())] = false;
  return static_cast<std::size_t>(std::ranges::count(is_right, true));
}

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--help")
    return std::puts("long_adder [SEED [SUMS [DIGITS ...]]]: learns to add; tests SUMS sums of each length") < 0;
  const std::uint64_t seed = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  const std::size_t tested = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 50;
  std::vector<int> lengths{10, 30, 100, 200};
  if (argc > 3) lengths.clear();
  for (int i = 3; i < argc; ++i) lengths.push_back(std::clamp(std::atoi(argv[i]), 1, kCircle - 2));
  Parameters parameters(seed);
  const Adder model(parameters.root());
  train(parameters, model, RandomStream(seed, Purpose::data));
  RandomStream random(seed, Purpose::test);
  bool all = true;
  for (const int digits : lengths) {
    Texts texts{.places = digits + 2};
    for (int n = 1; n <= 10; ++n) texts.add_one(n * digits / 10);
    while (texts.size() < tested) texts.draw(random, texts.size() % 2 ? 0 : 0.95);
    const std::size_t right = count_right(model, texts);
    std::printf("%zu parameters, %d digits: %zu of %zu sums right\n", parameters.count(), digits, right, texts.size());
    all = all && right == texts.size();
  }
  return all ? 0 : 1;
}

// The smallest Transformer here: nine trained numbers add any two numbers of ten digits, the least significant digit
// first. One layer, one head, a state of one number per token, a network of one hidden unit, and an output tied to the
// embedding; docs/records.md says what it learns. Takes one second. `adder SEED THOUSANDS` tests more pairs.
#include <seppo/autograd/ops.h>
#include <seppo/nn/data/ragged.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/clip.h>
#include <seppo/nn/optim/schedule.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <vector>

using namespace seppo;

// A text is three numbers of eleven digits, the third their sum. Each begins with a delimiter, which is token 0 as
// well, and places count from there: a place says neither which number it is in nor which one comes next.
constexpr int kPlaces = 12, kPrompt = 2 * kPlaces + 1, kText = 3 * kPlaces;
constexpr double kStep = 2 * std::numbers::pi / kPlaces;  // the angle between places

using Text = std::vector<int>;

Text text_of(std::uint64_t a, std::uint64_t b) {
  Text text;
  for (std::uint64_t number : {a, b, a + b}) {
    text.push_back(0);
    for (int digit = 1; digit < kPlaces; ++digit, number /= 10) text.push_back(static_cast<int>(number % 10));
  }
  return text;
}

// Two random numbers, whose digits add to nine at this share of the places, so that carries run far.
Text draw(RandomStream& random, double nines = 0) {
  std::uint64_t a = 0, b = 0;
  for (int digit = 0; digit < 10; ++digit) {
    const std::uint32_t in_a = random.below(10), in_b = random.below(10);
    a = 10 * a + in_a;
    b = 10 * b + (random.uniform() < nines ? 9 - in_a : in_b);
  }
  return text_of(a, b);
}

struct Adder {
  explicit Adder(const Scope& s) {
    const auto number = [&](const char* name, double mean) {
      return s.parameter(name, {1}, [=](std::span<real> value, const Shape&, RandomStream& random) {
        value[0] = static_cast<real>(mean + 0.1 * random.normal());
      });
    };
    first = number("first", -4.5), distance = number("distance", 1), scale = number("scale", 1);
    turn = number("turn", kStep), own = number("own", 1), seen = number("seen", 1);
    up = number("up", 1), down = number("down", 0), sharpness = number("sharpness", 0.3);
  }

  Tensor table() const { return first + distance * arange(10); }  // where digits lie on a line, [10]

  // Of each token to those up to itself, [queries, keys]: places lie on a circle, on which queries are turned.
  Tensor attention_weights(int length) const {
    std::vector<double> angles;
    for (int i = 0; i < length; ++i) angles.push_back(kStep * (i % kPlaces));
    const Tensor angle = tensor({length}, angles);
    const auto on_circle = [](const Tensor& a) { return 4 * stack({cos(a), sin(a)}, 1); };
    return softmax(scale * linear(on_circle(angle + turn), on_circle(angle)), Mask::causal());
  }

  Tensor operator()(const std::vector<int>& tokens, int length) const {  // the state of each token, [texts, length]
    const Tensor x = reshape(embedding(reshape(table(), {10, 1}), tokens), {-1, length});
    const Tensor y = own * x + seen * linear(x, attention_weights(length));
    return y + down * tanh(up * y);
  }

  // Of each next token, [states, 10]: the nearer to the state, the higher.
  Tensor scores(const Tensor& states) const { return -square(sharpness * (reshape(states, {-1, 1}) - table())); }
  Tensor first, distance, scale, turn, own, seen, up, down, sharpness;
};

void train(Parameters& parameters, const Adder& model, RandomStream random) {
  Adam adam(parameters, {.betas = {0.9, 0.99}});
  const Schedule rate{.kind = ScheduleKind::cosine, .lr = 0.02, .min_lr = 1e-3, .warmup_steps = 200, .steps = 1500};
  for (int step = 1; step <= rate.steps; ++step) {
    Ragged texts;
    for (int n = 0; n < 64; ++n) texts.add(draw(random));
    std::vector<int> next = texts.without_first().tokens;  // only the sum is learned
    for (std::size_t i = 0; i < next.size(); ++i)
      if (i % (kText - 1) < kPrompt - 1) next[i] = -1;
    tape().clear();
    const Tensor states = model(texts.without_last().tokens, kText - 1);
    const Tensor loss = cross_entropy(model.scores(states), next, {.ignore_index = -1});
    backward(loss);
    adam.step(rate(step), clip_factor(gradient_norm(parameters), 1));
    if (step % 250 == 0) std::printf("step %d: loss %.4f\n", step, loss.item());
  }
}

// How many of these texts the model writes as they are, given the prompt and then what it has written.
int count_right(const Adder& model, const std::vector<Text>& texts) {
  const Inference inference;
  std::vector<Text> written;
  for (const Text& text : texts) written.emplace_back(text.begin(), text.begin() + kPrompt);
  for (int length = kPrompt; length < kText; ++length) {
    std::vector<int> tokens;
    for (const Text& text : written) tokens.insert(tokens.end(), text.begin(), text.end());
    const std::vector<int> next = argmax(model.scores(slice(model(tokens, length), 1, length - 1, length)));
    for (std::size_t n = 0; n < next.size(); ++n) written[n].push_back(next[n]);
  }
  int right = 0;
  for (std::size_t n = 0; n < texts.size(); ++n) right += written[n] == texts[n];
  return right;
}

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  const int thousands = argc > 2 ? std::atoi(argv[2]) : 10;
  Parameters parameters(seed);
  const Adder model(parameters.root());
  train(parameters, model, RandomStream(seed, Purpose::data));
  RandomStream random(seed, Purpose::test);
  std::vector<Text> texts;  // 9 + 1, 99 + 1, ...
  for (std::uint64_t unit = 10; unit <= 10'000'000'000; unit *= 10) texts.push_back(text_of(unit - 1, 1));
  int right = count_right(model, texts), tested = 10;
  for (int n = 0; n < 2 * thousands; ++n, tested += 1000) {
    for (texts.clear(); texts.size() < 1000;) texts.push_back(draw(random, n < thousands ? 0 : 0.75));
    right += count_right(model, texts);
  }
  std::printf("%zu parameters: %d of %d sums are right\n", parameters.count(), right, tested);
  return right == tested ? 0 : 1;
}

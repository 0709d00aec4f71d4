// A training loop without a Trainer, for what a step of it cannot express: here, the gradients of two losses are seen
// one by one and freed of their conflicts (Yu et al. 2020). One-cycle schedule, clipping, dropout; stopped in the
// middle, saved and resumed, it ends with the same bytes. docs/your-own-loop.md walks through it. Takes half a second.
#include <seppo/seppo.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using namespace seppo;

constexpr int kPlaces = 500, kHidden = 48, kSteps = 800;

// Two landscapes over the same places, learnt by one trunk with two heads.
struct Model {
  explicit Model(const Scope& s)
      : trunk(s / "trunk", 2, kHidden), mid(s / "mid", kHidden, kHidden), heads(s / "heads", kHidden, 2) {}

  std::pair<Tensor, Tensor> losses(std::span<const int> places, double drop) const {
    std::vector<double> where, heights;
    for (const int place : places) {
      RandomStream random(/*seed=*/1, Purpose::data, place);
      const double x = random.uniform(), y = random.uniform();
      where.insert(where.end(), {x, y});
      heights.insert(heights.end(), {std::sin(4 * x + y), std::cos(3 * x * y)});
    }
    const std::size_t n = places.size();
    const Tensor found = heads(dropout(tanh(mid(tanh(trunk(tensor({n, 2}, where))))), drop));
    const std::vector<Tensor> errors = chunk(square(found - tensor({n, 2}, heights)), 2, /*axis=*/1);
    return {mean(errors[0]), mean(errors[1])};
  }

  Linear trunk, mid, heads;
};

double dot(std::span<const real> a, std::span<const real> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// What is left of `gradient` without its part against `other`.
std::vector<real> without_conflict(std::span<const real> gradient, std::span<const real> other) {
  std::vector<real> left(gradient.begin(), gradient.end());
  const double overlap = dot(gradient, other);
  if (overlap >= 0) return left;
  const auto share = static_cast<real>(overlap / dot(other, other));
  for (std::size_t i = 0; i < left.size(); ++i) left[i] -= share * other[i];
  return left;
}

struct Training {
  explicit Training(std::uint64_t seed = 1) : parameters(seed) { tape().random = {.seed = 1}; }

  std::vector<real> gradient_of(const Tensor& loss) {
    backward(loss);
    std::vector<real> gradient(parameters.gradients().begin(), parameters.gradients().end());
    parameters.zero_gradients();
    return gradient;
  }

  void step() {
    tape().clear();  // the tensors of the last step end, and dropout begins its next one
    const auto [one, other] = model.losses(sampler.next(), /*drop=*/0.02);
    const std::vector<real> a = gradient_of(one), b = gradient_of(other);
    const std::vector<real> of_one = without_conflict(a, b), of_other = without_conflict(b, a);
    for (std::size_t i = 0; i < a.size(); ++i) parameters.gradients()[i] = of_one[i] + of_other[i];
    const double norm = gradient_norm(parameters);
    check<NumericError>(std::isfinite(norm), "step ", adam.steps() + 1, ": the gradient's norm is ", norm);
    adam.step(schedule(adam.steps() + 1), clip_factor(norm, 1));  // and zeroes the gradients
  }

  void save(const std::string& file) const {
    save_checkpoint(file, parameters, {{"steps", std::to_string(adam.steps())}}, adam.state());
  }
  void load(const std::string& file) {
    const SafeTensorsFile saved(file);
    load_checkpoint(saved, parameters, adam.state());
    adam.set_steps(std::stoll(saved.metadata().at("steps")));
    sampler.seek(adam.steps());
    tape().random = {.seed = 1, .step = static_cast<std::uint32_t>(adam.steps())};
  }

  Parameters parameters;
  Model model{parameters.root()};
  Adam adam{parameters};
  OneCycle schedule{.lr = 0.02, .steps = kSteps};
  Sampler sampler{kPlaces, {.batch_size = 50}};
};

int main() {
  Training whole;
  for (int step = 0; step < kSteps; ++step) whole.step();

  Training first;
  for (int step = 0; step < 300; ++step) first.step();
  first.save("own_loop.safetensors");
  Training second(/*seed=*/2);
  second.load("own_loop.safetensors");
  while (second.adam.steps() < kSteps) second.step();
  std::filesystem::remove("own_loop.safetensors");
  const bool is_same = std::ranges::equal(whole.parameters.values(), second.parameters.values());

  const Inference inference;  // nothing is recorded, and dropout is off
  std::vector<int> places(300);
  std::iota(places.begin(), places.end(), kPlaces);
  const auto [one, other] = whole.model.losses(places, 0.02);
  const double of_one = one.item(), of_other = other.item();
  std::printf("mean squared errors at new places: %.5f and %.5f; resumed: %s bytes\n", of_one, of_other,
              is_same ? "the same" : "other");
  return is_same && of_one < 0.006 && of_other < 0.006 ? 0 : 1;
}

// Diffusion (Ho, Jain and Abbeel 2020): a network learns to tell the noise in points of a spiral, for any share of
// noise in them; from noise alone, a little of it removed at a time (DDIM, Song et al. 2021), new points of the spiral
// emerge. Places and times are given as waves (Tancik et al. 2020), without which a small network draws a blur.
// Takes two seconds.
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

using namespace seppo;

constexpr int kBatch = 128, kHidden = 96, kTimes = 50, kSteps = 3000, kDrawn = 1000, kWaves = 4;
constexpr double kSpread = 0.03;  // around the spiral

std::array<double, 2> on_spiral(double part) {
  const double radius = 0.2 + 1.4 * part, angle = 3 * std::numbers::pi * part;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// A noisy point is sqrt(share) point + sqrt(1 - share) noise: nearly the point at time 1, nearly noise at the last.
double share_of_point(int time) {
  return time == 0 ? 1 : std::pow(std::cos(0.99 * std::numbers::pi / 2 * time / kTimes), 2);
}

struct Batch {
  std::vector<double> noisy, noise;  // [batch, 2]
  std::vector<int> times;
};

Batch draw(RandomStream& random) {
  Batch batch;
  for (int n = 0; n < kBatch; ++n) {
    const auto on = on_spiral(random.uniform());
    const int time = 1 + random.index(kTimes);
    const double share = share_of_point(time);
    for (const double x : on) {
      const double point = x + kSpread * random.normal(), noise = random.normal();
      batch.noisy.push_back(std::sqrt(share) * point + std::sqrt(1 - share) * noise);
      batch.noise.push_back(noise);
    }
    batch.times.push_back(time);
  }
  return batch;
}

// Sine and cosine of 1, 2, 4 and 8 times x: [n, columns] -> [n, 8 columns].
Tensor waves(const Tensor& x) {
  const Tensor angles = unsqueeze(x, 2) * tensor({1, 1, kWaves}, {1, 2, 4, 8});
  return reshape(concat({sin(angles), cos(angles)}, 2), {x.size(0), -1});
}

struct Denoiser {
  explicit Denoiser(const Scope& s)
      : first(s / "first", 2 + 3 * 2 * kWaves, kHidden),
        mid(s / "mid", kHidden, kHidden),
        deep(s / "deep", kHidden, kHidden),
        out(s / "out", kHidden, 2) {}

  Tensor operator()(const Tensor& noisy, const std::vector<int>& times) const {  // the noise: [n, 2]
    const Tensor time = tensor({noisy.size(0), 1}, times) * (std::numbers::pi / 2 / kTimes);
    return out(silu(deep(silu(mid(silu(first(concat({noisy, waves(noisy), waves(time)}, 1))))))));
  }

  Linear first, mid, deep, out;
};

struct Training {
  Batch draw() { return ::draw(random); }

  double step(const Batch& batch) {
    tape().clear();
    const Tensor noise = model(tensor({kBatch, 2}, batch.noisy), batch.times);
    const Tensor loss = mse_loss(noise, tensor({kBatch, 2}, batch.noise));
    backward(loss);
    adam.step(3e-3 * (1 + std::cos(std::numbers::pi * done++ / kSteps)) / 2);
    return loss.item();
  }

  Parameters parameters{/*seed=*/1};
  Denoiser model{parameters.root()};
  Adam adam{parameters};
  RandomStream random{/*seed=*/1, Purpose::data};
  int done = 0;
};

// New points, [drawn, 2].
std::vector<real> drawn_by(const Denoiser& model) {
  RandomStream random(/*seed=*/1, Purpose::test);
  Tensor x = randn({kDrawn, 2}, random);
  for (int time = kTimes; time > 0; --time) {
    const double share = share_of_point(time), next = share_of_point(time - 1);
    const Tensor noise = model(x, std::vector<int>(kDrawn, time));
    const Tensor point = (x - std::sqrt(1 - share) * noise) / std::sqrt(share);
    x = std::sqrt(next) * point + std::sqrt(1 - next) * noise;
  }
  return {x.values().begin(), x.values().end()};
}

int main() {
  Training training;
  for (int step = 1; step <= kSteps; ++step) {
    const double loss = training.step(training.draw());
    if (step % 1000 == 0) std::printf("step %d: loss %.4f\n", step, loss);
  }

  // Near which tenth of the spiral do new points lie?
  const Inference inference;
  const std::vector<real> drawn = drawn_by(training.model);
  int near = 0, tenths[10] = {};
  for (std::size_t i = 0; i < drawn.size(); i += 2) {
    double least = 1e9, at = 0;
    for (double part = 0; part < 1; part += 0.001) {
      const auto on = on_spiral(part);
      const double distance = std::hypot(on[0] - double{drawn[i]}, on[1] - double{drawn[i + 1]});
      if (distance < least) least = distance, at = part;
    }
    near += least < 0.1;
    ++tenths[static_cast<int>(10 * at)];
  }
  const bool is_whole = std::ranges::all_of(tenths, [](int n) { return n >= kDrawn / 40; });
  std::printf("%.1f %% of new points lie on the spiral%s\n", 100.0 * near / kDrawn, is_whole ? ", all along" : "");
  return near >= 0.9 * kDrawn && is_whole ? 0 : 1;
}

// A Vision Transformer (Dosovitskiy et al. 2021): an image of 16 x 16 pixels in three colours is split into 16 patches,
// which are its tokens; a class token in front of them predicts the shape drawn, whatever its position, size and
// colours. Takes two seconds.
#include <seppo/autograd/ops.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/clip.h>
#include <seppo/nn/optim/schedule.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace seppo;

constexpr int kSide = 16, kColours = 3, kPatch = 4, kGrid = kSide / kPatch, kPatches = kGrid * kGrid;
constexpr int kBatch = 32, kClasses = 4, kModel = 32, kSteps = 600;

struct Batch {
  std::vector<double> images;  // [images, side, side, colours]
  std::vector<int> classes;
};

// Is there paint this far from the middle of a shape: a square, a diamond, a ring, a cross?
bool is_painted(int shape, double x, double y, double size) {
  x = std::abs(x);
  y = std::abs(y);
  if (shape == 0) return std::max(x, y) <= 0.8 * size;
  if (shape == 1) return x + y <= 1.2 * size;
  if (shape == 2) return std::abs(std::hypot(x, y) - 0.8 * size) <= 0.8;
  return std::min(x, y) <= 0.8 && std::max(x, y) <= size;
}

Batch draw(RandomStream& random) {
  Batch batch;
  for (int n = 0; n < kBatch; ++n) {
    const int shape = random.index(kClasses);
    const double size = 3 + 2 * random.uniform(), x = 5 + 5 * random.uniform(), y = 5 + 5 * random.uniform();
    std::array<double, kColours> paper;
    for (double& colour : paper) colour = random.uniform() - 0.5;
    for (int row = 0; row < kSide; ++row)
      for (int col = 0; col < kSide; ++col)
        for (const double colour : paper)
          batch.images.push_back(colour + (is_painted(shape, col - x, row - y, size) ? 0.5 : 0));
    batch.classes.push_back(shape);
  }
  return batch;
}

struct Vit {
  explicit Vit(const Scope& s)
      : patches(s / "patches", kPatch * kPatch * kColours, kModel),
        token(s.parameter("token", {1, kModel}, init_normal(0.02))),
        positions(s.parameter("positions", {kPatches + 1, kModel}, init_normal(0.02))),
        layers(s / "layers", /*n_layers=*/2,
               {.d_model = kModel,
                .n_heads = 4,
                .d_ff = 64,
                .dropout = 0,
                .norm = Norm::pre,
                .activation = Activation::gelu}),
        output(s / "output", kModel, kClasses) {}

  Tensor operator()(const std::vector<double>& images) const {  // -> [images, classes]
    // images, grid rows, patch rows, grid columns, patch columns, colours
    const Tensor x = reshape(tensor({kBatch * kPatches * kPatch * kPatch * kColours}, images),
                             {kBatch, kGrid, kPatch, kGrid, kPatch, kColours});
    const Tensor words = patches(reshape(permute(x, {0, 1, 3, 2, 4, 5}), {kBatch, kPatches, -1}));
    const Tensor all = concat({expand(token, {kBatch, 1, kModel}), words}, /*axis=*/1) + positions;
    std::vector<int> rows;  // where each image's tokens begin
    for (int n = 0; n <= kBatch; ++n) rows.push_back(n * (kPatches + 1));
    const Tensor y = reshape(layers(reshape(all, {-1, kModel}), rows), {kBatch, kPatches + 1, kModel});
    return output(reshape(slice(y, 1, 0, 1), {kBatch, kModel}));
  }

  Linear patches;
  Tensor token, positions;
  Encoder layers;
  Linear output;
};

struct Training {
  Batch draw() { return ::draw(random); }

  double step(const Batch& batch) {
    tape().clear();
    const Tensor loss = cross_entropy(model(batch.images), batch.classes);
    backward(loss);
    adam.step(schedule(adam.steps() + 1), clip_factor(gradient_norm(parameters), 1));
    return loss.item();
  }

  Parameters parameters{/*seed=*/1};
  Vit model{parameters.root()};
  Adam adam{parameters};
  Schedule schedule{ScheduleKind::cosine, /*lr=*/3e-3, /*min_lr=*/0, /*warmup_steps=*/50, kSteps};
  RandomStream random{/*seed=*/1, Purpose::data};
};

int main() {
  Training training;
  for (int step = 1; step <= kSteps; ++step) {
    const double loss = training.step(training.draw());
    if (step % 100 == 0) std::printf("step %d: loss %.4f\n", step, loss);
  }
  RandomStream random(/*seed=*/1, Purpose::test);
  int right = 0, all = 0;
  for (int n = 0; n < 20; ++n) {
    const Inference inference;
    const Batch batch = draw(random);
    const std::vector<int> answers = argmax(training.model(batch.images));
    for (std::size_t i = 0; i < answers.size(); ++i, ++all) right += answers[i] == batch.classes[i];
  }
  std::printf("%.1f %% of %d new images right\n", 100.0 * right / all, all);
  return right >= 0.9 * all ? 0 : 1;
}

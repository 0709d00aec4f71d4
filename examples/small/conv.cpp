// A convolutional network (LeCun et al. 1998), built on unfold(): a convolution applies a linear map to each window,
// max pooling takes the largest value in each. Two layers with batch norm (Ioffe and Szegedy 2015) recognise digits at
// any position in noisy images. Takes two seconds.
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/batch_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>

#include <array>
#include <cstdio>
#include <vector>

using namespace seppo;

constexpr int kBatch = 32, kSide = 12, kDigits = 10, kHeight = 5, kWidth = 3;
// Digits of 5 x 3 pixels, row by row, with the first pixel in the highest bit.
constexpr std::array<unsigned, kDigits> kFont{0x7B6F, 0x2C97, 0x73E7, 0x73CF, 0x5BC9,
                                              0x79CF, 0x79EF, 0x7249, 0x7BEF, 0x7BCF};

struct Batch {
  std::vector<double> images;  // [images, side, side, 1]
  std::vector<int> digits;
};

Batch draw(RandomStream& random) {
  Batch batch;
  for (int n = 0; n < kBatch; ++n) {
    const std::uint32_t digit = random.below(kDigits);
    const int top = random.index(kSide - kHeight + 1);
    const int left = random.index(kSide - kWidth + 1);
    for (int row = 0; row < kSide; ++row)
      for (int col = 0; col < kSide; ++col) {
        const int y = row - top, x = col - left;
        const bool is_inside = y >= 0 && y < kHeight && x >= 0 && x < kWidth;
        const bool is_ink = is_inside && (kFont[digit] >> (kHeight * kWidth - 1 - (y * kWidth + x)) & 1);
        batch.images.push_back((is_ink ? 1 : 0) + 0.2 * random.normal());
      }
    batch.digits.push_back(static_cast<int>(digit));
  }
  return batch;
}

// All windows of size x size: [n, height, width, channels] -> [n, new height, new width, channels, size, size]
Tensor windows(const Tensor& x, int size, int step) { return unfold(unfold(x, 1, size, step), 2, size, step); }

Tensor max_pool(const Tensor& x, int size) { return amax(windows(x, size, size), {-2, -1}); }

struct Convolution {
  Convolution(const Scope& s, int in, int out, int window)
      : size(window), map(s, in * size * size, out, {.bias = false, .init = init_kaiming_uniform()}) {}

  Tensor operator()(const Tensor& x) const {  // [n, height, width, in] -> [n, height - size + 1, width - size + 1, out]
    const Tensor all = windows(x, size, 1);
    return map(reshape(all, {all.size(0), all.size(1), all.size(2), -1}));
  }

  int size;
  Linear map;  // its weight is PyTorch's [out, in, size, size], in the same order
};

struct Model {
  explicit Model(const Scope& s)
      : conv1(s / "conv1", 1, 16, 3),
        conv2(s / "conv2", 16, 64, 3),
        norm1(s / "norm1", 16),
        norm2(s / "norm2", 64),
        output(s / "output", 64, kDigits) {}

  Tensor operator()(const Tensor& images) const {              // [n, 12, 12, 1]
    const Tensor x = max_pool(relu(norm1(conv1(images))), 2);  // [n, 5, 5, 16]
    return output(amax(relu(norm2(conv2(x))), {1, 2}));        // [n, 3, 3, 64] -> [n, digits]
  }

  Convolution conv1, conv2;
  BatchNorm norm1, norm2;
  Linear output;
};

struct Training {
  Batch draw() { return ::draw(random); }

  double step(const Batch& batch) {
    tape().clear();
    const Tensor loss = cross_entropy(model(tensor({kBatch, kSide, kSide, 1}, batch.images)), batch.digits);
    backward(loss);
    adam.step(0.01);
    return loss.item();
  }

  Parameters parameters{/*seed=*/1};
  Model model{parameters.root()};
  Adam adam{parameters};
  RandomStream random{/*seed=*/1, Purpose::data};
};

int main() {
  Training training;
  for (int step = 1; step <= 600; ++step) {
    const double loss = training.step(training.draw());
    if (step % 100 == 0) std::printf("step %d: loss %.4f\n", step, loss);
  }
  RandomStream random(/*seed=*/1, Purpose::test);
  int right = 0, all = 0;
  for (int n = 0; n < 20; ++n) {
    const Inference inference;  // batch norm uses the running statistics
    const Batch batch = draw(random);
    const std::vector<int> answers = argmax(training.model(tensor({kBatch, kSide, kSide, 1}, batch.images)));
    for (std::size_t i = 0; i < answers.size(); ++i, ++all) right += answers[i] == batch.digits[i];
  }
  std::printf("%.1f %% of %d new digits right\n", 100.0 * right / all, all);
  return right >= 0.9 * all ? 0 : 1;
}

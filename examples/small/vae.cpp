// A variational autoencoder (Kingma and Welling 2014): images of 8 x 8 pixels with one round spot are encoded as two
// numbers and reconstructed from them. It must discover by itself that a spot has a position. Takes two seconds.
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adam.h>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace seppo;

constexpr int kBatch = 64, kSide = 8, kPixels = kSide * kSide, kHidden = 64, kLatent = 2;

struct Batch {
  std::vector<double> images;  // [batch, pixels], from 0 to 1
  std::vector<double> noise;   // [batch, latent], N(0, 1)
};

Batch draw(RandomStream& random) {
  Batch batch;
  for (int n = 0; n < kBatch; ++n) {
    const double x = 1 + 5 * random.uniform(), y = 1 + 5 * random.uniform();
    for (int row = 0; row < kSide; ++row)
      for (int col = 0; col < kSide; ++col)
        batch.images.push_back(std::exp(-0.5 * (std::pow(col - x, 2) + std::pow(row - y, 2))));
  }
  for (int i = 0; i < kBatch * kLatent; ++i) batch.noise.push_back(random.normal());
  return batch;
}

struct Autoencoder {
  explicit Autoencoder(const Scope& s)
      : read(s / "read", kPixels, kHidden),
        place(s / "place", kHidden, 2 * kLatent),
        write(s / "write", kLatent, kHidden),
        paint(s / "paint", kHidden, kPixels) {}

  struct Code {
    Tensor mean, log_variance;  // of q(z | x), [batch, latent]
  };
  Code encode(const Tensor& images) const {
    const std::vector<Tensor> both = chunk(place(tanh(read(images))), 2, /*axis=*/1);
    return {both[0], both[1]};
  }
  Tensor decode(const Tensor& z) const { return paint(tanh(write(z))); }  // logits of the pixels

  Linear read, place, write, paint;
};

struct Bound {
  Tensor reconstruction, divergence;  // nats per image: -log p(x | z), and KL(q(z | x) || N(0, 1))
};

// The negative evidence lower bound (ELBO), as its two terms.
Bound bound(const Autoencoder& model, const Batch& batch) {
  const Tensor images = tensor({kBatch, kPixels}, batch.images);
  const auto [mean, log_variance] = model.encode(images);
  const Tensor z = mean + exp(0.5 * log_variance) * tensor({kBatch, kLatent}, batch.noise);
  const Tensor divergence = 0.5 * sum(exp(log_variance) + square(mean) - 1 - log_variance);
  return {kPixels * binary_cross_entropy_with_logits(model.decode(z), images), divergence / kBatch};
}

struct Training {
  Batch draw() { return ::draw(random); }

  double step(const Batch& batch) {
    tape().clear();
    const auto [reconstruction, divergence] = bound(model, batch);
    const Tensor loss = reconstruction + divergence;
    backward(loss);
    adam.step(3e-3);
    return loss.item();
  }

  Parameters parameters{/*seed=*/1};
  Autoencoder model{parameters.root()};
  Adam adam{parameters};
  RandomStream random{/*seed=*/1, Purpose::data};
};

int main() {
  Training training;
  for (int step = 1; step <= 2000; ++step) {
    const double loss = training.step(training.draw());
    if (step % 500 == 0) std::printf("step %d: %.3f nats per image\n", step, loss);
  }

  // How much of the variance of new images do their two numbers explain?
  const Inference inference;
  RandomStream random(/*seed=*/1, Purpose::test);
  const Batch batch = draw(random);
  const Tensor images = tensor({kBatch, kPixels}, batch.images);
  const Tensor drawn = sigmoid(training.model.decode(training.model.encode(images).mean));
  const double error = mse_loss(drawn, images).item();
  const double explained = 1 - error / mean(var(images, 0, /*correction=*/0)).item();
  const double divergence = bound(training.model, batch).divergence.item();
  std::printf("%.1f %% of the variance explained by %.2f nats\n", 100 * explained, divergence);

  for (const double x : {-1.0, 0.0, 1.0}) {  // a walk through latent space
    const Tensor image = sigmoid(training.model.decode(tensor({1, 2}, {x, 0})));
    for (std::size_t i = 0; i < image.numel(); ++i)
      std::printf("%c%s", " .:o@"[static_cast<int>(4.99 * static_cast<double>(image.values()[i]))],
                  i % kSide == kSide - 1 ? "\n" : "");
  }
  return explained >= 0.9 ? 0 : 1;
}

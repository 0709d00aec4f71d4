// From a CSV file to a trained model: columns, missing values, splits by seed, batches of features.
#include <seppo/seppo.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>

using namespace seppo;

namespace {

// Predicts a price from two numbers and a category.
struct Model {
  Model(const Scope& s, int heatings)
      : heating(s / "heating", heatings, 4), hidden(s / "hidden", 2 + 4, 32), out(s / "out", 32, 1) {}

  Tensor operator()(const Tensor& x, List<int> heatings) const {               // [houses, 2] -> [houses, 1]
    return 100 * out(silu(hidden(concat({0.01 * x, heating(heatings)}, 1))));  // numbers near 1 learn best
  }

  Embedding heating;
  Linear hidden, out;
};

// A file to learn from; yours is there already.
void write_houses(const std::filesystem::path& path) {
  const char* const heatings[] = {"gas", "oil", "\"heat pump, new\""};
  RandomStream random(/*seed=*/1, own_purpose(0));
  std::string text = "area,rooms,heating,price\n";
  for (int i = 0; i < 3000; ++i) {
    const std::uint32_t area = 30 + random.below(150), rooms = 1 + random.below(6), heating = random.below(3);
    const double price = 2 * area * (1 + 0.1 * heating) + 10 * rooms + 8 * random.normal();
    const std::string shown = random.below(20) == 0 ? "" : std::to_string(rooms);
    text += std::to_string(area) + "," + shown + "," + heatings[heating] + "," + std::to_string(price) + "\n";
  }
  write_text(path, text);
}

}  // namespace

int main() {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "houses.csv";
  write_houses(path);
  const Table houses = read_table(path, {.numbers = {{"area"}, {"rooms", 3.5}, {"price"}},  // 3.5 if it is missing
                                         .categories = {{"heating"}}});
  const Features x = houses.features({"area", "rooms"}), price = houses.features({"price"});
  const std::vector<int>& heating = houses.ids("heating");
  const Split split = split_examples(houses.size(), {.validation = 0.1, .test = 0.1, .seed = 1});

  Parameters parameters(/*seed=*/1);
  const Model model(parameters.root(), static_cast<int>(houses.names("heating").size()));
  const auto loss = [&](std::span<const int> rows) {
    const Tensor predicted = model(x.pick(rows), pick(heating, rows));
    return mean_loss(mse_loss(predicted, price.pick(rows)), rows.size());
  };
  Trainer trainer(parameters, {.lr = 0.01, .schedule = ScheduleKind::cosine, .warmup_steps = 20, .steps = 500});
  Sampler sampler(split.train.size(), {.batch_size = 100});
  for (int step = 1; step <= 500; ++step) {
    trainer.step(pick(split.train, sampler.next()), loss);
    if (step % 100 == 0)
      std::printf("step %d: off by %.1f\n", step, std::sqrt(evaluate(split.validation, loss).mean("loss")));
  }
  const double error = std::sqrt(evaluate(split.test, loss).mean("loss"));
  std::printf("off by %.1f for %zu houses that it has not seen; prices vary by 8.0 by chance\n", error,
              split.test.size());
  return error < 12 ? 0 : 1;
}

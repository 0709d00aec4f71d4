// odd_one: an encoder without positions that finds the element of a set that is not like the others.
#include "app/run_program.h"
#include "odd_one/model.h"

#include <seppo/nn/run/data_digest.h>
#include <seppo/nn/train/metrics.h>

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace odd_one {
namespace {

using nlohmann::json;

constexpr int kTrain = 20'000, kValidation = 1'000, kTest = 10'000;  // sets, numbered consecutively
constexpr int kMostSets = 1'000'000'000;

// Consecutive sets, of which a batch has the numbers.
struct Numbers {
  int first, count;

  std::size_t size() const { return static_cast<std::size_t>(count); }
  std::vector<int> pick(std::span<const int> some) const {
    std::vector<int> numbers;
    for (const int i : some) numbers.push_back(first + i);
    return numbers;
  }
};

struct OddOne {
  using Model = odd_one::Model;
  using Examples = Numbers;

  ModelConfig model = {};
  app::TrainingConfig training = {
      .epochs = 10,
      .best = "accuracy",
      .trainer = {.lr = 5e-4, .schedule = seppo::ScheduleKind::cosine, .warmup_steps = 100, .clip_norm = 2}};
  std::optional<World> world = {};

  static app::About about() {
    return {.name = "odd_one",
            .summary = "a Transformer encoder finds the odd one in a set.",
            .title = "seppo: the odd one of ten",
            .task =
                "The task: of ten elements, nine are of one kind and one is of another; which? Kinds are random "
                "points, elements lie around them. Nothing depends on the order of a set, and so the encoder has "
                "no positions.",
            .measures = {"accuracy"},
            .shown = {"kinds", "noise", "d-model", "layers"},
            .query = "NUMBER",
            .predicts = "find the odd one in sets, and show the attention",
            .predict_help = fmt::format("Finds the odd one out in sets of these numbers. The model has not seen sets "
                                        "from {} on. Without numbers it reads them from standard input, one a line.",
                                        kTrain),
            .next = fmt::format("predict {}", kTrain),
            .ends_with_test = true};
  }

  void data_options(app::CommandLine& line, const app::Arguments&) {
    model.world.fields(line);
    line.check([this] { model.world.validate(); });
  }

  void settle(const app::CommandLine& line) {
    if (!line.given("d-ff")) model.layer.d_ff = 2 * model.layer.d_model;
  }

  void begin() { world.emplace(training.trainer.seed, model.world); }

  app::Data<Numbers> data() const {
    return {.training = {0, kTrain},
            .validation = {kTrain, kValidation},
            .test = Numbers{kTrain + kValidation, kTest},
            .summary = fmt::format("{} training and {} validation sets", kTrain, kValidation),
            .digest = seppo::digest_of(world->centres)};
  }

  std::string row(const Numbers& sets, std::size_t i) const {
    const int number = sets.first + static_cast<int>(i);
    const seppo::Inference guard;
    const World::Sets set = world->sets({&number, 1});
    std::string text = fmt::format("set {}: the odd one is {}", number, set.odd[0]);
    for (int e = 0; e < kElements; ++e) {
      const auto features = static_cast<std::size_t>(model.world.features);
      const auto element = set.elements.values().subspan(static_cast<std::size_t>(e) * features, features);
      text += fmt::format("\n  {}: {:.2f}", e, fmt::join(element, " "));
    }
    return text;
  }

  seppo::ShardLoss loss(const Model& model, const std::vector<int>& numbers) const {
    const World::Sets sets = world->sets(numbers);
    return seppo::classification_loss(model(sets.elements), sets.odd);
  }

  json measures(const seppo::Sums& sums) const { return {{"accuracy", sums.mean("correct")}}; }

  void print(const json& summary, const std::string& part, std::size_t count) const {
    const double accuracy = summary[part + "_accuracy"];
    app::print_fitted(fmt::format("the odd one found in {:.2f} % of {} fresh sets", 100 * accuracy, count));
  }

  // A set's number; throws FormatError for anything other than 0 .. kMostSets.
  std::vector<int> parse(std::string_view text) const {
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > kMostSets)
      seppo::fail<seppo::FormatError>("set '", seppo::printable(text), "' is not a number 0-", kMostSets);
    return {number};
  }

  app::Sample answer(const Model& model, const std::vector<int>& number) const {
    int odd = 0, found = 0;
    const auto maps = app::attention_maps([&] {
      const World::Sets set = world->sets(number);
      odd = set.odd[0];
      found = argmax(model(set.elements))[0];
    });
    app::AttentionLabels labels;
    for (int e = 0; e < kElements; ++e) labels.keys.push_back(e == odd ? "odd" : std::to_string(e));
    labels.queries = labels.keys;
    const std::string input = fmt::format("set {}", number[0]);
    const std::string verdict = found == odd ? "right" : app::correction(std::to_string(odd));
    return {.input = input,
            .expected = std::to_string(odd),
            .output = std::to_string(found),
            .maps = maps,
            .labels = app::same_labels(labels),
            .told = fmt::format("{}: element {}, {}", input, found, verdict)};
  }

  // With the sets of the samples.
  std::optional<app::PageNetwork> page_network(const Model& model, const app::Data<Numbers>& data) const {
    constexpr int kSets = 8;
    const seppo::Inference guard;
    json sets = json::array();
    for (int number = data.validation.first; number < data.validation.first + kSets; ++number) {
      const World::Sets set = world->sets({&number, 1});
      sets.push_back({{"number", number},
                      {"odd", set.odd[0]},
                      {"elements", kElements},
                      {"features", app::floats_in_base64(set.elements.values())}});
    }
    return {{.config = seppo::to_json_object(model.predictor.config), .task = {{"name", "odd_one"}, {"sets", sets}}}};
  }
};

}  // namespace
}  // namespace odd_one

int main(int argc, char** argv) { return app::run<odd_one::OddOne>(argc, argv); }

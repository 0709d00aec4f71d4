#include "charlm/model.h"

#include "app/checkpoint_config.h"
#include "app/training.h"

#include <seppo/autograd/core/parallel.h>

#include <algorithm>

namespace charlm {

using seppo::Ragged;
using seppo::Tensor;

nlohmann::json ModelOptions::to_json() const {
  return {{"d_model", d_model}, {"n_heads", n_heads}, {"n_layers", n_layers}, {"block", block}, {"dropout", dropout}};
}

ModelOptions ModelOptions::from_json(const nlohmann::json& config) {
  using examples::config_integer;
  return {.d_model = config_integer(config, "d_model", 1, 1 << 16),
          .n_heads = config_integer(config, "n_heads", 1, 1 << 16),
          .n_layers = config_integer(config, "n_layers", 0, 1000),
          .block = config_integer(config, "block", 1, 1 << 20),
          .dropout = examples::config_number(config, "dropout", 0, 1)};
}

seppo::LanguageModelConfig ModelOptions::model(int vocabulary) const {
  return {.vocabulary = vocabulary,
          .d_model = d_model,
          .n_heads = n_heads,
          .n_layers = n_layers,
          .dropout = dropout,
          .max_length = block};
}

namespace {

struct Windows {
  Ragged input;
  std::vector<int> next;

  void add(std::span<const int> text, std::size_t start, std::size_t length) {
    input.add(text.subspan(start, length));
    const auto target = text.subspan(start + 1, length);
    next.insert(next.end(), target.begin(), target.end());
  }
};

}  // namespace

seppo::ShardLoss loss(const seppo::LanguageModel& model, std::span<const int> text, std::span<const int> starts) {
  Windows windows;
  for (const int start : starts)
    windows.add(text, static_cast<std::size_t>(start), static_cast<std::size_t>(model.config.max_length));
  return examples::classification_loss(model(windows.input), windows.next);  // [characters, vocabulary]
}

double score(const seppo::LanguageModel& model, std::span<const int> text) {
  const auto block = static_cast<std::size_t>(model.config.max_length), characters = text.size() - 1;
  const std::size_t windows = (characters + block - 1) / block, at_once = 16;
  std::vector<double> sums((windows + at_once - 1) / at_once);
  seppo::parallel_for(0, sums.size(), 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t part = first; part < last; ++part) {
      const seppo::UseMode eval(seppo::Mode::eval);
      const seppo::TapeMark mark;
      Windows batch;
      for (std::size_t w = part * at_once; w < std::min(windows, (part + 1) * at_once); ++w)
        batch.add(text, w * block, std::min(block, characters - w * block));
      sums[part] = static_cast<double>(
          cross_entropy(model(batch.input), batch.next, {.reduction = seppo::Reduction::sum}).item());
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total / static_cast<double>(characters);
}

void sample(const seppo::LanguageModel& model, std::vector<int> text, int count, const seppo::SamplingOptions& options,
            seppo::RandomStream random, const std::function<void(int)>& emit) {
  seppo::check_sampling(options);
  const auto block = static_cast<std::size_t>(model.config.max_length);
  const seppo::UseMode eval(seppo::Mode::eval);
  for (int i = 0; i < count; ++i) {
    const seppo::TapeMark mark;
    Ragged window;
    window.add(std::span(text).last(std::min(text.size(), block)));
    const Tensor logits = model(window);
    const int next = seppo::sample_token(logits.values().last(logits.cols()), options, random);
    text.push_back(next);
    emit(next);
  }
}

}  // namespace charlm

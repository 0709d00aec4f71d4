// The toy numbers, and the steps that MultiHeadAttention takes with them.
#include "addsub/trace_words.h"

#include "addsub/data.h"
#include "app/printable.h"
#include "app/steps.h"
#include "app/words.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/multi_head_attention.h>
#include <seppo/nn/text/vocabulary.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <iostream>
#include <vector>

namespace addsub {
namespace {

using examples::Numbers;
using examples::Step;
using nlohmann::json;

constexpr std::size_t kWidth = 3;
constexpr std::array<std::array<int, kWidth>, 8> kVectors{
    {{1, 0, 1}, {0, 2, 1}, {1, 1, 0}, {2, 0, 0}, {0, 1, 2}, {1, 2, 0}, {0, 0, 2}, {2, 1, 1}}};

// Of the maps x W^T to Q, K and V, and of the output, which changes nothing.
constexpr std::array<int, 3 * kWidth * kWidth> kInputWeight{1, 0, 1, 0, 1, 0, 0, 0, 1,   // Q
                                                            0, 1, 0, 1, 0, 0, 0, 1, 1,   // K
                                                            1, 1, 0, 0, 1, 0, 1, 0, 1};  // V
constexpr std::array<int, kWidth * kWidth> kOutputWeight{1, 0, 0, 0, 1, 0, 0, 0, 1};

// A row for each word, those of equal words being equal.
Numbers embedded(const std::vector<std::string>& words) {
  std::vector<std::string> seen;
  Numbers rows{words.size(), kWidth, {}};
  for (const std::string& word : words) {
    const auto at = static_cast<std::size_t>(std::ranges::find(seen, word) - seen.begin());
    if (at == seen.size()) seen.push_back(word);
    seppo::check<seppo::FormatError>(at < kVectors.size(), "'", seppo::printable(word), "': there are vectors for ",
                                     kVectors.size(), " different words");
    rows.values.insert(rows.values.end(), kVectors[at].begin(), kVectors[at].end());
  }
  return rows;
}

void set(seppo::Parameters& parameters, const std::string& name, std::span<const int> values) {
  const seppo::Parameters::Entry& entry = *parameters.find(name);
  std::ranges::copy(values, parameters.edit().subspan(entry.offset).begin());
}

std::vector<Step> recorded_steps(const Numbers& rows) {
  seppo::Parameters parameters(0);
  const seppo::MultiHeadAttention attention(parameters.root() / "attention", kWidth, 1, {.bias = false});
  set(parameters, "attention.in_proj.weight", kInputWeight);
  set(parameters, "attention.out_proj.weight", kOutputWeight);
  const seppo::Inference guard;
  const int count = static_cast<int>(rows.rows);
  const seppo::Tensor x = seppo::tensor({count, static_cast<int>(kWidth)}, rows.values);
  examples::StepRecorder recorder({});
  const seppo::Observe scope(recorder);
  attention(x, {0, count});
  return std::move(recorder.steps);
}

// The vectors, the weights, and the steps that change something with one head and without a mask.
std::vector<Step> steps_of(const Numbers& rows) {
  std::vector<Step> steps{{.box = "words", .title = "vectors", .numbers = rows}};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto first = kInputWeight.begin() + static_cast<std::ptrdiff_t>(i * kWidth * kWidth);
    static constexpr const char* kTitles[] = {"weight of Q", "weight of K", "weight of V"};
    steps.push_back({.box = "attention",
                     .title = kTitles[i],
                     .numbers = {kWidth, kWidth, {first, first + static_cast<std::ptrdiff_t>(kWidth * kWidth)}}});
  }
  static constexpr std::string_view kSame[] = {"masked", "heads side by side", "output map"};
  for (Step& step : recorded_steps(rows))
    if (std::ranges::find(kSame, step.title) == std::end(kSame)) steps.push_back(std::move(step));
  return steps;
}

examples::StepLabels labels_of(const Step& step, const std::vector<std::string>& words) {
  static constexpr std::string_view kPairs[] = {"Q Kᵀ", "divided by √d", "softmax"};
  examples::StepLabels labels;
  if (step.title.starts_with("weight")) return labels;
  labels.rows = words;
  if (std::ranges::find(kPairs, step.title) != std::end(kPairs)) labels.columns = words;
  return labels;
}

void print_json(const std::vector<std::string>& words, const std::vector<Step>& steps) {
  json all = {{"words", words}, {"steps", json::array()}};
  for (const Step& step : steps)
    all["steps"].push_back({{"box", step.box},
                            {"title", step.title},
                            {"rows", step.numbers.rows},
                            {"columns", step.numbers.columns},
                            {"values", step.numbers.values}});
  std::cout << all.dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
}

}  // namespace

bool is_words(std::string_view text) {
  const auto is_word = [](std::string_view word) {
    const auto is_of_number = [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) || c == '+' || c == '-';
    };
    return !vocabulary().contains(word) && std::ranges::none_of(word, is_of_number);
  };
  const auto words = examples::split_blanks(text);
  return !words.empty() && std::ranges::all_of(words, is_word);
}

void trace_words(const std::string& text, bool as_json) {
  std::vector<std::string> words;
  for (const std::string_view word : examples::split_blanks(text)) words.emplace_back(word);
  const std::vector<Step> steps = steps_of(embedded(words));
  if (as_json) return print_json(words, steps);
  for (std::string& word : words) word = examples::shown_line(word);
  for (const Step& step : steps) std::cout << examples::step_text(step, labels_of(step, words), true) << "\n";
}

}  // namespace addsub

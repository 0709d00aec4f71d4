// Folders that Hugging Face's transformers wrote, of every family, with what transformers computes.
// needs: precision: double single
#include "models/family_configs.h"
#include "support/json.h"
#include "support/paths.h"
#include "support/precision.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/gguf/gguf_model.h>
#include <seppo/models/hugging_face/pretrained.h>
#include <seppo/models/window_score.h>
#include <seppo/nn/io/text_file.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace fs = std::filesystem;
using namespace seppo;
using namespace test::families;

namespace {

// Folders, each with the logits and the greedy text that transformers computes: none where the project is built alone.
std::vector<fs::path> folders() {
  const char* const other = std::getenv("SEPPO_MODEL_FOLDERS");
  const fs::path cases =
      other ? fs::path(other) : fs::path(test::source_folder()) / "../shared/cases/hugging_face/folders";
  std::vector<fs::path> found;
  if (fs::exists(cases))
    for (const auto& entry : fs::directory_iterator(cases))
      if (fs::exists(entry.path() / "expected.json")) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

struct Expected {
  std::vector<int> ids, rows, prompt, greedy;
  std::vector<std::vector<double>> logits;
};

// Of such a folder, which may have the model as a GGUF file.
Pretrained load(const fs::path& folder) {
  const fs::path gguf = folder / "model.gguf";
  return fs::exists(gguf) ? load_gguf(gguf) : load_pretrained(folder);
}

std::vector<int> integers(const test::Json& list) {
  std::vector<int> values;
  for (const double value : list.numbers()) values.push_back(static_cast<int>(value));
  return values;
}

Expected expected_of(const fs::path& folder) {
  const auto all = test::Json::parse(read_text(folder / "expected.json"));
  Expected expected{integers(all["ids"]), integers(all["rows"]), integers(all["prompt"]), integers(all["greedy"]), {}};
  for (const test::Json& row : all["logits"].elements()) expected.logits.push_back(row.numbers());
  return expected;
}

Ragged one(const std::vector<int>& tokens) {
  Ragged text;
  text.add(tokens);
  return text;
}

// The largest difference of the scores from those expected. Transformers computes norms and rotations in single
// precision, whatever the model's.
double difference(const Tensor& scores, const Expected& expected) {
  double most = 0;
  for (std::size_t r = 0; r < expected.rows.size(); ++r)
    for (std::size_t j = 0; j < expected.logits[r].size(); ++j) {
      const auto row = static_cast<std::size_t>(expected.rows[r]);
      const double ours{scores.values()[row * scores.cols() + j]};
      most = std::max(most, std::abs(ours - expected.logits[r][j]));
    }
  return most;
}

// The same scores, with tokens given to a cache in pieces.
Tensor scores_with_cache(const LanguageModel& model, const std::vector<int>& ids, const std::vector<int>& pieces) {
  KeyValueCache cache = model.make_cache(1);
  std::vector<Tensor> scores;
  std::size_t begin = 0;
  for (const int piece : pieces) {
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(begin);
    scores.push_back(model(one({first, first + piece}), &cache));
    begin += static_cast<std::size_t>(piece);
  }
  return concat(scores);
}

std::vector<int> greedy_without_cache(const LanguageModel& model, const Expected& expected) {
  std::vector<int> text = expected.prompt;
  for (std::size_t i = 0; i < expected.greedy.size(); ++i) {
    const Inference guard;
    text.push_back(argmax(model(one(text))).back());
  }
  return {text.end() - std::ssize(expected.greedy), text.end()};
}

std::vector<int> greedy(const LanguageModel& model, const Expected& expected) {
  const GenerateOptions options{.max_tokens = static_cast<int>(expected.greedy.size()), .sampling = {.temperature = 0}};
  return generate(model, one(expected.prompt), options)[0];
}

// Calls f with each folder, its name and what is expected of it.
template <class F>
void for_each_folder(const F& f) {
  const std::vector<fs::path> all = folders();
  if (all.empty()) BOOST_TEST_MESSAGE("skipped: there are no folders of models");
  for (const fs::path& folder : all) BOOST_TEST_CONTEXT(folder.filename()) {
      f(folder);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(scores_and_texts_are_those_of_transformers) {
  for_each_folder([](const fs::path& folder) {
    const Expected expected = expected_of(folder);
    const Pretrained read = load(folder);
    for (const int threads : {1, 2, 5}) {
      set_num_threads(threads);
      const Inference guard;
      BOOST_CHECK_LT(difference(read.model(one(expected.ids)), expected), 5e-5);
      BOOST_CHECK_LT(difference(scores_with_cache(read.model, expected.ids, {11, 1, 1, 9, 1, 1}), expected), 5e-5);
      BOOST_TEST(greedy(read.model, expected) == expected.greedy, boost::test_tools::per_element());
    }
    set_num_threads(1);
    BOOST_TEST(greedy_without_cache(read.model, expected) == expected.greedy, boost::test_tools::per_element());
  });
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_finite_differences) {
  for_each_folder([](const fs::path& folder) {
    const Expected expected = expected_of(folder);
    const Pretrained read = load(folder);
    const std::vector<int> starts{0};
    const auto report =
        test::check_gradients(*read.parameters, [&] { return window_loss(read.model, expected.ids, starts, 12).loss; });
    BOOST_CHECK_MESSAGE(report.passed, report.text);
  });
}

BOOST_AUTO_TEST_CASE(what_is_written_is_what_was_read) {
  for_each_folder([&](const fs::path& folder) {
    const test::Folder written("families");
    const Expected expected = expected_of(folder);
    const Pretrained read = load(folder);
    save_pretrained(written.path, read.config, *read.parameters);
    const Pretrained again = load_pretrained(written.path);
    const Inference guard;
    const Tensor before = read.model(one(expected.ids));
    const Tensor after = again.model(one(expected.ids));
    BOOST_CHECK(std::ranges::equal(before.values(), after.values()));
    BOOST_CHECK(again.config.bos == read.config.bos && again.config.stops == read.config.stops);
  });
}

BOOST_AUTO_TEST_CASE(every_family_is_written_and_read) {
  const std::vector<int> ids{1, 4, 2, 8, 5, 7, 12, 0, 3};
  for_each_family([&](Architecture architecture) {
    const test::Folder folder("families");
    const HfConfig config = small(architecture);
    Parameters parameters(3);
    const LanguageModel model(parameters.root(), config.model);
    RandomStream random(5, Purpose::test);
    for (real& value : parameters.edit()) value = static_cast<real>(0.3 * random.normal());
    save_pretrained(folder.path, config, parameters);
    const Pretrained again = load_pretrained(folder.path);
    BOOST_CHECK(again.config.architecture == architecture);
    for (const auto& entry : parameters.entries())
      BOOST_CHECK(std::ranges::equal(again.parameters->find(entry.name)->tensor.values(), entry.tensor.values()));
    const Inference guard;
    const Tensor expected = model(one(ids));
    BOOST_CHECK(std::ranges::equal(again.model(one(ids)).values(), expected.values()));
    const Tensor pieces = scores_with_cache(again.model, ids, {4, 1, 3, 1});
    for (std::size_t i = 0; i < expected.numel(); ++i)
      BOOST_CHECK_SMALL(double{pieces.values()[i]} - double{expected.values()[i]}, 20 * test::kTolerance);
  });
}

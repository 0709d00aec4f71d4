// Values and gradients are bit-identical for any number of threads, both outside of tasks, where an op itself is split
// into pieces, and inside, where it runs serially beside others: ops, short and long attention, shared inputs,
// training, evaluation and decoding.
#include <seppo/models/decoding/beam.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/language_model.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include "small_transformer.h"
#include "support/threads.h"

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

using namespace seppo;
using test::add;
using test::Bytes;
using test::check_op;
using test::check_threads;

namespace {

Ragged sequences(std::initializer_list<int> lengths, int vocabulary) {
  RandomStream random(5, Purpose::test);
  Ragged batch;
  for (const int length : lengths) {
    std::vector<int> tokens;
    for (int i = 0; i < length; ++i)
      tokens.push_back(static_cast<int>(random.below(static_cast<unsigned>(vocabulary))));
    batch.add(tokens);
  }
  return batch;
}

struct Language {
  Parameters parameters{3};
  LanguageModel model{parameters.root(),
                      {.vocabulary = 30,
                       .layer = {.d_model = 32, .n_heads = 4, .d_ff = 64, .dropout = 0.1, .attention_dropout = 0.1},
                       .n_layers = 2,
                       .max_length = 48}};
  Ragged texts = sequences({48, 3, 20, 31, 1, 17, 40, 8, 9, 25, 33, 12}, 30);

  ShardLoss loss(std::span<const int> rows) const {
    const Ragged some = texts.pick(rows);
    return classification_loss(model(some), some.tokens);
  }
  std::vector<int> rows() const {
    std::vector<int> rows(texts.size());
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(ops) {
  check_op("linear", {{300, 96}, {160, 96}, {160}}, [](const auto& x) { return linear(x[0], x[1], x[2]); });
  check_op("matmul", {{3, 130, 70}, {3, 70, 90}}, [](const auto& x) { return matmul(x[0], x[1]); });
  check_op("elementwise", {{700, 200}, {200}}, [](const auto& x) { return gelu(x[0] * x[1]) + exp(x[1]); });
  check_op("softmax", {{900, 130}}, [](const auto& x) { return softmax(x[0]); });
  check_op("layer_norm", {{900, 130}, {130}, {130}}, [](const auto& x) { return layer_norm(x[0], x[1], x[2]); });
  check_op("dropout", {{900, 130}}, [](const auto& x) { return dropout(x[0], 0.3); });
  check_op("sum", {{500, 300}}, [](const auto& x) { return sum(x[0]); });
  check_op("sum of columns", {{900, 130}}, [](const auto& x) { return sum(x[0], 0); });
  const std::vector<int> ids = sequences({2000}, 50).tokens;
  check_op("embedding", {{50, 96}}, [&](const auto& x) { return embedding(x[0], ids); });
  check_op("cross_entropy", {{2000, 50}}, [&](const auto& x) { return cross_entropy(x[0], ids); });
}

BOOST_AUTO_TEST_CASE(inputs_that_are_shared) {
  check_op("a product with itself", {{150, 150}}, [](const auto& x) { return matmul(x[0], x[0]); });
  check_op("used three times", {{400, 200}}, [](const auto& x) { return x[0] * x[0] + x[0]; });
  check_op("one gain for two norms", {{600, 64}, {64}, {64}},
           [](const auto& x) { return layer_norm(layer_norm(x[0], x[1], x[2]), x[1], x[2]); });
}

BOOST_AUTO_TEST_CASE(attention_of_short_and_long_sequences) {
  const auto offsets_of = [](std::initializer_list<int> lengths) {
    std::vector<int> offsets{0};
    for (const int length : lengths) offsets.push_back(offsets.back() + length);
    return offsets;
  };
  for (const auto& offsets : {offsets_of({5, 1, 0, 9, 16, 3, 12}), offsets_of({90, 260, 7, 140})})
    for (const Mask& mask : {Mask::none(), Mask::causal()})
      for (const double p : {0.0, 0.2}) {
        const int rows = offsets.back();
        const std::string name =
            std::to_string(rows) + " rows" + (mask.is_causal ? ", causal" : "") + (p > 0 ? ", with dropout" : "");
        check_op(name, {{rows, 32}, {rows, 32}, {rows, 32}}, [&, causal = mask, rate = p](const auto& x) {
          return attention(x[0], x[1], x[2], 4, offsets, offsets, {causal, rate});
        });
        check_op(name + ", of itself", {{rows, 32}}, [&, causal = mask, rate = p](const auto& x) {
          return attention(x[0], x[0], x[0], 4, offsets, offsets, {causal, rate});
        });
        check_op(name + ", stacked", {{rows, 96}}, [&, causal = mask, rate = p](const auto& x) {
          return attention(Columns(x[0], 0, 32), Columns(x[0], 32, 32), Columns(x[0], 64, 32), 4, offsets, offsets,
                           {causal, rate});
        });
      }
}

BOOST_AUTO_TEST_CASE(training) {
  check_threads("three steps", [] {
    Language language;
    Trainer trainer(language.parameters, {.lr = 1e-2});
    Bytes bytes;
    for (int step = 0; step < 3; ++step) {
      const StepResult result =
          trainer.step(language.rows(), [&](std::span<const int> some) { return language.loss(some); });
      add(bytes, std::span<const double>(&result.loss, 1));
    }
    add(bytes, std::span<const real>(language.parameters.values()));
    return bytes;
  });
}

BOOST_AUTO_TEST_CASE(evaluation) {
  const Language language;  // shared by all tasks
  check_threads("evaluate", [&] {
    const Sums sums = evaluate(
        language.rows(), [&](std::span<const int> some) { return language.loss(some); }, 3);
    const double all[] = {sums["loss"], sums["count"], sums["correct"]};
    Bytes bytes;
    add(bytes, std::span<const double>(all));
    return bytes;
  });
}

// A server's: eight threads of the user's share two models without a lock, and each gets the answers it would get
// alone.
BOOST_AUTO_TEST_CASE(one_model_for_several_threads) {
  const Language language;
  const small::Fixture f;
  const Ragged prompts = sequences({3, 1, 7, 2, 12, 5, 9, 4}, 30);
  const Ragged sources = small::random_batch({4, 1, 3, 9, 5, 7, 2, 6}, 6);
  const auto answer = [&](std::size_t i) {
    const Ragged one = prompts.pick({static_cast<int>(i)});
    Bytes bytes;
    add(bytes, std::span<const int>(generate(language.model, one, {.max_tokens = 20, .seed = i})[0]));
    const BeamOptions search{.bos = 0, .eos = 1, .max_length = 8};
    const Hypothesis best = beam_search(f.model, sources.pick({static_cast<int>(i)}), search)[0][0];
    add(bytes, std::span<const int>(best.tokens));
    add(bytes, std::span<const double>(best.token_log_probabilities));
    const Inference guard;
    add(bytes, language.model(one).values());
    return bytes;
  };
  std::vector<Bytes> alone;
  for (std::size_t i = 0; i < prompts.size(); ++i) alone.push_back(answer(i));
  std::vector<std::vector<Bytes>> together(8, std::vector<Bytes>(prompts.size()));
  std::vector<std::thread> users;
  for (std::size_t user = 0; user < together.size(); ++user)
    users.emplace_back([&, user] {
      for (std::size_t n = 0; n < 2 * prompts.size(); ++n) {
        const std::size_t i = (user + n) % prompts.size();
        together[user][i] = answer(i);
      }
    });
  for (std::thread& user : users) user.join();
  for (const std::vector<Bytes>& answers : together) BOOST_CHECK(answers == alone);
}

// Rows of a table that several threads ask for at once, each some further, are all computed when they are read. Two
// that compute the same row are hardly ever seen by their values, but by ThreadSanitizer.
BOOST_AUTO_TEST_CASE(positions_that_nobody_has_computed_yet) {
  constexpr int kRows = 64, kColumns = 128, kThreads = 4, kPiece = 4;
  for (int repeat = 0; repeat < 20; ++repeat) {
    Parameters parameters(1);
    const SinusoidTable table(parameters.root(), kRows, kColumns, SinusoidTable::EvenColumns::sines, 10000);
    std::atomic<int> wrong = 0;
    const auto ask = [&] {
      for (int end = kPiece; end <= kRows; end += kPiece) {
        table.compute_up_to(end);
        for (int i = (end - kPiece) * kColumns; i < end * kColumns; ++i) {
          const double expected = sinusoid(i / kColumns, i % kColumns, kColumns);
          wrong += table.tensor().values()[static_cast<std::size_t>(i)] != static_cast<real>(expected);
        }
      }
    };
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(ask);
    threads.clear();
    BOOST_REQUIRE_EQUAL(wrong.load(), 0);
  }
}

BOOST_AUTO_TEST_CASE(decoding) {
  const Language language;
  const Ragged prompts = sequences({3, 1, 7, 2, 12}, 30);
  for (const int stride : {1, 10})
    check_threads("generate", [&] {
      Tape own;
      const UseTape use(own);
      Bytes bytes;
      for (const auto& text : generate(language.model, prompts, {.max_tokens = 60, .stride = stride, .seed = 9}))
        add(bytes, std::span<const int>(text));
      return bytes;
    });
  const small::Fixture f;
  const Ragged sources = small::random_batch({4, 1, 3, 9, 5, 7}, 6);
  check_threads("beam_search", [&] {
    Tape own;
    const UseTape use(own);
    Bytes bytes;
    for (const auto& found : beam_search(f.model, sources, {.bos = 0, .eos = 1, .max_length = 12, .n_best = 3}))
      for (const Hypothesis& h : found) {
        add(bytes, std::span<const int>(h.tokens));
        add(bytes, std::span<const double>(&h.score, 1));
      }
    for (const auto& target : greedy_decode(f.model, sources, {.bos = 0, .eos = 1, .max_length = 12}))
      add(bytes, std::span<const int>(target));
    return bytes;
  });
}

// Bit-identical results for any number of threads: every op, among tasks and beside all the others at once. Then
// whatever is built on the ops: all forms of attention, optimisers, rounds and shards, evaluation, sampling, decoding.
#include <seppo/autograd/tools/checkpointing.h>
#include <seppo/models/decoding/beam.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/decoding/sampling.h>
#include <seppo/models/language_model.h>
#include <seppo/nn/optim/clip.h>
#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include "small_transformer.h"
#include "support/ops/table.h"
#include "support/threads.h"

#include <numeric>
#include <thread>

using namespace seppo;
using test::add;
using test::Bytes;
using test::check_threads;

namespace {

struct Job {
  std::string name;
  std::vector<Shape> shapes;
  test::Op op;
};

std::vector<int> integers(std::size_t count, int below) {
  RandomStream random(5, Purpose::test);
  std::vector<int> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(static_cast<int>(random.below(static_cast<unsigned>(below))));
  return all;
}

// Every op of ops.h that computes, on more elements than fit in one piece of any loop.
std::vector<Job> ops() {
  using X = test::Inputs;
  const Shape wide{70, 1000}, row{1000}, tall{3000, 20};
  std::vector<Job> jobs;
  for (const test::OpRow& entry : test::ops_table())
    for (std::uint64_t seed = 0; seed < 3 && !entry.large.empty(); ++seed) {
      test::GivenShapes draw(entry.large, seed);
      const test::OpCase c = test::drawn(entry, draw);
      if (c.fits) jobs.push_back({entry.name, c.shapes, c.options.low > 0 ? test::of_positive(c).op : c.op});
      if (!draw.has_chosen()) break;
    }
  const auto op = [&](const char* name, std::vector<Shape> shapes, test::Op f) {
    jobs.push_back({name, std::move(shapes), std::move(f)});
  };
  op("dropout", {wide, wide}, [](X x) { return add_dropout(dropout(x[0], 0.2), x[1], 0.4); });
  op("add_norm with dropout", {wide, wide, row, row}, [](X x) {
    return add_norm(x[0], x[1], x[2], x[3], {1e-5, 0.1, 0.2});
  });
  op("add_norm of rows that overlap", {{301, 1000}, row, row},
     [](X x) { return add_norm(slice(x[0], 0, 0, 300), slice(x[0], 0, 1, 301), x[1], x[2]); });
  const std::vector<int> ids = integers(5000, 40), few = integers(60'000, 3000);
  op("embedding", {{40, 64}}, [=](X x) { return embedding(x[0], ids); });
  op("index_select and index_add", {tall, {5000, 20}},
     [=](X x) { return index_add(x[0], 0, ids, x[1] * index_select(x[0], 0, ids)); });
  op("index_amax", {{40, 20}, {5000, 20}}, [=](X x) { return index_amax(x[0], 0, ids, x[1]); });
  op("gather and scatter_add", {tall, tall}, [=](X x) {
    const Indices at{{3000, 20}, few};
    return scatter_add(x[0], 0, at, x[1] * gather(x[0], 0, at));
  });
  op("linear", {{130, 200}, {150, 200}, {150}},
     [](X x) { return linear(x[0], x[1], x[2], Activation::relu) + linear(x[0], x[1], x[2], Activation::gelu); });
  op("few rows", {{3, 300}, {700, 300}}, [](X x) { return linear(x[0], x[1]); });
  op("einsum", {{6, 50, 40}, {6, 50, 30}}, [](X x) { return einsum("bki,bkj->bij", x[0], x[1]); });
  op("checkpoint", {wide, row}, [](X x) {
    return checkpoint({x[0], x[1]}, [](std::span<const Tensor> in) { return dropout(gelu(in[0] * in[1]), 0.3); });
  });
  op("one tensor for all", {{120, 120}}, [](X x) { return matmul(x[0], linear(x[0], x[0])) * x[0] + x[0]; });
  return jobs;
}

std::vector<int> offsets_of(const std::vector<int>& lengths) {
  std::vector<int> offsets{0};
  for (const int length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

// Short and long sequences; separate queries; fewer key heads; columns that keys and values share; masks, a bias, of
// which heads, sequences or both share matrices, ALiBi, dropout.
std::vector<Job> attentions() {
  using X = test::Inputs;
  std::vector<Job> jobs;
  for (const bool is_long : {false, true}) {
    const std::vector<int> qo = offsets_of(is_long ? std::vector{70, 200, 5} : std::vector{3, 9, 1, 6, 2, 12, 4}),
                           ko = offsets_of(is_long ? std::vector{150, 200, 33} : std::vector{8, 9, 2, 11, 7, 12, 5});
    const int q = qo.back(), k = ko.back(), most_q = is_long ? 200 : 12, most_k = most_q;
    const std::string length = is_long ? "long " : "short ";
    const Shape queries{q, 32}, keys{k, 32}, shared{k, 16};
    for (const Mask& mask : {Mask::none(), Mask::causal()})
      jobs.push_back({length + "grouped attention", {queries, shared, shared}, [=](X x) {
                        return attention(x[0], x[1], x[2], 4, qo, ko, {.mask = mask, .dropout = 0.1});
                      }});
    const int sequences = static_cast<int>(qo.size()) - 1;
    for (const Shape& bias : {Shape{4, most_q, most_k}, Shape{most_q, most_k}, Shape{sequences, 1, most_q, most_k},
                              Shape{sequences, 4, most_q, most_k}})
      jobs.push_back({length + "attention with a bias " + bias.str(), {queries, keys, keys, bias}, [=](X x) {
                        return attention(x[0], x[1], x[2], 4, qo, ko, {.bias = x[3]});
                      }});
    jobs.push_back({length + "attention to shared columns", {queries, {k, 40}}, [=](X x) {  // of K's next heads
                      return attention(x[0], Columns(x[1], 0, 32), Columns(x[1], 8, 32), 4, qo, ko);
                    }});
    jobs.push_back({length + "attention with slopes", {queries, keys, keys}, [=](X x) {
                      const std::vector<real> slopes{1, 0.5, 0.25, 0.125};
                      return attention(x[0], x[1], x[2], 4, qo, ko, {.mask = Mask::causal(), .slopes = slopes});
                    }});
    jobs.push_back({length + "attention with capped scores", {queries, shared, shared}, [=](X x) {
                      return attention(x[0], x[1], x[2], 4, qo, ko, {.mask = Mask::causal(), .softcap = 0.5});
                    }});
    std::vector<int> valid;
    for (std::size_t s = 0; s + 1 < ko.size(); ++s) valid.push_back((ko[s + 1] - ko[s] + 1) / 2);
    jobs.push_back({length + "attention to some keys", {queries, keys, keys}, [=](X x) {
                      return attention(x[0], x[1], x[2], 2, qo, ko, {.mask = Mask::valid_lengths(valid)});
                    }});
  }
  return jobs;
}

struct Language {
  Parameters parameters{3};
  LanguageModel model;
  Ragged texts;

  explicit Language(int max_length)
      : model(parameters.root(), {.vocabulary = 30,
                                  .layer = {.d_model = 32, .n_heads = 4, .d_ff = 64, .dropout = 0.1},
                                  .n_layers = 2,
                                  .max_length = max_length}) {
    for (const int length : {max_length, 3, 20, 31, 1, 17, max_length / 2, 8, 9})
      texts.add(integers(static_cast<std::size_t>(length), 30));
  }
  ShardLoss loss(std::span<const int> rows) const {
    const Ragged some = texts.pick(rows);
    return classification_loss(model(some), some.tokens, 0.1);
  }
  std::vector<int> rows() const {
    std::vector<int> rows(texts.size());
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }
};

Bytes bytes_of(const std::vector<std::vector<int>>& texts) {
  Bytes bytes{'-'};
  for (const auto& text : texts) add(bytes, std::span<const int>(text));
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_form_of_attention) {
  for (const Job& job : attentions()) test::check_op(job.name, job.shapes, job.op);
}

// As tasks of one batch, and from the user's own threads: no two share scratch memory.
BOOST_AUTO_TEST_CASE(all_ops_at_once) {
  std::vector<Job> jobs = ops();
  for (Job& job : attentions()) jobs.push_back(std::move(job));
  const auto run = [&](std::size_t i) { return test::values_and_gradients(jobs[i].shapes, jobs[i].op); };
  std::vector<Bytes> expected(jobs.size()), expected_alone;
  run_tasks(jobs.size(), [&](std::size_t i) { expected[i] = run(i); });
  for (std::size_t i = 0; i < jobs.size(); ++i) expected_alone.push_back(run(i));
  for (const int threads : {2, 3, 4}) {
    set_num_threads(threads);
    std::vector<Bytes> tasks(jobs.size()), alone(jobs.size());
    run_tasks(jobs.size(), [&](std::size_t i) { tasks[i] = run(i); });
    std::vector<std::thread> users;
    for (std::size_t user = 0; user < 3; ++user)
      users.emplace_back([&, user] {
        for (std::size_t i = user; i < jobs.size(); i += 3) alone[i] = run(i);
      });
    for (std::thread& user : users) user.join();
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      BOOST_CHECK_MESSAGE(tasks[i] == expected[i], jobs[i].name << " among tasks of " << threads << " threads");
      BOOST_CHECK_MESSAGE(alone[i] == expected_alone[i], jobs[i].name << " beside other users");
    }
  }
  set_num_threads(1);
}

// More parameters than one piece of any optimiser or norm covers, including a frozen range and groups.
BOOST_AUTO_TEST_CASE(optimisers) {
  check_threads("optimisers", [] {
    Parameters parameters(1);
    const auto add_one = [&](const char* name, const Shape& shape) {
      parameters.root().parameter(name, shape, init_constant(0.5));
    };
    add_one("a", {700, 100}), add_one("ice", {33, 1000}), add_one("b", {37}), add_one("c", {1010, 1001});
    parameters.freeze("ice");
    const ParameterGroups groups{{.prefix = "b", .lr = 2, .weight_decay = 0.5}};
    Adam adam(parameters, {.weight_decay = 0.1, .decoupled = false}, groups);
    Sgd sgd(parameters, {.momentum = 0.9, .nesterov = true, .weight_decay = 0.1}, groups);
    Ema ema(parameters, 0.9);
    Bytes bytes;
    for (int step = 0; step < 3; ++step) {
      const std::span<real> gradients = parameters.gradients();
      std::uint32_t state = static_cast<std::uint32_t>(step);
      for (real& g : gradients) state = state * 1664525 + 1013904223, g = static_cast<real>(state >> 20) / 1000;
      const double norm = gradient_norm(parameters);
      add(bytes, std::span<const double>(&norm, 1));
      step == 1 ? sgd.step(0.1, 1 / norm) : adam.step(0.1, 1 / norm);
      ema.update();
    }
    add(bytes, parameters.values());
    add(bytes, std::span<const real>(ema.averages()));
    return bytes;
  });
}

// Steps with shards and rounds, and every feature of a trainer.
BOOST_AUTO_TEST_CASE(training_in_rounds) {
  for (const auto& [shards, rounds] : {std::pair{0, 1}, {3, 1}, {2, 3}, {1, 4}})
    for (const int max_length : test::is_in_memcheck() ? std::vector{40} : std::vector{40, 300})
      check_threads("training", [=, shards = shards, rounds = rounds] {
        Language language(max_length);
        Trainer trainer(language.parameters, {.lr = 1e-2, .accumulate = rounds, .shards = shards, .ema_decay = 0.9});
        Bytes bytes;
        for (int step = 0; step < 2; ++step) {
          const StepResult r = trainer.step(language.rows(), [&](auto some) { return language.loss(some); });
          const double all[] = {r.loss, r.accuracy, r.gradient_norm};
          add(bytes, std::span<const double>(all));
        }
        add(bytes, language.parameters.values());
        add(bytes, std::span<const real>(trainer.averages().averages()));
        return bytes;
      });
}

BOOST_AUTO_TEST_CASE(evaluation_of_short_and_long_texts) {
  for (const int max_length : {40, 300}) {
    const Language language(max_length);
    for (const std::size_t chunk : {1u, 4u, 64u})
      check_threads("evaluation", [&] {
        const Sums sums = evaluate(
            language.rows(), [&](auto some) { return language.loss(some); }, chunk);
        const double all[] = {sums["loss"], sums["count"], sums["correct"]};
        Bytes bytes;
        add(bytes, std::span<const double>(all));
        return bytes;
      });
  }
}

// By sampling, greedily and by beam search; one of the prompts fills the window.
BOOST_AUTO_TEST_CASE(decoding_in_every_way) {
  const Language language(40);
  const Ragged prompts = language.texts.pick({0, 1, 4, 6});
  for (const SamplingOptions& sampling :
       {SamplingOptions{.temperature = 0}, {.temperature = 1.3, .top_k = 5}, {.repetition_penalty = 1.2, .top_p = 0.7}})
    check_threads("generate", [&] {
      Tape own;
      const UseTape use(own);
      return bytes_of(generate(language.model, prompts,
                               {.max_tokens = 25, .sampling = sampling, .stop = {7}, .stride = 3, .seed = 4}));
    });
  const small::Fixture f;
  const Ragged sources = small::random_batch({4, 1, 3, 9, 5, 7, 2, 8}, 6);
  for (const int beams : {1, 2, 5})
    check_threads("beams", [&] {
      Tape own;
      const UseTape use(own);
      Bytes bytes = bytes_of(greedy_decode(f.model, sources, {.bos = 0, .eos = 1, .max_length = 14}));
      for (const auto& found :
           beam_search(f.model, sources, {.bos = 0, .eos = 1, .max_length = 14, .beam = beams, .length_penalty = 0.6}))
        for (const Hypothesis& h : found) {
          add(bytes, std::span<const int>(h.tokens));
          add(bytes, std::span<const double>(&h.score, 1));
        }
      return bytes;
    });
}

// Trains with Trainer alone, in combinations that the programs do not use, and prints a digest of the parameters after
// each part. tests/ranks/run starts it on several ranks, where the output must be the same. A rank that finds an error
// reports it and ends all ranks.
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/io/digest.h>
#include <seppo/nn/modules/batch_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/first_rank.h>
#include <seppo/nn/train/ranks.h>
#include <seppo/nn/train/trainer.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace seppo;

constexpr int kSymbols = 20, kIgnored = 0;

void require(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "rank %d: %s\n", rank(), what.c_str());
  end_all_ranks(3);
}

// Sequences of 1 to 9 symbols. Example 5 throws if `throws` is set; all targets of examples 10 to 19 are ignored.
struct Data {
  Ragged source, target, next;
  bool throws = false;
  Data() {
    RandomStream random(9, Purpose::test);
    for (int i = 0; i < 40; ++i) {
      std::vector<int> from(1 + random.below(9)), to(1 + random.below(9)), then(to.size());
      for (auto* sequence : {&from, &to, &then})
        for (int& symbol : *sequence) symbol = 1 + static_cast<int>(random.below(kSymbols - 1));
      if (i >= 10 && i < 20) std::ranges::fill(then, kIgnored);
      source.add(from), target.add(to), next.add(then);
    }
  }
};

struct Model {
  Parameters parameters{4};
  Transformer transformer{parameters.root(),
                          {.src_vocabulary = kSymbols,
                           .tgt_vocabulary = kSymbols,
                           .layer = {.d_model = 16, .n_heads = 2, .d_ff = 24, .dropout = 0.1},
                           .enc_layers = 1,
                           .dec_layers = 2,
                           .max_length = 16}};

  ShardLoss loss(const Data& data, std::span<const int> rows) const {
    if (data.throws && std::ranges::count(rows, 5)) throw std::runtime_error("example 5");
    const Ragged next = data.next.pick(rows);
    const Tensor logits = transformer.logits(data.source.pick(rows), data.target.pick(rows));
    return {.loss = cross_entropy(logits, next.tokens,
                                  {.label_smoothing = 0.1, .ignore_index = kIgnored, .reduction = Reduction::sum}),
            .count = static_cast<double>(next.tokens.size() -
                                         static_cast<std::size_t>(std::ranges::count(next.tokens, kIgnored)))};
  }
};

void show(const char* part, const Model& model) {
  Digest digest;
  const std::span<const real> values = model.parameters.values();
  digest.add(values.data(), values.size_bytes());
  if (rank() == 0) std::printf("%s %s\n", part, digest.hex().c_str());
}

std::vector<int> some(int count) {
  std::vector<int> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

void train(const char* part, const TrainerConfig& config, int examples, const ParameterGroups& groups = {},
           bool freezes = false) {
  Data data;
  Model model;
  if (freezes) model.parameters.freeze("encoder.");
  Trainer trainer(model.parameters, config, groups);
  const std::vector<int> rows = some(examples);
  const auto step = [&] { return trainer.step(rows, [&](auto some) { return model.loss(data, some); }); };
  for (int i = 0; i < 4; ++i) step();
  show(part, model);
  if (examples <= 5) return;
  data.throws = true;  // throws on one rank: all ranks must throw, and nothing may change
  try {
    step();
    require(false, std::string(part) + ": nothing was thrown");
  } catch (const std::exception& e) {
    require(std::string_view(e.what()).find("example 5") != std::string_view::npos, e.what());
    double own = dynamic_cast<const StateError*>(&e) ? 0 : 1;
    add_over_ranks({&own, 1});
    require(own == 1, std::string(part) + ": what one rank has thrown is no StateError in the others");
    const std::span<const real> gradients = model.parameters.gradients();
    require(std::ranges::all_of(gradients, [](real g) { return g == 0; }), "a gradient is left");
  }
  data.throws = false;
  try {  // so does what is no exception of the standard library
    trainer.step(rows, [&](auto some) { return std::ranges::count(some, 5) ? throw 5 : model.loss(data, some); });
    require(false, std::string(part) + ": nothing was thrown");
  } catch (const StateError& e) {
    require(std::string_view(e.what()).find("unknown type") != std::string_view::npos, e.what());
  } catch (int) {
  }
  step();
  show(part, model);
  const auto with_last = [&](std::span<const int> some) {
    Sums sums = model.loss(data, some);
    if (some.back() == rows.back()) sums.add("last", 0.1 + some.back());
    return sums;
  };
  const Sums found = evaluate(rows, with_last, 3);
  std::string text;
  for (const Sums::Named& sum : found.all()) text += " " + sum.name + " " + std::to_string(sum.value);
  check_equal_over_ranks("the sums of an evaluation", text);
  if (rank() == 0) std::printf("%s %.17g %g%s\n", part, found["loss"], found["count"], text.c_str());
}

// Enough parameters for the threads of a rank to share its part of the reduction.
void train_large() {
  set_num_threads(2);
  Parameters parameters(3);
  const Linear up(parameters.root() / "up", 64, 700), down(parameters.root() / "down", 700, 64);
  Trainer trainer(parameters, {.lr = 1e-2});
  const std::vector<int> rows = some(24);
  for (int i = 0; i < 2; ++i)
    trainer.step(rows, [&](auto some) {
      std::vector<real> x;
      for (const int row : some)
        for (int j = 0; j < 64; ++j) x.push_back(static_cast<real>((row * 7 + j * j) % 11) / 11);
      const Tensor y = down(tanh(up(tensor({static_cast<int>(some.size()), 64}, x))));
      return ShardLoss{.loss = sum(y * y), .count = static_cast<double>(some.size())};
    });
  Digest digest;
  digest.add(parameters.values().data(), parameters.values().size_bytes());
  if (rank() == 0) std::printf("large %s\n", digest.hex().c_str());
  set_num_threads(1);
}

// Two networks with one trainer each, stepping alternately as in a GAN.
void train_two() {
  const Data data;
  Model a, b;
  Trainer of_a(a.parameters, {.lr = 1e-3}), of_b(b.parameters, {.lr = 1e-2, .clip_norm = 0.1});
  const std::vector<int> rows = some(17);
  for (int i = 0; i < 3; ++i) {
    of_a.step(rows, [&](auto some) { return a.loss(data, some); });
    of_b.step(rows, [&](auto some) { return b.loss(data, some); });
  }
  show("two", a);
  show("two", b);
}

// Another optimiser, and two losses over examples of their own, one of them with too few for all ranks.
void train_objectives() {
  const Data data;
  Model model;
  Sgd sgd(model.parameters, {.momentum = 0.9});
  Trainer trainer(model.parameters, sgd, {.lr = 1e-2});
  const auto loss = [&](std::span<const int> rows) { return model.loss(data, rows); };
  const std::vector<int> rows = some(17), few = some(1);
  for (int i = 0; i < 3; ++i) trainer.step({{rows, loss}, {few, loss, 0.5}});
  show("objectives", model);
}

// Runs f, which must throw an error containing this text if there are several ranks, and must not throw otherwise.
template <class F>
void require_refusal(const std::string& text, const F& f) {
  try {
    f();
    require(ranks() == 1, text + ": was not thrown");
  } catch (const Error& e) {
    require(ranks() > 1 && std::string_view(e.what()).find(text) != std::string_view::npos, e.what());
  }
}

// Parameters that diverge on one rank are detected before anything is saved, and after a hundred steps at the
// latest.
void drift() {
  const Data data;
  Model model;
  Trainer trainer(model.parameters, {.lr = 1e-3});
  const std::vector<int> rows = some(5);
  const auto step = [&] { trainer.step(rows, [&](auto some) { return model.loss(data, some); }); };
  for (int i = 0; i < 3; ++i) step();
  if (rank() == 1) model.parameters.edit()[7] += real{1};
  const auto file = std::filesystem::temp_directory_path() / "seppo-ranks-that-differ";
  require_refusal("the parameters' digest after step 3 differs between ranks: rank 0 has ",
                  [&] { trainer.save(file); });
  require(std::filesystem::exists(file) == (ranks() == 1), "ranks that differ have saved a file");
  while (trainer.steps() < 99) step();
  require_refusal("the parameters' digest after step 100 differs between ranks: rank 0 has ", step);
  if (rank() == 0) std::filesystem::remove(file);
}

// A difference is told by its name, also if only one rank has the value.
void values_with_names() {
  std::map<std::string, std::string> values{{"--a", "1"}, {"--b", ""}, {"--c", "two words"}};
  check_equal_over_ranks(values);
  const auto require_difference = [&](const char* expected) {
    try {
      check_equal_over_ranks(values);
      require(ranks() == 1, "check_equal_over_ranks: nothing was thrown for values with names");
    } catch (const StateError& e) {
      require(e.what() == std::string_view(expected), e.what());
    }
  };
  if (rank() == 1) values["--b"] = "3";
  require_difference("--b differs between ranks: rank 0 has , rank 1 has 3");
  values["--b"] = "";
  if (rank() == 1) values.erase("--c");
  require_difference("--c differs between ranks: rank 0 has two words, rank 1 has no value");
  values.erase("--c");
  if (rank() == 1) values["--d"] = "4";
  require_difference("--d differs between ranks: rank 0 has no value, rank 1 has 4");
}

// Every rank exchanges several messages of different sizes, including empty ones, with every other rank.
void swap() {
  const auto text = [](int from, int to, int k) {
    return std::string(static_cast<std::size_t>((from + 2 * to) * k * 700 % 5000), static_cast<char>('a' + from + k));
  };
  constexpr int kMessages = 5;
  std::vector<std::string> sent, found, expected;
  for (int other = 0; other < ranks(); ++other)
    for (int k = 0; other != rank() && k < kMessages; ++k) {
      sent.push_back(text(rank(), other, k));
      expected.push_back(text(other, rank(), k));
      found.emplace_back(expected.back().size(), '?');
    }
  std::vector<RankMessage> to, from;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const int other = static_cast<int>(i) / kMessages, of = other + (other >= rank());
    to.push_back({of, sent[i].data(), sent[i].size()});
    from.push_back({of, found[i].data(), found[i].size()});
  }
  swap_messages(to, from);
  require(found == expected, "swap_messages: other messages than were sent");
  const std::vector<RankMessage> large{{rank() == 0 ? 1 : 0, nullptr, (std::size_t{1} << 30) + 1}};
  require_refusal("ranks: a message of 1073741825 bytes", [&] { swap_messages({}, large); });
}

// What the first rank has goes to all, in more pieces than one too: they have 4 MiB.
void copy() {
  for (const std::size_t size : {0u, 5u, (1u << 22) - 1, 1u << 22, (1u << 22) + 1, (9u << 20) + 7}) {
    std::vector<std::byte> data(size), expected(size);
    for (std::size_t i = 0; i < size; ++i) {
      expected[i] = static_cast<std::byte>(i * i >> 3);
      data[i] = rank() == 0 ? expected[i] : std::byte{1};
    }
    copy_from_first_rank(data);
    require(data == expected, "copy_from_first_rank: other data than the first rank has");
  }
}

// Running statistics are those of the rank whose shard is the whole batch.
void train_running() {
  Parameters parameters(3);
  const BatchNorm norm(parameters.root() / "norm", 4);
  const Linear linear(parameters.root() / "linear", 4, 2);
  Trainer trainer(parameters, {.lr = 1e-2, .whole_batch = true});
  const auto loss = [&](std::span<const int> rows) {
    std::vector<real> values;
    for (const int row : rows)
      for (int i = 0; i < 4; ++i) values.push_back(static_cast<real>(std::sin(row + 10 * i)));
    const Tensor x = tensor({static_cast<int>(rows.size()), 4}, values);
    return ShardLoss{.loss = sum(square(linear(norm(x)))), .count = static_cast<double>(rows.size())};
  };
  for (int i = 0; i < 3; ++i) trainer.step(some(9), loss);
  Digest digest;
  digest.add(parameters.values().data(), parameters.values().size_bytes());
  check_equal_over_ranks("the values with running statistics", digest.hex());
  require(parameters.find("norm.running_mean")->tensor.values()[0] != 0, "no running mean moved");
  if (rank() == 0) std::printf("running %s\n", digest.hex().c_str());
}

// A shard for each rank runs alone there, but is not the whole batch.
void train_running_by_shards() {
  Parameters parameters(3);
  const BatchNorm norm(parameters.root() / "norm", 2);
  Trainer trainer(parameters, {.lr = 1e-2, .shards = ranks()});
  const auto loss = [&](std::span<const int> rows) {
    const std::vector<real> values(rows.size() * 2, 1);
    return ShardLoss{.loss = sum(norm(tensor({static_cast<int>(rows.size()), 2}, values))), .count = 1};
  };
  require_refusal("train with whole_batch", [&] { trainer.step(some(12), loss); });
}

// A trainer whose options differ on one rank does not begin.
void options() {
  Model model;
  require_refusal("the option 'whole_batch' differs between ranks", [&] {
    const Trainer trainer(model.parameters, {.lr = 1e-3, .shards = 1, .whole_batch = rank() == 1});
  });
  require_refusal("the option 'ema_decay' differs between ranks", [&] {
    const Trainer trainer(model.parameters, {.lr = 1e-3, .ema_decay = rank() == 1 ? 0.5 : 0.25});
  });
  require_refusal("the list of parameter groups differs between ranks", [&] {
    const Trainer trainer(model.parameters, {.lr = 1e-3}, {{.prefix = "decoder.", .lr = rank() == 1 ? 0.5 : 1}});
  });
}

}  // namespace

#ifdef SEPPO_MPI
extern "C" int MPI_Initialized(int* flag);
#else
void MPI_Initialized(int*) {}
#endif

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "started") {
    int has_mpi = 0;
    if (ranks() == 1) MPI_Initialized(&has_mpi);
    std::puts(has_mpi ? "with MPI" : "alone");
    return 0;
  }
  if (argc > 1) {  // one rank ends all ranks; what was printed so far is still written
    std::printf("not yet written");
    if (rank() == ranks() - 1) end_all_ranks(7);
    gather_over_ranks("");
  }
  for (const int examples : {1, 2, 3, 7, 20, 40}) train("batch", {.lr = 1e-2, .seed = 7}, examples);
  train("accumulate", {.lr = 1e-2, .accumulate = 3, .shards = 2}, 40);
  train("whole batch", {.lr = 1e-2, .whole_batch = true}, 40);
  train("shards", {.lr = 1e-2, .shards = 7, .ema_decay = 0.9}, 40);
  train("groups", {.lr = 1e-2, .adam = {.weight_decay = 0.1}}, 30, {{.prefix = "decoder.", .lr = 0.5}});
  train("frozen", {.lr = 1e-2, .clip_norm = 0.01}, 30, {}, /*freezes=*/true);
  train_large();
  train_two();
  train_objectives();
  train_running();
  if (ranks() > 1) train_running_by_shards();
  drift();
  swap();
  copy();
  options();
  values_with_names();

  set_rank_phase("the end");
  const std::string mine = std::string(static_cast<std::size_t>(rank()) * 1000, 'x') + std::to_string(rank());
  const std::vector<std::string> all = gather_over_ranks(mine);
  require(all.size() == static_cast<std::size_t>(ranks()), "gather_over_ranks: too few");
  for (std::size_t i = 0; i < all.size(); ++i)
    require(all[i] == std::string(i * 1000, 'x') + std::to_string(i), "gather_over_ranks: not what was sent");
  double sums[] = {0.1 * (1 + rank()), 3};
  add_over_ranks(sums);
  double expected = 0;
  for (int i = 0; i < ranks(); ++i) expected += 0.1 * (1 + i);
  require(sums[0] == expected && sums[1] == 3 * ranks(), "add_over_ranks: another sum");
  check_equal_over_ranks("a number", "3");
  try {
    check_equal_over_ranks("a number", std::to_string(rank() == 1 ? 4 : 3));
    require(ranks() == 1, "check_equal_over_ranks: nothing was thrown");
  } catch (const StateError& e) {
    const std::string_view text = e.what();
    require(text == "a number differs between ranks: rank 0 has 3, rank 1 has 4", e.what());
  }
}

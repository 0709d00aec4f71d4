// The code in docs/ that is not in examples/small/, compiled and run. test_documents checks that each code block in
// docs/ appears here or in one of those programs.
// needs: precision: double
#include <seppo/nn/io/foreign_weights.h>

#include "support/onnx.h"

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/core/region.h>
#include <seppo/seppo.h>

#include <iostream>

using namespace seppo;

namespace {

Tensor softsign(const Tensor& x) {
  Tensor y = tape().create(x.shape());
  for (std::size_t i = 0; i < x.numel(); ++i) y.data()[i] = x.data()[i] / (1 + std::abs(x.data()[i]));
  record("softsign", y, {x}, [=] {  // dx += dy / (1 + |x|)^2
    for (std::size_t i = 0; i < x.numel(); ++i)
      grad_of(x)[i] += grad_of(y)[i] / std::pow(1 + std::abs(x.data()[i]), real{2});
  });
  return y;
}

Tensor slides_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-8) {
  const Tensor deviation = stddev(x, -1, /*correction=*/1, /*keepdim=*/true);  // var() with n - 1, and its root
  return weight * (x - mean(x, -1, true)) / (deviation + eps) + bias;
}

struct GatedFeedForward {
  GatedFeedForward(const Scope& s, int d_model, int d_ff, double p)
      : up(s / "up", d_model, d_ff), gate(s / "gate", d_model, d_ff), down(s / "down", d_ff, d_model), drop(p) {}

  Tensor operator()(const Tensor& x) const {       // [rows, d_model]
    return down(drop(softsign(gate(x)) * up(x)));  // [rows, d_model]
  }

  Linear up, gate, down;  // "ffn.up.weight", "ffn.up.bias", ...
  Dropout drop;
};

struct SmallClassifier {
  explicit SmallClassifier(const Scope& s)
      : hidden(s / "hidden", 4, 8), norm(s / "norm", 8), output(s / "output", 8, 3) {}

  Tensor operator()(const Tensor& x) const { return softmax(output(norm(hidden(x, Activation::gelu)))); }

  OnnxGraph graph() const {
    OnnxGraph g("classifier");
    const OnnxValue x = g.input("x", OnnxType::reals, {"rows", 4});
    const OnnxValue scores = emit(g, output, emit(g, norm, emit(g, hidden, x, Activation::gelu)));
    g.output("probabilities", g.op("Softmax", {scores}), OnnxType::reals, {"rows", 3});
    return g;
  }

  Linear hidden;
  LayerNorm norm;
  Linear output;
};

struct Gate {
  Gate(const Scope& s, int size)
      : weight(s.parameter("weight", {size}, init_ones())),
        calls(s.buffer("calls", {1}, init_zeros())),
        name(s.region()) {}

  Tensor operator()(const Tensor& x) const {  // [..., size]
    const Region here(name);
    calls.data()[0] += 1;
    return here(x * sigmoid(weight));
  }

  Tensor weight, calls;
  RegionName name;
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_op_within_a_module) {
  Parameters parameters(1);
  const GatedFeedForward ffn(parameters.root() / "ffn", 4, 6, 0);
  const std::vector<real> x{1, 2, 3, 4, -1, -2, -3, -4};
  const auto op = gradient_check({{3, 4}}, [](std::span<const Tensor> inputs) { return softsign(inputs[0]); });
  const auto report = gradient_check(parameters, [&] { return sum(ffn(tensor({2, 4}, x))); });
  BOOST_CHECK_MESSAGE(op.passed && report.passed, op.text << report.text);
  BOOST_CHECK(parameters.find("ffn.up.weight") && parameters.find("ffn.up.bias"));
}

BOOST_AUTO_TEST_CASE(courses_a_layer_norm_with_the_unbiased_deviation) {
  const Tensor few = slides_norm(tensor({1, 2}, {1, 2}), ones({2}), zeros({2}));
  BOOST_CHECK_SMALL(double{few.at(0, 1)} - std::sqrt(0.5), 1e-7);
  RandomStream random(1, Purpose::test);
  const Tensor x = randn({3, 256}, random), gain = ones({256}), shift = zeros({256});
  const Tensor of_slides = slides_norm(x, gain, shift), usual = layer_norm(x, gain, shift, 0);
  const Tensor change = of_slides / usual - 1;
  BOOST_CHECK_SMALL(double{amax(abs(change)).item()}, 2e-3);
}

BOOST_AUTO_TEST_CASE(a_module_with_a_buffer) {
  Parameters parameters(0);
  const Gate model(parameters.root() / "gate", 3);
  tape().clear();
  const Tensor x = ones({2, 3});
  model(x);
  model(x);
  BOOST_CHECK_EQUAL(model.calls.item(), 2);
  BOOST_CHECK_EQUAL(parameters.count(), 3);
}

BOOST_AUTO_TEST_CASE(take_a_model_elsewhere) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("seppo-onnx-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  Parameters parameters(1);
  const SmallClassifier model(parameters.root());
  std::ostringstream printed;
  std::streambuf* const terminal = std::cout.rdbuf(printed.rdbuf());
  const OnnxGraph graph = model.graph();
  graph.write("classifier.onnx");
  std::cout << graph.signature();
  std::cout.rdbuf(terminal);
  const test::OnnxFile file = test::read_onnx("classifier.onnx");
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
  BOOST_CHECK_EQUAL(printed.str(), "input x: float64 [rows,4]\noutput probabilities: float64 [rows,3]\n");
  const Inference guard;
  const Tensor expected = model(tensor({1, 4}, {1, -2, 0.5, 3}));
  test::OnnxArray x({1, 4});
  x.v = {1, -2, 0.5, 3};
  const test::OnnxArray got = run_onnx(file, {{"x", x}}).at("probabilities");
  for (int j = 0; j < 3; ++j) BOOST_CHECK_SMALL(got({0, j}) - expected.at(0, j), 1e-7);
}

BOOST_AUTO_TEST_CASE(check_your_gradients) {
  Parameters parameters(1);
  const Linear hidden(parameters.root() / "hidden", 2, 5), out(parameters.root() / "out", 5, 3);
  const auto model = [&](const Tensor& x) { return out(silu(hidden(x))); };
  const std::vector<real> points{0.1, 0.2, -1, 2, 3, 0.5, 0.3, -0.7};
  const std::vector<int> classes{0, 1, 2, 1};
  const auto op = gradient_check({{3, 4}, {4}}, [](std::span<const Tensor> x) { return layer_norm(x[0], x[1], x[1]); });
  if (!op.passed) std::cout << op.text;
  const auto whole = gradient_check(parameters, [&] { return cross_entropy(model(tensor({4, 2}, points)), classes); });
  if (!whole.passed) std::cout << whole.text;
  BOOST_CHECK(op.passed && whole.passed);
}

BOOST_AUTO_TEST_CASE(find_a_nan) {
  Parameters parameters(1);
  const Linear hidden(parameters.root() / "hidden", 2, 2);
  bool faulty = true;
  const auto loss = [&] {
    const Tensor y = hidden(tensor({2, 2}, {1, 2, 3, 4}));
    const Region here{RegionName("head")};
    return sum(here(faulty ? log(variable({2, 2}, {1, 2, 0, 3})) : y));
  };
  std::ostringstream printed;
  std::streambuf* const terminal = std::cout.rdbuf(printed.rdbuf());
  FindAnomaly finder;
  try {
    const Observe watch(finder);
    tape().clear();
    tape().backward(loss());
  } catch (const NumericError& e) {
    std::cout << e.what() << "\n";
  }
  std::cout.rdbuf(terminal);
  BOOST_CHECK_EQUAL(printed.str(), "log: forward made -inf at [1,0] of [2,2], from finite inputs (in head)\n");
  faulty = false;
  std::map<std::string, Tensor> seen;
  Probe probe([&](const std::string& module, const Tensor& y) { seen[module] = y.retain_grad(); });
  {
    const Observe watch(probe);
    tape().clear();
    tape().backward(loss());
  }
  std::cout << "largest output of hidden: " << amax(seen.at("hidden")).item() << "\n";
  std::cout << "its gradient's first element: " << seen.at("hidden").grad()[0] << "\n";
  BOOST_CHECK_EQUAL(seen.at("hidden").grad()[0], 1);
  Profile profile;
  {
    const Observe time(profile);
    tape().clear();
    tape().backward(loss());
  }
  std::cout << profile.table();
  const std::string trace = profile.chrome_trace();  // for chrome://tracing or ui.perfetto.dev
  BOOST_CHECK(trace.find("linear") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(your_data) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("seppo-data-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::filesystem::path path = folder / "houses.csv", new_path = folder / "new.csv";
  write_text(path, "area,rooms,heating,price\n80,3,oil,100\n40,,gas,50.5\n60,2,gas,70\n");
  write_text(new_path, "area,rooms,heating\n70,2,oil\n");
  const Table houses = read_table(path, {.numbers = {{"area"}, {"rooms", 3.5}, {"price"}},  // 3.5 if it is missing
                                         .categories = {{"heating"}}});
  const Table later = read_table(new_path, {.numbers = {{"area"}, {"rooms", 3.5}},
                                            .categories = {{.name = "heating", .names = houses.names("heating")}}});
  BOOST_CHECK(later.ids("heating")[0] == 1);
  double total = 0;
  for_each_record(path, {.separator = ','}, [&](const CsvRecord& house) {
    if (house[house.column("heating")] == "gas") total += house.number(house.column("price"));
  });
  BOOST_CHECK_EQUAL(total, 120.5);

  write_npy(folder / "images.npy", {2, 2, 2}, std::vector<float>{0, 1, 1, 0, 1, 0, 0, 1});
  write_npy(folder / "labels.npy", {2}, std::vector<std::int64_t>{1, 0});
  const Features images = read_features(folder / "images.npy");  // two examples of shape [2, 2]
  const std::vector<int> labels = NpyFile(folder / "labels.npy").values<int>();
  const Tensor batch = images.pick({1, 0, 1});  // [3, 2, 2]
  BOOST_CHECK(batch.shape() == (Shape{3, 2, 2}) && batch.at(0, 0, 0) == 1 && labels[0] == 1);

  const Ragged texts = Ragged::of({{3, 1, 4}, {1, 5}});
  const Ragged rows = Ragged::of_length(2, {1, 2, 3, 4, 5, 6});  // three sequences, of a matrix [3, 2]
  const Ragged both = Ragged::of_offsets(texts.tokens, texts.offsets);
  const Ragged twice = texts.pick({1, 1});
  BOOST_CHECK(rows.size() == 3 && both.size() == 2 && twice.tokens == (std::vector<int>{1, 5, 1, 5}));

  const auto point = [](int example) {
    RandomStream random(/*seed=*/1, own_purpose(0), example);
    return std::vector<real>{static_cast<real>(random.normal()), static_cast<real>(random.normal())};
  };
  Sampler endless(2'000'000'000, {.batch_size = 4});
  Features drawn({2});
  for (const int example : endless.next()) drawn.add(point(example));
  BOOST_CHECK_EQUAL(drawn.size(), 4);

  std::size_t lines = 0, longest = 0;
  const auto count = [&](std::string_view line) {
    ++lines;
    longest = std::max(longest, line.size());
  };
  TextReader(path).for_each_line(count, /*longest=*/65'536);
  BOOST_CHECK(lines == 4 && longest == 24);
  BOOST_CHECK_NE(digest_of(images, labels), digest_of(drawn, labels));
  std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(freezing_and_adapters) {
  Parameters parameters(1);
  const Linear body(parameters.root() / "body", 4, 3), head(parameters.root() / "head", 3, 2);
  parameters.freeze("");              // all of them
  parameters.freeze("head.", false);  // but for these
  BOOST_CHECK_EQUAL(parameters.count(), 8);

  Parameters others(1);
  const LanguageModel model(others.root(), {.vocabulary = 5,
                                            .layer = {.d_model = 4, .n_heads = 2, .d_ff = 4, .dropout = 0},
                                            .n_layers = 1,
                                            .max_length = 4});
  others.freeze("");
  const Tensor a = others.root().parameter("a", {2, 4}, init_normal(0.5)),
               b = others.root().parameter("b", {12, 2}, init_zeros());
  Ragged tokens;
  tokens.add(std::vector<int>{1, 4, 2});
  tape().clear();
  LanguageModel adapted = model;
  Linear& projection = adapted.layers.layers[0].self_attn.in_proj;
  projection.adapter = LowRank{.a = a, .b = b};
  const Tensor logits = adapted(tokens);  // gradients for a and b; for the weight too, unless it is frozen
  const Tensor before = model(tokens);
  BOOST_CHECK(std::ranges::equal(logits.values(), before.values()));
  const auto report = gradient_check(others, [&] {
    LanguageModel copy = model;
    Linear& p = copy.layers.layers[0].self_attn.in_proj;
    p.adapter = LowRank{.a = a, .b = b};
    return cross_entropy(copy(tokens), std::vector<int>{4, 2, 0});
  });
  BOOST_CHECK_MESSAGE(report.passed, report.text);
}

BOOST_AUTO_TEST_CASE(adapters_in_pefts_format) {
  HfConfig config{.model = {.vocabulary = 5, .layer = {.d_model = 4, .n_heads = 2, .d_ff = 4, .dropout = 0}}};
  set_architecture(config.architecture, config.model);
  config.model.n_layers = 1;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("seppo-docs-peft-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  Parameters parameters(1), others(1);
  LanguageModel other(others.root(), config.model);
  LanguageModel model(parameters.root(), config.model);
  const Adapters adapters(parameters, model, {.lora = 8});
  save_peft(folder, adapters, config);

  read_peft(folder, config, others, other).merge();
  BOOST_CHECK(std::filesystem::exists(folder / "adapter_config.json"));
  std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_CASE(a_loss_that_compares_examples) {
  Parameters parameters(1);
  const Tensor image_tower = parameters.root().parameter("images", {4, 2}, init_normal(1)),
               text_tower = parameters.root().parameter("texts", {4, 2}, init_normal(1));
  const auto embedded = [](std::span<const int> rows, const Tensor& tower) { return matmul(one_hot(rows, 4), tower); };
  const auto images = [&](std::span<const int> rows) { return embedded(rows, image_tower); };
  const auto texts = [&](std::span<const int> rows) { return embedded(rows, text_tower); };
  Sampler sampler(4, {.batch_size = 4});
  Trainer trainer(parameters, {.lr = 0.01, .whole_batch = true});
  trainer.step(sampler.next(), [&](std::span<const int> rows) {          // called once, with all rows
    const Tensor scores = matmul(images(rows), transpose(texts(rows)));  // of each image with each text
    std::vector<int> own(rows.size());
    std::iota(own.begin(), own.end(), 0);
    return mean_loss(cross_entropy(scores, own), rows.size());
  });
  BOOST_CHECK_EQUAL(trainer.steps(), 1);
}

BOOST_AUTO_TEST_CASE(models_that_learn_from_each_other) {
  Parameters generators(1), critics(2), teachers(3);
  const Linear generator(generators.root() / "generator", 1, 1), critic(critics.root() / "critic", 1, 1);
  const Linear copy(teachers.root() / "generator", 1, 1);
  const std::vector<int> rows{0, 1, 2, 3, 4, 5};
  const auto given = [](std::span<const int> some) { return full({some.size(), 1}, 2); };
  const auto drawn = [&](std::span<const int> some) { return generator(full({some.size(), 1}, 1)); };
  const auto copy_of = [](const Parameters& p) { return std::vector<real>(p.values().begin(), p.values().end()); };
  const std::vector<real> generator_before = copy_of(generators), critic_before = copy_of(critics);
  Sgd sgd(critics);
  Trainer generator_trainer(generators, {.lr = 0.1}), critic_trainer(critics, sgd, {.lr = 0.1});
  critics.freeze("", false);
  critic_trainer.step(rows, [&](std::span<const int> some) {
    const Tensor losses = softplus(-critic(given(some))) + softplus(critic(detach(drawn(some))));
    return ShardLoss{sum(losses), some.size()};
  });
  critics.freeze("");
  generator_trainer.step(rows, [&](std::span<const int> some) {
    return ShardLoss{sum(softplus(-critic(drawn(some)))), some.size()};
  });
  BOOST_CHECK(copy_of(generators) != generator_before && copy_of(critics) != critic_before);

  const Parameters& students = generators;
  const std::vector<real> before = copy_of(teachers);
  const std::span<real> averages = teachers.edit();
  for (std::size_t i = 0; i < averages.size(); ++i) averages[i] += real{0.01} * (students.values()[i] - averages[i]);
  BOOST_CHECK_CLOSE(averages[0], 0.99 * before[0] + 0.01 * students.values()[0], 1e-9);
}

BOOST_AUTO_TEST_CASE(foreign_weights) {
  const std::string file = std::filesystem::temp_directory_path() / ("seppo-docs-" + std::to_string(::getpid()));
  Parameters parameters(1), other(2);
  for (Parameters* p : {&parameters, &other}) {
    const EncoderLayer layer(p->root(), {.d_model = 8, .n_heads = 2, .d_ff = 16});
    const Linear classes(p->root() / "classes", 8, 3);
  }
  save_weights(file, other,
               {.rename = renaming("ffn.(up|down) -> mlp.$1, mlp.up -> mlp.fc1, mlp.down -> mlp.fc2, "
                                   "self_attn.in_proj -> attn.{q,k,v}")});
  const WeightOptions theirs{
      .rename = renaming("ffn.up -> mlp.fc1, ffn.down -> mlp.fc2, self_attn.in_proj -> attn.{q,k,v}"),
      .skip = [](const std::string& name) { return name.starts_with("classes."); }};
  load_weights(file, parameters, theirs);
  save_weights(file, parameters, theirs);
  const auto weight = [](const Parameters& p, const char* name) { return p.find(name)->tensor.values()[5]; };
  BOOST_CHECK_EQUAL(weight(parameters, "ffn.up.weight"), weight(other, "ffn.up.weight"));
  BOOST_CHECK_NE(weight(parameters, "classes.weight"), weight(other, "classes.weight"));
  std::filesystem::remove(file);
}

BOOST_AUTO_TEST_CASE(weights_of_a_llama) {
  const std::string file = std::filesystem::temp_directory_path() / ("seppo-docs-" + std::to_string(::getpid()));
  Parameters parameters(1);
  const LanguageModelConfig llama{.vocabulary = 512,        // vocab_size
                                  .layer = {.d_model = 64,  // hidden_size
                                            .n_heads = 8,   // num_attention_heads
                                            .d_ff = 172,    // intermediate_size
                                            .dropout = 0,
                                            .norm = Norm::pre,
                                            .activation = Activation::swiglu,
                                            .bias = false,
                                            .eps = 1e-5,      // rms_norm_eps
                                            .n_kv_heads = 4,  // num_key_value_heads
                                            .norm_kind = NormKind::rms},
                                  .n_layers = 6,  // num_hidden_layers
                                  .positions = Positions::rotary_halves,
                                  .max_length = 512,  // max_position_embeddings
                                  .rope_theta = 10000,
                                  .tie_output = false};  // tie_word_embeddings
  const LanguageModel model(parameters.root(), llama);
  save_weights(file, parameters, llama_weights(8, 4));
  load_weights(file, parameters, llama_weights(llama.layer.n_heads, llama.layer.n_kv_heads));
  std::filesystem::remove(file);
}

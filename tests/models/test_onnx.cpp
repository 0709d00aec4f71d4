// ONNX graphs of models, against the models themselves: read and computed by code that shares nothing with the writer.
// needs: precision: single double
#include "models/onnx_cases.h"
#include "models/small_transformer.h"
#include "support/errors.h"
#include "support/precision.h"

#include <seppo/models/lora.h>
#include <seppo/models/onnx/onnx_models.h>
#include <seppo/models/onnx/onnx_modules.h>

#include <functional>

using namespace seppo;
using onnx_cases::lengths, onnx_cases::padded, onnx_cases::written;
using test::OnnxArray;

namespace {

constexpr int kVocabulary = 11;

// Weights large enough to make attention selective, and gains away from 1.
void draw(Parameters& parameters) {
  RandomStream random(5, Purpose::test);
  for (const auto& e : parameters.entries())
    for (real& value : parameters.edit().subspan(e.offset, e.size())) value += static_cast<real>(0.3 * random.normal());
}

using onnx_cases::check;

void check(const TransformerConfig& config) {
  Parameters parameters(1);
  const Transformer model(parameters.root(), config);
  draw(parameters);
  const Ragged src = small::random_batch({4, 1, 3}, 1), tgt = small::random_batch({3, 5, 2}, 2);
  const Inference guard;
  check(onnx_graph(model), {{"src", padded(src, 7)}, {"src_lengths", lengths(src)}, {"tgt", padded(tgt, 3)}}, "logits",
        padded(model.logits(src, tgt), tgt));
}

LanguageModelConfig language_model(const std::function<void(LanguageModelConfig&)>& change = {}) {
  LanguageModelConfig config{.vocabulary = kVocabulary,
                             .layer = {.d_model = 16,
                                       .n_heads = 4,
                                       .d_ff = 12,
                                       .dropout = 0.1,
                                       .norm = Norm::pre,
                                       .activation = Activation::swiglu,
                                       .n_kv_heads = 2,
                                       .norm_kind = NormKind::rms},
                             .n_layers = 2,
                             .positions = Positions::rotary_halves,
                             .max_length = 9,
                             .rope_theta = 100};
  if (change) change(config);
  return config;
}

void check(const LanguageModel& model) {
  const Ragged text = small::random_batch({7, 1, 4}, 1);
  const Inference guard;
  check(onnx_graph(model), {{"tokens", padded(text, 2)}}, "logits", padded(model(text), text));
}

void check(const LanguageModelConfig& config) {
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), config);
  draw(parameters);
  check(model);
}

void check(const std::function<void(DecoderConfig&)>& change, int head_width = 0) {
  check(language_model([&](LanguageModelConfig& config) {
    config.layer.head_width = head_width;
    change(config.decoder);
  }));
}

constexpr Positions kPositions[] = {Positions::none,    Positions::sinusoid, Positions::cosinusoid,
                                    Positions::learned, Positions::rotary,   Positions::rotary_halves,
                                    Positions::alibi};

}  // namespace

BOOST_AUTO_TEST_CASE(transformers_in_all_forms) {
  for (const Positions positions : kPositions) {
    TransformerConfig config = small::config(positions == Positions::alibi ? Norm::pre : Norm::post);
    config.positions = positions;
    check(config);
  }
  TransformerConfig shared = small::config(Norm::pre);
  shared.share_embeddings = shared.tie_output = true;
  shared.scale_embeddings = false;
  shared.layer.n_kv_heads = 1;
  shared.layer.norm_kind = NormKind::rms;
  shared.layer.activation = Activation::geglu;
  shared.layer.bias = false;
  check(shared);
  TransformerConfig wide = small::config();
  wide.layer.head_width = 6;
  wide.layer.n_kv_heads = 1;
  wide.layer.attention_bias = false;
  check(wide);
}

BOOST_AUTO_TEST_CASE(language_models_in_all_forms) {
  for (const Positions positions : kPositions)
    check(language_model([&](LanguageModelConfig& config) { config.positions = positions; }));
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu,
                                      Activation::geglu, Activation::geglu_tanh})
    check(language_model([&](LanguageModelConfig& config) { config.layer.activation = activation; }));
  check(language_model([](LanguageModelConfig& config) {
    config.layer.norm = Norm::post;
    config.layer.norm_kind = NormKind::layer;
    config.tie_output = false;
    config.decoder.residual_scale = 0.7;
    config.decoder.norm_is_offset = true;
  }));
  check(language_model([](LanguageModelConfig& config) {  // the cap is of the scores without what ALiBi adds
    config.positions = Positions::alibi;
    config.decoder.attention_softcap = 0.3;
  }));
}

BOOST_AUTO_TEST_CASE(decoders_of_all_families) {
  check([](DecoderConfig& d) { d.norm_place = NormPlace::around, d.norm_is_offset = true; });
  check([](DecoderConfig& d) { d.norm_place = NormPlace::after, d.qk_norm = QkNorm::width; });
  check([](DecoderConfig& d) { d.sublayers = Sublayers::side_by_side, d.rope.share = 0.5; });
  check([](DecoderConfig& d) { d.sublayers = Sublayers::side_by_side_one_norm, d.residual_scale = 0.7; });
  check([](DecoderConfig& d) { d.qk_norm = QkNorm::head, d.attention_scale = 0.3; }, /*head_width=*/6);
  check([](DecoderConfig& d) { d.is_embedding_scaled = true, d.embedding_scale = 2; });
  check([](DecoderConfig& d) { d.embedding_norm = true; });  // which takes a scale back
  check([](DecoderConfig& d) { d.output_scale = 0.5, d.output_softcap = 3, d.attention_softcap = 2; });
  check([](DecoderConfig& d) { d.experts = 3, d.experts_chosen = 2; });
  check([](DecoderConfig& d) {
    d.attentions = {{.window = 3, .positions = LayerPositions::local}, {.positions = LayerPositions::none}};
    d.local_rope_theta = 10;
  });
  check(language_model([](LanguageModelConfig& config) {
    config.positions = Positions::learned;
    config.decoder.position_offset = 2;
  }));
}

BOOST_AUTO_TEST_CASE(adapters) {
  Parameters parameters(1);
  LanguageModel model(parameters.root(), language_model());
  const Adapters adapters(parameters, model, LoraConfig{.lora = 2, .alpha = 3});
  draw(parameters);
  check(adapters.apply());
}

// A weight has its name, layout and values, and is written once, also if two modules share it.
BOOST_AUTO_TEST_CASE(weights_keep_their_names) {
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), language_model());
  const test::OnnxFile file = written(onnx_graph(model));
  for (const auto& entry : parameters.entries()) {
    const OnnxArray& weight = file.constants.at(entry.name);
    BOOST_TEST(weight.shape == std::vector<int>(entry.shape.sizes().begin(), entry.shape.sizes().end()));
    BOOST_CHECK(std::ranges::equal(weight.v, entry.tensor.values()));
  }
  std::size_t tables = 0;
  for (const auto& [name, array] : file.constants)
    tables += array.v.size() == static_cast<std::size_t>(model.embedding.weight.numel());
  BOOST_CHECK_EQUAL(tables, 1u);
}

// one_build: nn/io/onnx.cpp kReal
BOOST_AUTO_TEST_CASE(what_a_file_says_of_itself) {
  OnnxGraph graph("doubled");
  const OnnxValue x = graph.input("x", OnnxType::reals, {"rows", 2});
  graph.output("y", graph.op("Mul", {x, graph.number(2)}), OnnxType::reals, {"rows", 2});
  graph.note("made", "today");
  const test::OnnxFile file = written(graph);
  BOOST_CHECK_EQUAL(file.ir_version, 8);
  BOOST_CHECK_EQUAL(file.operator_set, 17);
  BOOST_CHECK_EQUAL(file.producer, "seppo");
  BOOST_CHECK_EQUAL(file.notes.at("made"), "today");
  const std::string type = sizeof(real) == 4 ? "float32" : "float64";
  BOOST_CHECK_EQUAL(graph.signature(), "input x: " + type + " [rows,2]\noutput y: " + type + " [rows,2]\n");
  OnnxArray numbers({3, 2});
  numbers.v = {1, 2, 3, 4, 5, 6};
  BOOST_TEST((run_onnx(file, {{"x", numbers}}).at("y").v == std::vector<double>{2, 4, 6, 8, 10, 12}));
}

// Equal constants, and one tensor used twice, are one; results without an input that is optional.
BOOST_AUTO_TEST_CASE(what_is_written_once) {
  Parameters parameters(1);
  const Tensor weight = parameters.root().parameter("w", {2}, init_ones());
  OnnxGraph graph("sums");
  const OnnxValue x = graph.input("x", OnnxType::integers, {2});
  OnnxValue y = graph.op("Add", {graph.to_reals(x), graph.weight(weight)});
  y = graph.op("Add", {y, graph.weight(weight)});
  for (int i = 0; i < 2; ++i) y = graph.op("Add", {y, graph.number(3)});
  const auto halves = graph.ops("Split", {y, graph.integers({1, 1})}, 2, {{"axis", std::int64_t{0}}});
  graph.output("y", graph.op("Concat", {halves[1], halves[0]}, {{"axis", std::int64_t{0}}}), OnnxType::reals, {2});
  graph.op("Clip", {y, {}, graph.number(9)});
  const test::OnnxFile file = written(graph);
  BOOST_CHECK_EQUAL(file.constants.size(), 4u);
  BOOST_TEST((file.nodes.back().inputs[1].empty() && file.nodes.back().type == "Clip"));
  test::OnnxFile without = file;
  without.nodes.pop_back();
  OnnxArray numbers(std::vector<int>{2});
  numbers.v = {1, 2};
  BOOST_TEST((run_onnx(without, {{"x", numbers}}).at("y").v == std::vector<double>{10, 9}));
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_written) {
  Parameters parameters(1, std::size_t{1} << 30);
  OnnxGraph graph("large");
  graph.weight(parameters.root().constant({1 << 15, 1 << 14}, [](std::span<real>, const Shape&, RandomStream&) {}));
  const onnx_cases::TemporaryFile file;
  test::check_error<ArgumentError>([&] { graph.write(file.path); }, {"onnx: the model takes ", "at most 2147483647"});
  BOOST_CHECK(!std::filesystem::exists(file.path));
  test::check_error<FileError>([&] { OnnxGraph("a").write("no/such/folder/a.onnx"); }, {"no/such/folder"});
}

BOOST_AUTO_TEST_CASE(misuse) {
  OnnxGraph graph("a"), other("b");
  const OnnxValue x = graph.input("x", OnnxType::reals, {1});
  other.input("y", OnnxType::reals, {1});
  test::check_error<ArgumentError>([&] { graph.input("x", OnnxType::reals, {1}); },
                                   {"onnx: the name 'x' is taken or empty"});
  test::check_error<ArgumentError>([&] { other.op("Abs", {x}); },
                                   {"onnx: Abs is given 'x', which is no value of this graph"});
  test::check_error<ArgumentError>([&] { emit(graph, Activation::swiglu, x); },
                                   {"onnx: the activation swiglu has two inputs"});
  Parameters parameters(1);
  const MultiHeadAttention attention(parameters.root() / "attention", 8, 2, {.k_dim = 4});
  test::check_error<ArgumentError>([&] { emit(graph, attention, x, {}); },
                                   {"onnx: attention has projections of their own for keys and values"});
  const MultiHeadAttention local(parameters.root() / "local", 8, 2, {.window = 3});
  for (const int window : {0, 2}) BOOST_TEST_CONTEXT(window) {
      const OnnxAttention how{.window = window};
      const std::string why = "onnx: local has a window of 3, its scores one of " + std::to_string(window);
      test::check_error<ArgumentError>([&] { emit(graph, local, x, how); }, {why});
      test::check_error<ArgumentError>([&] { emit_cross(graph, local, x, x, how); }, {why});
    }
  test::check_error<ArgumentError>([&] { emit_bias(graph, x, {.window = 3}); },
                                   {"onnx: a window of scores that are not causal"});
  test::check_error<ArgumentError>(
      [&] {
        const PositionalEncoding none(parameters.root() / "none", Positions::none, 4, 8);
        emit_table(graph, none, x);
      },
      {"onnx: the positional encoding has no table"});
}

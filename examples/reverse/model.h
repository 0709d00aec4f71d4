// The reversal task and its models: an encoder that predicts, at each position, the symbol at the mirrored position,
// from tutorial 6 of the UvA deep learning course; or an encoder-decoder that writes one symbol after another.
#pragma once

#include "app/course_positions.h"

#include "encoder_graphs.h"

#include <seppo/models/decoding/beam.h>
#include <seppo/models/onnx/onnx_models.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/data/ragged.h>

#include <optional>
#include <vector>

namespace reversal {

using seppo::Offsets;
using seppo::Ragged;
using seppo::Tensor;

constexpr int kSymbols = 10;  // the digits
constexpr int kLength = 16;   // of a sequence, unless others are asked for

// The decoder also reads and writes these.
constexpr int kBos = kSymbols, kEos = kSymbols + 1, kTokens = kSymbols + 2;

enum class Architecture {
  encoder,         // all positions at once
  encoder_decoder  // up to EOS, each symbol after those before it
};
inline std::span<const char* const> enum_names(Architecture) {
  static constexpr const char* kNames[] = {"encoder", "encoder-decoder"};
  return kNames;
}

struct ModelConfig {
  seppo::LayerConfig layer = {.d_model = 32, .n_heads = 1, .d_ff = 64, .dropout = 0};
  int n_layers = 1;
  examples::Positions positions = examples::Positions::sinusoid;
  bool plain = false;
  Architecture architecture = Architecture::encoder;
  int max_length = kLength;  // digits of the longest sequence

  bool writes() const { return architecture == Architecture::encoder_decoder; }

  void fields(seppo::ConfigVisitor& v) {
    layer.fields(v);
    v("n_layers", n_layers, {1, 64}, "layers of the encoder and, if there is one, of the decoder");
    v("positions", positions, examples::kPositionsHelp);
    v("plain", plain, "plainer model: one norm for both sublayers, dropout after it, no output network");
    v("architecture", architecture,
      "an encoder answers all positions at once; a decoder writes one digit after another", {.may_be_missing = true});
    v("max_length", max_length, {1, 1 << 20}, "digits of the longest sequence",
      {.source = seppo::Source::data, .may_be_missing = true});
  }
  void validate() const {
    layer.validate();
    seppo::check<seppo::ArgumentError>(!plain || layer.norm == seppo::Norm::post, "the plain model needs norm post");
    seppo::check<seppo::ArgumentError>(!plain || !writes(), "the plain model needs architecture encoder");
  }
};

// The right answers: the digits of each sequence in reverse order and, where a decoder writes them, EOS.
inline Ragged targets(const Ragged& sequences, Architecture architecture) {
  Ragged all;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    std::vector<int> target(sequences[s].rbegin(), sequences[s].rend());
    if (architecture == Architecture::encoder_decoder) target.push_back(kEos);
    all.add(target);
  }
  return all;
}

// What a decoder reads when it writes these: BOS, and what is written before.
inline Ragged read_for(const Ragged& written) {
  Ragged all;
  for (std::size_t s = 0; s < written.size(); ++s) {
    std::vector<int> read{kBos};
    read.insert(read.end(), written[s].begin(), written[s].end() - 1);
    all.add(read);
  }
  return all;
}

// The plain model's layer: one layer norm for both sublayers, and dropout after it.
struct PlainLayer {
  PlainLayer(const seppo::Scope& s, const seppo::LayerConfig& c)
      : self_attn(s / "self_attn", c.d_model, c.n_heads, {.dropout = c.attention_dropout, .bias = c.bias}),
        ffn(s / "ffn", c.d_model, c.d_ff, {.activation = c.activation, .bias = c.bias}),
        add_norm(s / "norm1", c) {
    add_norm.options.dropout_before = 0;
    add_norm.options.dropout_after = c.dropout;
  }
  Tensor operator()(const Tensor& x, Offsets rows) const {  // [rows, d_model]
    return add_norm(add_norm(x, [&](const Tensor& z) { return self_attn(z, rows); }), ffn);
  }
  seppo::MultiHeadAttention self_attn;
  seppo::FeedForward ffn;
  seppo::AddNorm add_norm;
};

struct EncoderModel {
  EncoderModel(const seppo::Scope& s, const ModelConfig& c)
      : predictor(s, {.features = kSymbols,
                      .classes = kSymbols,
                      .layer = c.layer,
                      .n_layers = c.plain ? 0 : c.n_layers,
                      .output_network = !c.plain,
                      .positions = examples::library_positions(c.positions),
                      .max_length = c.max_length}) {
    examples::set_course_table(predictor.positions, s / "positions", c.positions, c.layer.d_model);
    for (int i = 0; c.plain && i < c.n_layers; ++i) layers.emplace_back(s / "encoder" / i, c.layer);
  }

  // Scores of the symbols at each position. [positions, symbols]
  Tensor operator()(const Ragged& input) const {
    Tensor x = predictor.embed(seppo::one_hot(input.tokens, kSymbols));
    x = predictor.encode(x, input.offsets);
    for (const PlainLayer& layer : layers) x = layer(x, input.offsets);
    return predictor.classify(x);
  }

  examples::Predictor predictor;
  std::vector<PlainLayer> layers;  // of the plain model
};

inline seppo::TransformerConfig transformer_config(const ModelConfig& c) {
  return {.src_vocabulary = kSymbols,
          .tgt_vocabulary = kTokens,
          .layer = c.layer,
          .enc_layers = c.n_layers,
          .dec_layers = c.n_layers,
          .positions = examples::library_positions(c.positions),
          .max_length = c.max_length + 1};
}

struct Model {
  using Config = ModelConfig;
  Model(const seppo::Scope& s, const ModelConfig& c) : config(c) {
    if (!c.writes()) {
      encoder.emplace(s, c);
      return;
    }
    transformer.emplace(s, transformer_config(c));
    examples::set_course_table(transformer->positions, s / "positions", c.positions, c.layer.d_model);
  }

  // Scores of the symbol at each place of the targets. [places, symbols]; a decoder's are of the next token after the
  // right ones, [places, tokens].
  Tensor operator()(const Ragged& input) const {
    return encoder ? (*encoder)(input) : transformer->logits(input, read_for(targets(input, config.architecture)));
  }

  // What the model answers to each sequence; a decoder's answers are decoded greedily and end with EOS.
  Ragged answers(const Ragged& input) const {
    if (encoder) return {argmax((*encoder)(input)), input.offsets};
    Ragged all;
    const seppo::BeamOptions options{.bos = kBos, .eos = kEos, .max_length = config.max_length + 1};
    for (const auto& answer : greedy_decode(*transformer, input, options)) all.add(answer);
    return all;
  }

  ModelConfig config;
  std::optional<EncoderModel> encoder;
  std::optional<seppo::Transformer> transformer;  // one of the two
};

// Symbols [batch, 16] -> logits [batch, 16, symbols]; of a decoder, that of a Transformer (models/onnx/onnx_models.h).
inline seppo::OnnxGraph onnx_graph(const Model& m) {
  if (m.transformer) return onnx_graph(*m.transformer);
  const examples::Predictor& predictor = m.encoder->predictor;
  seppo::OnnxGraph g("reverse");
  seppo::OnnxValue x = emit(g, predictor.input, examples::emit_symbols(g, kLength, kSymbols));
  x = emit_encoded(g, predictor, x);
  for (const PlainLayer& layer : m.encoder->layers) {
    x = emit(g, layer.add_norm, x, [&](const seppo::OnnxValue& z) { return emit(g, layer.self_attn, z, {}); });
    x = emit(g, layer.add_norm, x, [&](const seppo::OnnxValue& z) { return emit(g, layer.ffn, z); });
  }
  g.output("logits", emit_classified(g, predictor, x), seppo::OnnxType::reals, {"batch", kLength, kSymbols});
  return g;
}

}  // namespace reversal

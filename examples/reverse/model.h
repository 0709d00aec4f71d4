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
    if (!writes()) examples::check_not_coupled(positions);
  }
  bool is_coupled() const { return positions == examples::Positions::coupled; }
};

inline Ragged backwards(const Ragged& sequences) {
  Ragged all;
  for (std::size_t s = 0; s < sequences.size(); ++s)
    all.add(std::vector<int>(sequences[s].rbegin(), sequences[s].rend()));
  return all;
}

// The right answers: the digits of each sequence in reverse order and, where a decoder writes them, EOS.
inline Ragged targets(const Ragged& sequences, Architecture architecture) {
  const Ragged digits = backwards(sequences);
  if (architecture == Architecture::encoder) return digits;
  Ragged all;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    std::vector<int> target(digits[s].begin(), digits[s].end());
    target.push_back(kEos);
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

// Position coupling (Cho et al. 2024): a digit has the position of its place in the answer, and BOS in front of the
// sequence that of EOS. So where to look is where one writes, at any length.
inline Ragged after_bos(const Ragged& sequences) {
  Ragged all;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    std::vector<int> source{kBos};
    source.insert(source.end(), sequences[s].begin(), sequences[s].end());
    all.add(source);
  }
  return all;
}

// `count` rising numbers below `end`, from a window of any size: neighbours may be close or far. A window that would
// stand out at either end is moved inside; otherwise the numbers there would be rare.
inline std::vector<int> rising(seppo::RandomStream& random, int count, int end) {
  const int window = count + random.index(end - count + 1);
  const int anywhere = random.index(end + window - 1) - (window - 1);  // with at least one number below `end`
  const int begin = std::clamp(anywhere, 0, end - window);
  std::vector<int> numbers;
  for (int n = 0, missing = count; missing > 0; ++n) {  // selection sampling (Knuth, volume 2, 3.4.2)
    if (random.index(window - n) >= missing) continue;
    numbers.push_back(begin + n);
    --missing;
  }
  return numbers;
}

// The plain model's layer: one layer norm for both sublayers, and dropout after it.
struct PlainLayer {
  PlainLayer(const seppo::Scope& s, const seppo::LayerConfig& c)
      : self_attn(s / "self_attn", c.d_model, c.n_heads, c.attention()),
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
  return {.src_vocabulary = c.is_coupled() ? kTokens : kSymbols,
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
    return encoder ? (*encoder)(input) : logits(input, read_for(targets(input, config.architecture)));
  }

  // A decoder's scores of the next token after each that it reads. [read, tokens]
  Tensor logits(const Ragged& input, const Ragged& read) const {
    if (!config.is_coupled()) return transformer->logits(input, read);
    const bool in_training = seppo::tape().mode == seppo::Mode::train;
    const Ragged src = source(input), places = places_of(input, in_training);
    const Tensor memory = transformer->encode(src, backwards(places).tokens);  // [source rows, d_model]
    std::span<const int> own;  // otherwise 0, 1, 2 ..., of any number of tokens
    if (in_training) own = places.tokens;
    return transformer->decode(read, memory, src.offsets, nullptr, own);
  }

  // What the encoder of an encoder-decoder reads.
  Ragged source(const Ragged& input) const { return config.is_coupled() ? after_bos(input) : input; }

  // What the model answers to each sequence; a decoder's answers are decoded greedily and end with EOS.
  Ragged answers(const Ragged& input) const {
    if (encoder) return {argmax((*encoder)(input)), input.offsets};
    Ragged all;
    const Ragged src = source(input);
    const Ragged positions = config.is_coupled() ? backwards(places_of(input, false)) : Ragged();
    const seppo::BeamOptions options{
        .bos = kBos, .eos = kEos, .max_length = config.max_length + 1, .src_positions = positions.tokens};
    for (const auto& answer : greedy_decode(*transformer, src, options)) all.add(answer);
    return all;
  }

  ModelConfig config;
  std::optional<EncoderModel> encoder;
  std::optional<seppo::Transformer> transformer;  // one of the two

 private:
  // The positions of each answer's places, that of EOS included: 0, 1, 2 ... In training, any that rise, so that the
  // model has seen all distances when it is asked for longer sequences (Ruoss et al. 2023).
  Ragged places_of(const Ragged& input, bool in_training) const {
    const auto [seed, step, sample, site] = seppo::tape().random;
    seppo::RandomStream random(seed, seppo::own_purpose(0), std::uint64_t{step} << 32 | sample);
    Ragged all;
    for (std::size_t s = 0; s < input.size(); ++s) {
      const int count = static_cast<int>(input[s].size()) + 1;
      all.add(rising(random, count, in_training ? config.max_length + 1 : count));
    }
    return all;
  }
};

// Symbols [batch, longest] -> logits [batch, longest, symbols]; of a decoder, that of a Transformer
// (models/onnx/onnx_models.h). Throws ArgumentError for coupled positions, which a graph would have to be given.
inline seppo::OnnxGraph onnx_graph(const Model& m) {
  const int length = m.config.max_length;
  seppo::check<seppo::ArgumentError>(!m.config.is_coupled(), "export: ONNX graphs of reverse do not couple positions");
  if (m.transformer) return onnx_graph(*m.transformer);
  const examples::Predictor& predictor = m.encoder->predictor;
  seppo::OnnxGraph g("reverse");
  seppo::OnnxValue x = emit(g, predictor.input, examples::emit_symbols(g, length, kSymbols));
  x = emit_encoded(g, predictor, x);
  for (const PlainLayer& layer : m.encoder->layers) {
    x = emit(g, layer.add_norm, x, [&](const seppo::OnnxValue& z) { return emit(g, layer.self_attn, z, {}); });
    x = emit(g, layer.add_norm, x, [&](const seppo::OnnxValue& z) { return emit(g, layer.ffn, z); });
  }
  g.output("logits", emit_classified(g, predictor, x), seppo::OnnxType::reals, {"batch", length, kSymbols});
  return g;
}

}  // namespace reversal

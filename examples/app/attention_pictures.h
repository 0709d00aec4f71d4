// Shows attention weights: as characters, as pictures, and as arrays for Python. The darkest shade stands for the
// largest weight of the map, which is printed with the picture.
#pragma once

#include <seppo/autograd/core/function_ref.h>
#include <seppo/autograd/tools/attention_recorder.h>
#include <seppo/nn/config.h>
#include <seppo/nn/text/vocabulary.h>

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace examples {

// Text escaped for XML and HTML; control characters become \xNN.
std::string escaped(const std::string& text);

// The labels beside the rows of a map (queries) and above its columns (keys).
struct AttentionLabels {
  std::vector<std::string> queries, keys;
};
using LabelMaker = std::function<AttentionLabels(const seppo::AttentionMap&)>;

// The same labels for every map.
LabelMaker same_labels(AttentionLabels labels);
// Those of an encoder-decoder. The decoder's rows are named by the tokens that they write, its own keys by those that
// it has read: BOS, and each token written but the last.
struct Labelled {
  const seppo::Vocabulary& vocabulary;
  std::span<const int> ids;
};
LabelMaker encoder_decoder_labels(const Labelled& source, const Labelled& read, const Labelled& written);

// A model's input, its output, and the attention maps of that one sequence.
struct Sample {
  std::string input, expected, output;  // `expected` is empty if there is no right answer
  std::vector<seppo::AttentionMap> maps = {};
  LabelMaker labels = {};
  std::function<void()> forward = {};  // if `maps` is empty: a pass of the model that has them, made only to show them
  std::string told = {};     // what `predict` prints; if empty, the output and, where it differs, what is expected
  std::string warning = {};  // printed after that, on standard error
};

// The attention maps of all that f computes, which is evaluated, not trained; nothing on the tape outlives the call.
std::vector<seppo::AttentionMap> attention_maps(seppo::FunctionRef<void()> f);

// Those of a sample.
std::vector<seppo::AttentionMap> maps_of(const Sample& sample);

// One head of a map, one row per query, from ' ' for 0 to '@' for the largest weight. Equal labels get their position,
// from 1: a row's behind it, "7 (3)", a column's below it.
std::string attention_text(const seppo::AttentionMap& map, int head, const AttentionLabels& labels);

// All heads of a map, as SVG; hovering shows the weights. Equal labels get their position: "7 (3)".
std::string attention_svg(const seppo::AttentionMap& map, const AttentionLabels& names);

// --attention and --attention-out of the `predict` commands.
struct AttentionOutput {
  bool as_text = false;
  std::filesystem::path folder;

  void fields(seppo::ConfigVisitor& v) {
    v("attention", as_text, "show the attention weights of every layer and head");
    v("attention_out", folder, "folder for these weights, as SVG pictures and .npy arrays");
  }
  void check_queries(std::size_t count) const;  // throws UsageError if pictures would replace each other
  void prepare() const;                         // throws UsageError, before any work, if the folder cannot be used
  bool is_wanted() const { return as_text || !folder.empty(); }
  // Prints every head of every map, and writes MAP.svg and MAP.npy [heads, queries, keys], such as
  // encoder.0.self_attn.svg, into the folder.
  void show(const Sample& sample) const;
};

}  // namespace examples

// Attention weights to look at: in characters, as a picture, and as numbers for Python. The darkest shade is the
// largest weight of the map, and the pictures say which that is.
#pragma once

#include <seppo/autograd/tools/observers.h>
#include <seppo/nn/config.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace examples {

// Text that may stand within XML and HTML.
std::string escaped(const std::string& text);

// What stands beside the rows of a map (queries: who looks) and above its columns (keys: what is looked at).
struct AttentionLabels {
  std::vector<std::string> queries, keys;
};
using LabelMaker = std::function<AttentionLabels(const seppo::AttentionMap&)>;

// What a model was asked, what it answered, and what it looked at: maps of one sequence.
struct Sample {
  std::string input, expected, output;  // `expected` is empty where nothing is right or wrong
  std::vector<seppo::AttentionMap> maps = {};
  LabelMaker labels = {};
};

// One head of a map, a row for each query, from ' ' for 0 to '@' for the largest weight.
std::string attention_text(const seppo::AttentionMap& map, int head, const AttentionLabels& labels);

// All heads of a map, as SVG; the weights show on hovering.
std::string attention_svg(const seppo::AttentionMap& map, const AttentionLabels& labels);

// An array in NumPy's format (.npy, version 1.0). Throws seppo::FileError.
void write_npy(const std::filesystem::path& path, const seppo::Shape& shape, std::span<const float> values);

// --attention and --attention-out of the `predict` commands.
struct AttentionOutput {
  bool as_text = false;
  std::filesystem::path folder;

  void fields(seppo::ConfigVisitor& v) {
    v("attention", as_text, "show the attention weights of every layer and head");
    v("attention_out", folder, "folder for these weights, as SVG pictures and .npy arrays");
  }
  void prepare() const;  // throws UsageError, before any work, if the folder cannot be used
  bool is_wanted() const { return as_text || !folder.empty(); }
  // Prints every head of every map, and writes MAP.svg and MAP.npy [heads, queries, keys], such as
  // encoder.0.self_attn.svg, into the folder.
  void show(const Sample& sample) const;
};

}  // namespace examples

// Draws attention weights as shades, in text and in SVG, and writes the weights themselves as .npy.
#include "app/attention_pictures.h"

#include "app/command_line.h"
#include "app/paths.h"
#include "app/printable.h"
#include "app/words.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/npy.h>
#include <seppo/nn/io/text_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string_view>

namespace examples {
namespace {

// The weights of one head of the map's only sequence.
struct Head {
  std::size_t queries, keys;
  const float* weights;

  Head(const seppo::AttentionMap& map, int head)
      : queries(static_cast<std::size_t>(map.shape[2])),
        keys(static_cast<std::size_t>(map.shape[3])),
        weights(map.weights.data() + static_cast<std::size_t>(head) * queries * keys) {}
  double operator()(std::size_t i, std::size_t j) const { return static_cast<double>(weights[i * keys + j]); }
};

double largest(const seppo::AttentionMap& map) {
  const float most = map.weights.empty() ? 0 : *std::max_element(map.weights.begin(), map.weights.end());
  return most > 0 ? static_cast<double>(most) : 1;
}

// For each label, its position, from 1, if there is another like it; otherwise nothing.
std::vector<std::string> positions_of_equals(const std::vector<std::string>& labels) {
  std::vector<std::string> positions;
  for (std::size_t i = 0; i < labels.size(); ++i)
    positions.push_back(std::ranges::count(labels, labels[i]) > 1 ? std::to_string(i + 1) : "");
  return positions;
}

std::string in_brackets(const std::string& position) { return position.empty() ? "" : " (" + position + ")"; }

// "7 (3)" for those that are not the only one of their name.
std::vector<std::string> numbered(std::vector<std::string> labels) {
  const std::vector<std::string> positions = positions_of_equals(labels);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] += in_brackets(positions[i]);
  return labels;
}

std::size_t longest(const std::vector<std::string>& texts) {
  std::size_t most = 0;
  for (const std::string& text : texts) most = std::max(most, text.size());
  return most;
}

// The first four characters of a label, right-aligned.
std::string short_label(const std::string& label) {
  const std::string text = shown_line(label);
  const std::vector<std::string_view> characters = split_characters(text);
  const std::size_t length = std::min<std::size_t>(4, characters.size());
  std::string kept;
  for (std::size_t i = 0; i < length; ++i) kept += characters[i];
  return std::string(4 - length, ' ') + kept;
}

const std::string& label(const std::vector<std::string>& labels, std::size_t i) {
  static const std::string none;
  return i < labels.size() ? labels[i] : none;
}

// Below the names of columns: the positions of those that have the same name, upright where columns are narrow.
std::string lines_of_positions(const std::vector<std::string>& labels, bool is_narrow, std::size_t indent) {
  const std::vector<std::string> positions = positions_of_equals(labels);
  const std::size_t digits = longest(positions);
  const std::size_t lines = is_narrow ? digits : std::min<std::size_t>(1, digits);
  std::string text;
  for (std::size_t line = 0; line < lines; ++line) {
    text += fmt::format("{:>{}} ", line == 0 ? "place" : "", indent - 1);
    for (const std::string& position : positions)
      text +=
          is_narrow ? fmt::format("{:>{}}", position, digits).substr(line, 1) + " " : fmt::format("{:>4} ", position);
    text += "\n";
  }
  return text;
}

std::vector<std::string> texts_of(const Labelled& tokens) {
  std::vector<std::string> texts;
  for (const int id : tokens.ids) texts.push_back(tokens.vocabulary.token(id));
  return texts;
}

}  // namespace

LabelMaker encoder_decoder_labels(const Labelled& source, const Labelled& read, const Labelled& written) {
  const std::vector<std::string> inputs = texts_of(source), keys = texts_of(read), outputs = texts_of(written);
  return [=](const seppo::AttentionMap& map) -> AttentionLabels {
    const bool in_encoder = map.name.starts_with("encoder"), is_cross = map.name.ends_with("cross_attn");
    return {in_encoder ? inputs : outputs, in_encoder || is_cross ? inputs : keys};
  };
}

LabelMaker same_labels(AttentionLabels labels) {
  return [labels = std::move(labels)](const seppo::AttentionMap&) { return labels; };
}

std::vector<seppo::AttentionMap> attention_maps(seppo::FunctionRef<void()> f) {
  const seppo::Inference guard;
  seppo::AttentionRecorder recorder;
  const seppo::Observe scope(recorder);
  f();
  return std::move(recorder.maps);
}

std::vector<seppo::AttentionMap> maps_of(const Sample& sample) {
  return sample.forward ? attention_maps(sample.forward) : sample.maps;
}

std::string escaped(char c) {
  switch (c) {
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '&':
      return "&amp;";
    case '"':
      return "&quot;";
    default:
      return std::string(1, c);
  }
}

std::string escaped(const std::string& text) {
  std::string visible = seppo::printable(text, 4 * text.size() + 1);
  for (const char* const no_xml : {"\uFFFE", "\uFFFF"})  // like control characters
    for (std::size_t at; (at = visible.find(no_xml)) != std::string::npos;) visible.replace(at, 3, "\uFFFD");
  std::string result;
  for (const char c : visible) result += escaped(c);
  return result;
}

std::string attention_text(const seppo::AttentionMap& map, int head, const AttentionLabels& labels) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  const Head weights(map, head);
  const double most = largest(map);
  const bool is_narrow = std::all_of(labels.keys.begin(), labels.keys.end(),
                                     [](const std::string& k) { return shown_line(k).size() <= 1; });
  const std::string gap = is_narrow ? "" : "   ";
  std::vector<std::string> rows = positions_of_equals(labels.queries);
  for (std::string& row : rows) row = in_brackets(row);
  const std::size_t width = longest(rows);
  std::string text =
      fmt::format("{}, head {}: rows are outputs, columns inputs; ' ' is 0, '@' is {:.2g}\n", map.name, head, most);
  text += std::string(7 + width, ' ');
  for (const std::string& key : labels.keys) text += is_narrow ? key + " " : short_label(key) + " ";
  text += "\n" + lines_of_positions(labels.keys, is_narrow, 7 + width);
  for (std::size_t i = 0; i < weights.queries; ++i) {
    text += fmt::format("{}{:<{}} | ", short_label(label(labels.queries, i)), label(rows, i), width);
    for (std::size_t j = 0; j < weights.keys; ++j)
      text += gap + kShades[static_cast<std::size_t>(std::lround(9 * std::min(1.0, weights(i, j) / most)))] + " ";
    text += "|\n";
  }
  return text;
}

std::string attention_svg(const seppo::AttentionMap& map, const AttentionLabels& names) {
  const AttentionLabels labels{numbered(names.queries), numbered(names.keys)};
  constexpr int kCell = 22, kMargin = 94, kTop = 88, kRamp = 100;
  const int heads = map.shape[1], queries = map.shape[2], keys = map.shape[3];
  const int panel = kMargin + keys * kCell + 16, bottom = kTop + queries * kCell;
  const int width = std::max(heads * panel + 8, kMargin + kRamp + 260), height = bottom + 44;
  const double most = largest(map);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n"
      "<style>svg{{background:#fff;color:#222}}text{{fill:currentColor}}.w{{fill:#0b61a4}}.c{{fill:none;stroke:#8884}}"
      "@media(prefers-color-scheme:dark){{svg{{background:#16181c;color:#ddd}}.w{{fill:#6db3f2}}}}</style>\n",
      width, height);
  for (int h = 0; h < heads; ++h) {
    const Head weights(map, h);
    const int left = h * panel + kMargin;
    svg += fmt::format("<text x=\"{}\" y=\"16\" font-size=\"13\">{}, head {}</text>\n", left, escaped(map.name), h);
    for (int j = 0; j < keys; ++j)
      svg +=
          fmt::format("<text transform=\"translate({},{}) rotate(-50)\">{}</text>\n", left + j * kCell + kCell / 2 + 3,
                      kTop - 5, escaped(label(labels.keys, static_cast<std::size_t>(j))));
    for (int i = 0; i < queries; ++i) {
      const std::string& query = label(labels.queries, static_cast<std::size_t>(i));
      svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 5, kTop + i * kCell + 15,
                         escaped(query));
      for (int j = 0; j < keys; ++j) {
        const double w = weights(static_cast<std::size_t>(i), static_cast<std::size_t>(j));
        const std::string box = fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", left + j * kCell,
                                            kTop + i * kCell, kCell, kCell);
        svg += fmt::format(
            "<g><title>{} looks at {}: {:.3f}</title><rect class=\"w\" {} fill-opacity=\"{:.3f}\"/>"
            "<rect class=\"c\" {}/></g>\n",
            escaped(query), escaped(label(labels.keys, static_cast<std::size_t>(j))), w, box, w / most, box);
      }
    }
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">0</text>\n", kMargin - 5, bottom + 29);
  for (int step = 0; step < 10; ++step)
    svg += fmt::format("<rect class=\"w\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"12\" fill-opacity=\"{:.2f}\"/>\n",
                       kMargin + step * kRamp / 10, bottom + 19, kRamp / 10, (step + 0.5) / 10);
  return svg + fmt::format("<text x=\"{}\" y=\"{}\">{:.3f}, the largest weight of these heads</text>\n</svg>\n",
                           kMargin + kRamp + 5, bottom + 29, most);
}

void AttentionOutput::check_queries(std::size_t count) const {
  if (count > 1 && !folder.empty())
    throw UsageError("--attention-out: takes one query, as the pictures of another would replace its own");
}

void AttentionOutput::prepare() const {
  if (!folder.empty()) prepare_folder("attention-out", folder);
}

void AttentionOutput::show(const Sample& sample) const {
  for (const seppo::AttentionMap& map : maps_of(sample)) {
    const AttentionLabels labels = sample.labels(map);
    for (int head = 0; as_text && head < map.shape[1]; ++head) std::cout << attention_text(map, head, labels);
    if (folder.empty()) continue;
    seppo::write_text(folder / (map.name + ".svg"), attention_svg(map, labels));
    seppo::write_npy(folder / (map.name + ".npy"), {map.shape[1], map.shape[2], map.shape[3]}, map.weights);
  }
}

}  // namespace examples

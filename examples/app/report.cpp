#include "app/report.h"

#include <seppo/nn/io/safetensors.h>

#include <cmath>

namespace examples {
namespace {

using nlohmann::json;

// JSON that may stand within a script element: no "</", and text that is not UTF-8 replaced.
std::string embedded(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace), result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == '<' && i + 1 < text.size()) result.back() = '\\', result += "u003c";
  }
  return result;
}

// Three digits are what the eye sees.
double rounded(double value) { return std::round(value * 1000) / 1000; }

json to_json(const ReportSample& sample) {
  json maps = json::array();
  for (std::size_t m = 0; m < sample.maps.size(); ++m) {
    const seppo::AttentionMap& map = sample.maps[m];
    json weights = json::array();
    for (const float w : map.weights) weights.push_back(rounded(static_cast<double>(w)));
    maps.push_back({{"name", map.name},
                    {"heads", map.shape[1]},
                    {"queries", sample.labels[m].queries},
                    {"keys", sample.labels[m].keys},
                    {"weights", weights}});
  }
  return {{"input", sample.input}, {"expected", sample.expected}, {"output", sample.output}, {"maps", maps}};
}

}  // namespace

Report::Report(std::filesystem::path file, std::string title, std::string about, std::string summary,
               std::string command, json options)
    : file_(std::move(file)),
      title_(std::move(title)),
      facts_{{"about", about}, {"summary", summary}, {"command", command}, {"options", std::move(options)}},
      steps_(json::array()),
      evaluations_(json::array()) {}

void Report::add_step(const StepReport& r) { steps_.push_back({r.step, r.loss, r.accuracy, r.lr, r.gradient_norm}); }

void Report::add_evaluation(std::int64_t step, const json& evaluation) {
  json line = {{"step", step}};
  for (const auto& [key, value] : evaluation.items())
    if (value.is_number_float()) line[key] = value;
  evaluations_.push_back(line);
}

void Report::write(const std::vector<ReportSample>& samples, bool is_finished) const {
  json data = facts_;
  data["finished"] = is_finished;
  data["steps"] = steps_;
  data["evaluations"] = evaluations_;
  data["samples"] = json::array();
  for (const ReportSample& sample : samples) data["samples"].push_back(to_json(sample));
  seppo::write_file_atomically(
      file_,
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
          escaped(title_) + "</title>\n<style>" + kReportStyle + "</style></head>\n<body><main>\n<h1>" +
          escaped(title_) +
          "</h1>\n<p id=\"about\"></p>\n"
          "<section><h2>Curves</h2><div id=\"curves\"></div></section>\n"
          "<section><h2>Samples</h2><table id=\"samples\"></table></section>\n"
          "<section id=\"attention\"><h2>Attention</h2><div class=\"controls\">"
          "<label>sample <select id=\"sample\"></select></label> <label>layer <select id=\"map\"></select></label> "
          "<label>head <select id=\"head\"></select></label></div>"
          "<p id=\"weight\" aria-live=\"polite\">Point at a square, or move with the arrow keys.</p>"
          "<div class=\"scroll\"><svg id=\"heat\" tabindex=\"0\" role=\"img\" aria-label=\"attention "
          "weights\"></svg></div>"
          "</section>\n"
          "<section><h2>Model</h2><pre id=\"summary\"></pre></section>\n"
          "<section><h2>Options</h2><pre id=\"options\"></pre></section>\n"
          "<section><h2>Repeat it</h2><pre id=\"command\"></pre></section>\n"
          "</main>\n<script type=\"application/json\" id=\"data\">" +
          embedded(data) + "</script>\n<script>" + kReportScript + "</script>\n</body></html>\n");
}

}  // namespace examples

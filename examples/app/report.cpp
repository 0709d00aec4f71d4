// Writes the report page: its data as JSON in the page, drawn by the script in report_page.cpp.
#include "app/report.h"

#include "app/invocation.h"

#include <seppo/nn/io/text_file.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace examples {
namespace {

using nlohmann::json;

// JSON that is safe within a script element: it has no "</", and invalid UTF-8 is replaced.
std::string embedded(const json& value) {
  std::string result;
  for (const char c : value.dump(-1, ' ', false, json::error_handler_t::replace))
    result += c == '<' ? "\\u003c" : std::string(1, c);
  return result;
}

// Four decimals are more than the eye can distinguish.
double rounded(double value) { return std::round(value * 1e4) / 1e4; }

json to_json(const Sample& sample) {
  json maps = json::array();
  for (const seppo::AttentionMap& map : maps_of(sample)) {
    json weights = json::array();
    for (const seppo::real w : map.weights) weights.push_back(rounded(static_cast<double>(w)));
    const AttentionLabels labels = sample.labels(map);
    maps.push_back({{"name", map.name},
                    {"heads", map.shape[1]},
                    {"queries", labels.queries},
                    {"keys", labels.keys},
                    {"weights", weights}});
  }
  return {{"input", sample.input}, {"expected", sample.expected}, {"output", sample.output}, {"maps", maps}};
}

// This program's command line, quoted for a shell where necessary.
std::string command_text() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text;
  for (std::string word; std::getline(file, word, '\0');) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

json numbers_of(const json& measures) {
  json numbers = json::object();
  for (const auto& [key, value] : measures.items())
    if (value.is_number_float()) numbers[key] = value;
  return numbers;
}

json to_json(const seppo::StepResult& r) { return {r.step, r.loss, r.accuracy, r.lr, r.gradient_norm}; }

}  // namespace

Report::Report(std::filesystem::path file, Facts facts) : file_(std::move(file)), facts_(std::move(facts)) {}

void Report::add_step(const seppo::StepResult& step) {
  last_ = step;
  if (step.step == 1 || step.step % std::max<std::int64_t>(1, facts_.steps / 400) == 0) steps_.push_back(to_json(step));
}

void Report::add_evaluation(std::int64_t step, const json& measures) {
  evaluations_.push_back(numbers_of(measures));
  evaluations_.back()["step"] = step;
}

void Report::write(const std::vector<Sample>& samples, const json& measures, bool is_finished) const {
  json data = {{"about", facts_.about},     {"model", facts_.model},       {"command", command_text()},
               {"options", facts_.options}, {"finished", is_finished},     {"steps", steps_},
               {"samples", json::array()},  {"evaluations", evaluations_}, {"result", numbers_of(measures)}};
  if (last_.step > 0 && (steps_.empty() || steps_.back()[0] != last_.step)) data["steps"].push_back(to_json(last_));
  for (const Sample& sample : samples) data["samples"].push_back(to_json(sample));
  const std::string title = escaped(facts_.title);
  seppo::write_text(
      file_,
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
          title + "</title>\n<style>" + kReportStyle + "</style></head>\n<body><main>\n<h1>" + title +
          "</h1>\n<p id=\"about\"></p>\n<p id=\"result\"></p>\n"
          "<section><h2>Curves</h2><div id=\"curves\"></div></section>\n"
          "<section><h2>Samples</h2><table id=\"samples\"></table></section>\n"
          "<section id=\"attention\"><h2>Attention</h2><div class=\"controls\">"
          "<label>sample <select id=\"sample\"></select></label> <label>layer <select id=\"map\"></select></label> "
          "<label>head <select id=\"head\"></select></label></div>"
          "<p id=\"weight\" aria-live=\"polite\">Point at a square, or move with the arrow keys.</p>"
          "<div class=\"scroll\"><svg id=\"heat\" tabindex=\"0\" role=\"img\" aria-label=\"attention "
          "weights\"></svg></div><p id=\"legend\">0<span class=\"ramp\"></span><span id=\"most\"></span></p>"
          "</section>\n"
          "<details><summary><h2>Model</h2></summary><pre id=\"model\"></pre></details>\n"
          "<details><summary><h2>Options</h2></summary><pre id=\"options\"></pre></details>\n"
          "<section><h2>Repeat it</h2><pre id=\"command\"></pre></section>\n"
          "</main>\n<script type=\"application/json\" id=\"data\">" +
          embedded(data) + "</script>\n<script>" + kReportScript + "</script>\n</body></html>\n");
}

}  // namespace examples

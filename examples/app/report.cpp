// Writes the report page: page/report.html with its data as JSON, which page/report.js draws.
#include "app/report.h"

#include "app/invocation.h"

#include <seppo/nn/io/text_file.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string_view>

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

json maps_json(const Sample& sample) {
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
  return maps;
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

// The page, with a text for each {{NAME}}.
std::string filled(const std::map<std::string_view, std::string>& texts) {
  std::string_view rest = kReportPage;
  std::string page;
  for (std::size_t at; (at = rest.find("{{")) != std::string_view::npos;) {
    const std::size_t end = rest.find("}}", at);
    page += rest.substr(0, at);
    page += texts.at(rest.substr(at + 2, end - at - 2));
    rest.remove_prefix(end + 2);
  }
  return page.append(rest);
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

void Report::write(const std::vector<Sample>& samples, const json& measures, bool is_finished,
                   const json& network) const {
  json data = {{"about", facts_.about},     {"model", facts_.model},       {"command", command_text()},
               {"options", facts_.options}, {"finished", is_finished},     {"steps", steps_},
               {"samples", json::array()},  {"evaluations", evaluations_}, {"result", numbers_of(measures)},
               {"data", facts_.data},       {"network", network}};
  if (last_.step > 0 && (steps_.empty() || steps_.back()[0] != last_.step)) data["steps"].push_back(to_json(last_));
  for (const Sample& sample : samples) {
    json shown = {{"input", sample.input}, {"expected", sample.expected}, {"output", sample.output}};
    if (network.is_null()) shown["maps"] = maps_json(sample);
    data["samples"].push_back(shown);
  }
  seppo::write_text(file_, filled({{"title", escaped(facts_.title)}, {"data", embedded(data)}}));
}

}  // namespace examples

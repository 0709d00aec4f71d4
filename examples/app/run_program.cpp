// What the commands of all programs do alike.
#include "app/run_program.h"

#include "app/terminal.h"

#include <unistd.h>
#include <iostream>
#include <numeric>

namespace examples {

std::vector<int> first_indices(std::size_t count) {
  std::vector<int> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

void check_batches(const seppo::SamplerConfig& sampler, std::span<const int> lengths) {
  if (sampler.batch_tokens > 0 && lengths.empty())
    throw UsageError("--batch-tokens: the examples of this program are equally long: use --batch-size");
}

nlohmann::json with_prefix(const std::string& part, const nlohmann::json& measures) {
  nlohmann::json named = nlohmann::json::object();
  for (const auto& [name, value] : measures.items()) named[part + "_" + name] = value;
  return named;
}

nlohmann::json without_prefix(const std::string& part, const nlohmann::json& summary) {
  nlohmann::json measures = nlohmann::json::object();
  for (const auto& [name, value] : summary.items())
    if (name.starts_with(part + "_")) measures[name.substr(part.size() + 1)] = value;
  return measures;
}

std::string correction(const std::string& right) {
  return coloured("wrong: it is " + right, Colour::red, STDOUT_FILENO);
}

void print_fitted(const std::string& line) { std::cout << fitted(line, STDOUT_FILENO) << "\n"; }

void show_answer(const std::string& program, const Sample& sample, const AttentionOutput& attention) {
  const bool is_right = sample.output == sample.expected;
  const std::string verdict = is_right ? "" : "   " + correction(sample.expected);
  std::cout << (sample.told.empty() ? sample.output + verdict : sample.told) << std::endl;
  if (!sample.warning.empty()) std::cerr << program << ": " << sample.warning << std::endl;
  if (attention.is_wanted()) attention.show(sample);
}

void add_command(std::vector<Command>& commands, const Command& command) {
  const bool is_there = std::ranges::count(commands, command.name, &Command::name) > 0;
  if (is_there) return;
  commands.insert(command.name == "train" ? commands.begin() : commands.end(), command);
}

}  // namespace examples

// What each type of option takes: how a value is named and shown in --help, and how it is read and checked.
#include "app/command_line.h"

#include <seppo/autograd/core/printable.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace examples {

using seppo::Choice;
using seppo::Field;
using seppo::printable;
using seppo::Range;

namespace {

using Pair = std::array<double, 2>;

// How --help names a value.
const char* kind_of(const int*) { return "N"; }
const char* kind_of(const std::uint64_t*) { return "N"; }
const char* kind_of(const double*) { return "X"; }
const char* kind_of(const Pair*) { return "X,Y"; }
const char* kind_of(const bool*) { return ""; }
const char* kind_of(const std::string*) { return "TEXT"; }
const char* kind_of(const std::filesystem::path*) { return "PATH"; }
const char* kind_of(const Choice&) { return "NAME"; }

// A value as --help shows it.
std::string shown(const int* value) { return std::to_string(*value); }
std::string shown(const std::uint64_t* value) { return std::to_string(*value); }
std::string shown(const double* value) { return fmt::format("{}", *value); }
std::string shown(const Pair* pair) { return fmt::format("{},{}", (*pair)[0], (*pair)[1]); }
std::string shown(const bool*) { return ""; }
std::string shown(const std::string* value) { return std::string(printable(*value, 200)); }
std::string shown(const std::filesystem::path* value) { return std::string(seppo::printable_path(*value)); }
std::string shown(const Choice& choice) { return choice.names[static_cast<std::size_t>(choice.value())]; }

template <class T>
T parse_number(const std::string& option, const std::string& text, T least, T most, const char* kind) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_plain = error == std::errc() && end == text.data() + text.size();
  if (!is_plain || !(value >= least && value <= most))
    throw UsageError(fmt::format("--{}: '{}' is not {} in {}..{}", option, printable(text), kind, least, most));
  return value;
}

// Checks the text that is given for an option, and sets the option's value to it.
void assign(const std::string& option, const std::string& text, Range range, int* value) {
  const int least = static_cast<int>(range.least);
  const int most = static_cast<int>(range.most);
  *value = parse_number(option, text, least, most, "an integer");
}
void assign(const std::string& option, const std::string& text, Range, std::uint64_t* value) {
  *value = parse_number<std::uint64_t>(option, text, 0, UINT64_MAX, "an integer");
}
void assign(const std::string& option, const std::string& text, Range range, double* value) {
  *value = parse_number(option, text, range.least, range.most, "a number");
}
void assign(const std::string& option, const std::string& text, Range range, Pair* pair) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos)
    throw UsageError(fmt::format("--{}: '{}' is not two numbers X,Y", option, printable(text)));
  Pair parsed;
  assign(option, text.substr(0, comma), range, &parsed[0]);
  assign(option, text.substr(comma + 1), range, &parsed[1]);
  *pair = parsed;
}
void assign(const std::string&, const std::string& text, Range, bool* value) { *value = text != "false"; }
void assign(const std::string&, const std::string& text, Range, std::string* value) { *value = text; }
void assign(const std::string&, const std::string& text, Range, std::filesystem::path* value) { *value = text; }
void assign(const std::string& option, const std::string& text, Range, const Choice& choice) {
  const auto found = std::find(choice.names.begin(), choice.names.end(), text);
  if (found == choice.names.end())
    throw UsageError(
        fmt::format("--{}: '{}' is not one of {}", option, printable(text), fmt::join(choice.names, ", ")));
  choice.set(static_cast<int>(found - choice.names.begin()));
}

// Which values an option takes, as its help ends: "; 1..64".
std::string allowed(Range range, const int*) { return fmt::format("; {}..{}", range.least, range.most); }
std::string allowed(Range range, const double*) { return fmt::format("; {}..{}", range.least, range.most); }
std::string allowed(Range range, const Pair*) { return fmt::format("; {}..{}", range.least, range.most); }
std::string allowed(Range, const Choice& choice) { return fmt::format("; one of {}", fmt::join(choice.names, ", ")); }
std::string allowed(Range, const void*) { return ""; }

std::string option_name(std::string field) {
  std::replace(field.begin(), field.end(), '_', '-');
  return field.starts_with("n-") ? field.substr(2) : field;
}

}  // namespace

void CommandLine::add(const Field& field) {
  const std::string name = option_name(field.name);
  options_.push_back({.field = field, .name = name, .key = key_, .section = section_, .words = {}});
  if (field.name.starts_with("n_")) alias("n-" + name, name);
}

void CommandLine::one_of(const std::string& field, const std::vector<std::string>& words) {
  std::ranges::find(options_, field, [](const Option& option) { return option.field.name; })->words = words;
}

bool CommandLine::Option::is_on() const { return flag() && *flag(); }

bool* CommandLine::Option::flag() const {
  const auto found = std::get_if<bool*>(&field.value);
  return found ? *found : nullptr;
}

std::filesystem::path* CommandLine::Option::path() const {
  const auto found = std::get_if<std::filesystem::path*>(&field.value);
  return found ? *found : nullptr;
}

std::string CommandLine::Option::kind() const {
  if (!words.empty()) return "NAME";
  return std::visit([](const auto& value) { return kind_of(value); }, field.value);
}

std::string CommandLine::Option::help() const {
  if (!words.empty()) return fmt::format("{}; one of {}", field.help, fmt::join(words, ", "));
  return field.help + std::visit([&](const auto& value) { return allowed(field.range, value); }, field.value);
}

std::vector<std::string> CommandLine::Option::names() const {
  const auto* const choice = std::get_if<Choice>(&field.value);
  return choice ? std::vector<std::string>(choice->names.begin(), choice->names.end()) : words;
}

std::string CommandLine::Option::value() const {
  return std::visit([](const auto& value) { return shown(value); }, field.value);
}

void CommandLine::Option::set(const std::string& text) const {
  if (!words.empty() && std::ranges::find(words, text) == words.end())
    throw UsageError(fmt::format("--{}: '{}' is not one of {}", name, printable(text), fmt::join(words, ", ")));
  std::visit([&](const auto& value) { assign(name, text, field.range, value); }, field.value);
}

}  // namespace examples

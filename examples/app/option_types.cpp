// Makes an option of each type of field: how its value is read, checked and shown in --help.
#include "app/command_line.h"

#include <seppo/autograd/core/printable.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

namespace examples {

using seppo::Choice;
using seppo::Field;
using seppo::printable;
using seppo::Range;

namespace {

std::string option_name(std::string field) {
  std::replace(field.begin(), field.end(), '_', '-');
  return field.starts_with("n-") ? field.substr(2) : field;
}

template <class T>
T parse_number(const std::string& option, const std::string& text, T least, T most, const char* kind) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_plain = error == std::errc() && end == text.data() + text.size();
  if (!is_plain || !(value >= least && value <= most))
    throw UsageError(fmt::format("--{}: '{}' is not {} in {}..{}", option, printable(text), kind, least, most));
  return value;
}

std::string or_none(const char* help) { return help ? help : ""; }

std::string with_range(const char* help, Range range) {
  return help ? fmt::format("{}; {}..{}", help, range.least, range.most) : "";
}

}  // namespace

void CommandLine::add(const char* field, const std::string& what, const std::string& help,
                      const std::function<std::string()>& value,
                      const std::function<void(const std::string&, const std::string&)>& set) {
  const std::string name = option_name(field);
  options_.push_back({name, field, key_, section_, what, help, nullptr, value});
  options_.back().set = [=](const std::string& text) { set(name, text); };
  if (std::string_view(field).starts_with("n_")) alias("n-" + name, name);
}

void CommandLine::field(const Field& field) {
  std::visit(
      [&](const auto& value) {
        if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(value)>>)
          option(field, *value);
        else
          option(field, value);
      },
      field.value);
}

void CommandLine::option(const Field& f, int& value) {
  add(
      f.name, "N", with_range(f.help, f.range), [&value] { return std::to_string(value); },
      [range = f.range, &value](const std::string& option, const std::string& text) {
        value =
            parse_number<int>(option, text, static_cast<int>(range.least), static_cast<int>(range.most), "an integer");
      });
}

void CommandLine::option(const Field& f, std::uint64_t& value) {
  add(
      f.name, "N", or_none(f.help), [&value] { return std::to_string(value); },
      [&value](const std::string& option, const std::string& text) {
        value = parse_number<std::uint64_t>(option, text, 0, UINT64_MAX, "an integer");
      });
}

void CommandLine::option(const Field& f, double& value) {
  add(
      f.name, "X", with_range(f.help, f.range), [&value] { return fmt::format("{}", value); },
      [range = f.range, &value](const std::string& option, const std::string& text) {
        value = parse_number<double>(option, text, range.least, range.most, "a number");
      });
}

void CommandLine::option(const Field& f, std::array<double, 2>& value) {
  add(
      f.name, "X,Y", with_range(f.help, f.range), [&value] { return fmt::format("{},{}", value[0], value[1]); },
      [range = f.range, &value](const std::string& option, const std::string& text) {
        const std::size_t comma = text.find(',');
        if (comma == std::string::npos)
          throw UsageError(fmt::format("--{}: '{}' is not two numbers X,Y", option, printable(text)));
        value = {parse_number<double>(option, text.substr(0, comma), range.least, range.most, "a number"),
                 parse_number<double>(option, text.substr(comma + 1), range.least, range.most, "a number")};
      });
}

void CommandLine::option(const Field& f, bool& value) {
  add(f.name, "", or_none(f.help), nullptr,
      [&value](const std::string&, const std::string& text) { value = text != "false"; });
  options_.back().flag = &value;
}

void CommandLine::option(const Field& f, std::string& value) {
  add(
      f.name, "TEXT", or_none(f.help), [&value] { return std::string(printable(value, 200)); },
      [&value](const std::string&, const std::string& text) { value = text; });
}

void CommandLine::option(const Field& f, std::filesystem::path& value) {
  add(
      f.name, "PATH", or_none(f.help), [&value] { return std::string(seppo::printable_path(value)); },
      [&value](const std::string&, const std::string& text) { value = text; });
  options_.back().path = &value;
}

void CommandLine::option(const Field& f, const Choice& choice) {
  const auto names = choice.names;
  const std::string all = fmt::format("{}", fmt::join(names, ", "));
  const auto chosen = std::make_shared<std::size_t>(choice.value);
  add(
      f.name, "NAME", f.help ? fmt::format("{}; one of {}", f.help, all) : "", [=] { return names[*chosen]; },
      [=, set = choice.set](const std::string& option, const std::string& text) {
        const auto found = std::find(names.begin(), names.end(), text);
        if (found == names.end())
          throw UsageError(fmt::format("--{}: '{}' is not one of {}", option, printable(text), all));
        *chosen = static_cast<std::size_t>(found - names.begin());
        set(static_cast<int>(*chosen));
      });
}

void CommandLine::one_of(const std::string& field, const std::vector<std::string>& words) {
  const auto option = std::ranges::find(options_, field, &Option::field);
  const std::string all = fmt::format("{}", fmt::join(words, ", "));
  option->what = "NAME";
  option->help += "; one of " + all;
  option->set = [=, name = option->name, set = option->set](const std::string& text) {
    if (std::ranges::find(words, text) == words.end())
      throw UsageError(fmt::format("--{}: '{}' is not one of {}", name, printable(text), all));
    set(text);
  };
}

}  // namespace examples

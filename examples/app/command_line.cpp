#include "app/command_line.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/data/vocabulary.h>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <new>

namespace examples {

namespace po = boost::program_options;
using seppo::printable;

namespace {

constexpr const char* kVersion = "0.1.0";

template <class T>
T parse_number(const std::string& name, const std::string& text, T least, T most, const char* kind) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool plain = error == std::errc() && end == text.data() + text.size();
  if (!plain || !(value >= least && value <= most))
    throw UsageError(fmt::format("--{}: '{}' is not {} in {}..{}", name, printable(text), kind, least, most));
  return value;
}

}  // namespace

CommandLine::CommandLine(std::string usage, std::string about) : usage_(std::move(usage)), about_(std::move(about)) {
  section("General");
}

void CommandLine::section(const std::string& title) { sections_.emplace_back(title, 110, 70); }

void CommandLine::add(const std::string& name, const std::string& what, const std::string& default_text,
                      const std::string& help, const Setter& set) {
  auto* value = po::value<std::string>()->value_name(what)->notifier(set);
  const std::string text = default_text.empty() ? help : help + " [" + default_text + "]";
  sections_.back().add_options()(name.c_str(), value, text.c_str());
}

void CommandLine::integer(const std::string& name, int* target, int least, int most, const std::string& help) {
  add(name, "N", std::to_string(*target), help,
      [=](const std::string& text) { *target = parse_number<int>(name, text, least, most, "an integer"); });
}

void CommandLine::seed(const std::string& name, std::uint64_t* target, const std::string& help) {
  add(name, "N", std::to_string(*target), help,
      [=](const std::string& text) { *target = parse_number<std::uint64_t>(name, text, 0, UINT64_MAX, "an integer"); });
}

void CommandLine::number(const std::string& name, double* target, double least, double most, const std::string& help) {
  add(name, "X", fmt::format("{}", *target), help,
      [=](const std::string& text) { *target = parse_number<double>(name, text, least, most, "a number"); });
}

void CommandLine::pair(const std::string& name, double* first, double* second, double least, double most,
                       const std::string& help) {
  add(name, "X,Y", fmt::format("{},{}", *first, *second), help, [=](const std::string& text) {
    const std::size_t comma = text.find(',');
    if (comma == std::string::npos)
      throw UsageError(fmt::format("--{}: '{}' is not two numbers X,Y", name, printable(text)));
    *first = parse_number<double>(name, text.substr(0, comma), least, most, "a number");
    *second = parse_number<double>(name, text.substr(comma + 1), least, most, "a number");
  });
}

void CommandLine::text(const std::string& name, std::string* target, const std::string& what, const std::string& help) {
  add(name, what, *target, help, [=](const std::string& value) { *target = value; });
}

void CommandLine::path(const std::string& name, std::filesystem::path* target, const std::string& help) {
  add(name, "PATH", target->string(), help, [=](const std::string& value) {
    if (value.empty()) throw UsageError(fmt::format("--{}: the path is empty", name));
    *target = value;
  });
}

void CommandLine::existing_path(const std::string& name, std::filesystem::path* target, const std::string& help) {
  add(name, "PATH", target->string(), help, [=](const std::string& value) {
    std::error_code error;
    if (!std::filesystem::exists(value, error))
      throw UsageError(fmt::format("--{}: there is no file or folder '{}'", name, printable(value, 120)));
    *target = value;
  });
}

void CommandLine::choice(const std::string& name, std::string* target, const std::vector<std::string>& choices,
                         const std::string& help) {
  const std::string all = fmt::format("{}", fmt::join(choices, "|"));
  add(name, all, *target, help, [=](const std::string& value) {
    if (std::find(choices.begin(), choices.end(), value) == choices.end())
      throw UsageError(fmt::format("--{}: '{}' is not one of {}", name, printable(value), all));
    *target = value;
  });
}

void CommandLine::flag(const std::string& name, bool* target, const std::string& help) {
  const auto sets = [&](bool value) {
    return po::bool_switch()->notifier([=](bool is_given) {
      if (is_given) *target = value;
    });
  };
  sections_.back().add_options()(name.c_str(), sets(true), (*target ? help + " [on]" : help).c_str());
  if (*target) sections_.back().add_options()(("no-" + name).c_str(), sets(false), "not so");
}

bool CommandLine::given(const std::string& name) const {
  return std::find(given_.begin(), given_.end(), name) != given_.end();
}

bool CommandLine::parse(const std::vector<std::string>& arguments) {
  sections_.front().add_options()("help", "show this text");
  po::options_description all, words("words");
  for (const auto& section : sections_) all.add(section);
  po::options_description accepted;
  accepted.add(all);
  po::positional_options_description positions;
  std::vector<std::string> rest;
  words.add_options()("words", po::value(&rest));
  accepted.add(words);
  positions.add("words", -1);
  // Long options only, never abbreviated: "-30 - -34" is then a word.
  using namespace po::command_line_style;
  const int style = allow_long | long_allow_adjacent | long_allow_next;
  try {
    const auto parsed = po::command_line_parser(arguments).options(accepted).positional(positions).style(style).run();
    po::variables_map map;
    po::store(parsed, map);
    if (map.count("help") || std::find(rest.begin(), rest.end(), "-h") != rest.end()) {
      std::cout << usage_ << "\n\n" << about_ << "\n" << all;
      return false;
    }
    for (const auto& option : parsed.options) {
      given_.push_back(option.string_key);
      if (option.string_key != "words" && option.value.size() == 1 && option.value[0].starts_with("--"))
        throw UsageError(
            fmt::format("--{}: its value is missing before '{}'", option.string_key, printable(option.value[0])));
      if (option.string_key != "words" && option.value.size() == 1 && option.value[0].empty())
        throw UsageError(fmt::format("--{}: its value is empty", option.string_key));
    }
    po::notify(map);
  } catch (const po::error& e) {
    throw UsageError(printable(e.what(), 160));
  }
  if (words_)
    *words_ = rest;
  else if (!rest.empty())
    throw UsageError(fmt::format("unexpected word '{}': options start with --", printable(rest.front())));
  return true;
}

std::string option_in(const std::vector<std::string>& arguments, const std::string& name, const std::string& fallback) {
  const std::string option = "--" + name;
  std::string value = fallback;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == option && i + 1 < arguments.size()) value = arguments[i + 1];
    if (arguments[i].starts_with(option + "=")) value = arguments[i].substr(option.size() + 1);
  }
  return value;
}

void for_each_text(const std::vector<std::string>& texts, const std::function<void(const std::string&)>& f) {
  for (const std::string& text : texts) f(text);
  if (!texts.empty()) return;
  int number = 0;
  for (std::string text; std::getline(std::cin, text);) {
    ++number;
    if (seppo::split_blanks(text).empty()) {
      std::cout << std::endl;
      continue;
    }
    try {
      f(text);
    } catch (const seppo::Error& e) {
      throw seppo::FormatError(fmt::format("standard input:{}: {}", number, e.what()));
    }
  }
}

int guarded(const char* argv0, const std::function<int()>& f) {
  const auto complain = [&](const std::string& what) {
    std::cerr << std::filesystem::path(argv0).filename().string() << ": " << what << std::endl;
  };
  try {
    return f();
  } catch (const UsageError& e) {
    complain(e.what());
    return 2;
  } catch (const std::bad_alloc&) {
    complain("out of memory");
    return 1;
  } catch (const std::exception& e) {
    complain(e.what());
    return 1;
  }
}

int run_commands(int argc, char** argv, const std::string& about, const std::vector<Command>& commands) {
  return guarded(argv[0], [&] {
    const std::string program = std::filesystem::path(argv[0]).filename().string();
    const std::string name = argc > 1 ? argv[1] : "";
    if (name == "--help" || name == "-h" || name == "help") {
      std::cout << fmt::format("{}\n\nusage: {} COMMAND [options]\n\n", about, program);
      for (const Command& command : commands) std::cout << fmt::format("  {:<10}{}\n", command.name, command.summary);
      std::cout << fmt::format("\n`{} COMMAND --help` lists the options of a command.\n", program);
      return 0;
    }
    if (name == "--version") {
      std::cout << program << " (seppo) " << kVersion << "\n";
      return 0;
    }
    const auto found = std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == name; });
    if (found == commands.end()) {
      std::vector<std::string> names;
      for (const Command& command : commands) names.push_back(command.name);
      throw UsageError(fmt::format("{}; give one of {} (--help for more)",
                                   name.empty() ? "no command" : "unknown command '" + printable(name) + "'",
                                   fmt::join(names, ", ")));
    }
    return found->run(std::vector<std::string>(argv + 2, argv + argc));
  });
}

}  // namespace examples

// Options from configs, the help text, and what a program does around its commands.
#include "app/command_line.h"

#include "app/help_text.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/data/text.h>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <fstream>
#include <iostream>
#include <new>

namespace examples {

namespace po = boost::program_options;
using nlohmann::json;
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

bool is_utf8(std::string_view text) {
  while (!text.empty())
    if (const std::size_t length = seppo::character_length(text))
      text.remove_prefix(length);
    else
      return false;
  return true;
}

bool is_help(const std::string& argument) { return argument == "--help" || argument == "-h"; }

void print_version(const std::string& program) { std::cout << program << " (seppo) " << SEPPO_VERSION << "\n"; }

}  // namespace

CommandLine::CommandLine(std::string usage, std::string about)
    : program_(usage.substr(0, usage.find(' '))), usage_(std::move(usage)), about_(std::move(about)) {}

void CommandLine::add(const char* field, const std::string& what, const std::string& help,
                      const std::function<std::string()>& value,
                      const std::function<void(const std::string&, const std::string&)>& set) {
  const std::string name = option_name(field);
  options_.push_back({name, field, key_, section_, what, help, nullptr, value});
  options_.back().set = [=](const std::string& text) { set(name, text); };
  if (std::string_view(field).starts_with("n_")) alias("n-" + name, name);
}

void CommandLine::integer(const char* name, int& value, Range range, const char* help) {
  add(
      name, "N", with_range(help, range), [&value] { return std::to_string(value); },
      [=, &value](const std::string& option, const std::string& text) {
        value =
            parse_number<int>(option, text, static_cast<int>(range.least), static_cast<int>(range.most), "an integer");
      });
}

void CommandLine::seed(const char* name, std::uint64_t& value, const char* help) {
  add(
      name, "N", or_none(help), [&value] { return std::to_string(value); },
      [&value](const std::string& option, const std::string& text) {
        value = parse_number<std::uint64_t>(option, text, 0, UINT64_MAX, "an integer");
      });
}

void CommandLine::number(const char* name, double& value, Range range, const char* help) {
  add(
      name, "X", with_range(help, range), [&value] { return fmt::format("{}", value); },
      [=, &value](const std::string& option, const std::string& text) {
        value = parse_number<double>(option, text, range.least, range.most, "a number");
      });
}

void CommandLine::pair(const char* name, std::array<double, 2>& value, Range range, const char* help) {
  add(
      name, "X,Y", with_range(help, range), [&value] { return fmt::format("{},{}", value[0], value[1]); },
      [=, &value](const std::string& option, const std::string& text) {
        const std::size_t comma = text.find(',');
        if (comma == std::string::npos)
          throw UsageError(fmt::format("--{}: '{}' is not two numbers X,Y", option, printable(text)));
        value = {parse_number<double>(option, text.substr(0, comma), range.least, range.most, "a number"),
                 parse_number<double>(option, text.substr(comma + 1), range.least, range.most, "a number")};
      });
}

void CommandLine::flag(const char* name, bool& value, const char* help) {
  add(name, "", or_none(help), nullptr,
      [&value](const std::string&, const std::string& text) { value = text != "false"; });
  options_.back().flag = &value;
}

void CommandLine::text(const char* name, std::string& value, const char* help) {
  add(
      name, "TEXT", or_none(help), [&value] { return printable(value); },
      [&value](const std::string&, const std::string& text) { value = text; });
}

void CommandLine::path(const char* name, std::filesystem::path& value, const char* help) {
  add(
      name, "PATH", or_none(help), [&value] { return value.string(); },
      [&value](const std::string&, const std::string& text) { value = text; });
  options_.back().path = &value;
}

void CommandLine::choice(const char* name, int value, const std::function<void(int)>& set,
                         std::span<const char* const> names, const char* help) {
  const std::string all = fmt::format("{}", fmt::join(names, ", "));
  const auto chosen = std::make_shared<std::size_t>(value);
  add(
      name, "NAME", help ? fmt::format("{}; one of {}", help, all) : "", [=] { return names[*chosen]; },
      [=](const std::string& option, const std::string& text) {
        const auto found = std::find(names.begin(), names.end(), text);
        if (found == names.end())
          throw UsageError(fmt::format("--{}: '{}' is not one of {}", option, printable(text), all));
        *chosen = static_cast<std::size_t>(found - names.begin());
        set(static_cast<int>(*chosen));
      });
}

const CommandLine::Option* CommandLine::find(const std::string& name) const {
  const auto alias = aliases_.find(name);
  const std::string& wanted = alias == aliases_.end() ? name : alias->second;
  for (const Option& option : options_)
    if (!option.help.empty() && (option.name == wanted || (option.is_on() && "no-" + option.name == wanted)))
      return &option;
  return nullptr;
}

bool CommandLine::given(const std::string& option) const {
  return std::find(given_.begin(), given_.end(), option) != given_.end();
}

json CommandLine::config() const {
  json all = {{"program", program_}};
  for (const auto& [key, part] : parts_) all[key] = part();
  return all;
}

bool CommandLine::parse(const Arguments& arguments) {
  const Arguments options(arguments.begin(), std::find(arguments.begin(), arguments.end(), "--"));
  bool dumps = false;
  section("General");
  if (!parts_.empty()) {
    (*this)("config", config_file_, "take the options of a config.json, or of what --dump-config printed, as defaults");
    (*this)("dump_config", dumps, "print all options that make up the run as JSON");
    const std::string file = option_in(options, "config", "");
    if (!file.empty()) read_config(file);
  }
  if (std::any_of(options.begin(), options.end(), is_help)) {
    std::cout << help();
    return false;
  }
  if (std::find(options.begin(), options.end(), "--version") != options.end()) {
    print_version(program_);
    return false;
  }
  read_options(arguments);
  check_rules();
  if (dumps) std::cout << config().dump(2) << "\n";
  return !dumps;
}

void CommandLine::read_config(const std::string& file) {
  const std::string where = "--config: " + printable(file, 120);
  std::ifstream stream(file);
  const json all = json::parse(stream, nullptr, false);
  if (!all.is_object()) throw UsageError(where + " is not a file with a JSON object");
  if (all.value("program", json(program_)) != program_)
    throw UsageError(fmt::format("{} is of {}, not of {}", where, printable(all["program"].dump()), program_));
  for (const auto& [key, part] : parts_) {
    const json fields = all.value(key, json::object());
    for (const auto& [field, value] : fields.items()) {
      const auto option = std::find_if(options_.begin(), options_.end(),
                                       [&](const Option& o) { return o.key == key && o.field == field; });
      if (option == options_.end())
        throw UsageError(fmt::format("{}: '{}' of '{}' is not known", where, printable(field), key));
      if (option->help.empty()) continue;  // set by the data
      const bool is_pair = value.is_array() && value.size() == 2;
      try {
        option->set(value.is_string() ? value.get<std::string>()
                    : is_pair         ? value[0].dump() + "," + value[1].dump()
                                      : value.dump());
      } catch (const UsageError& e) {
        throw UsageError(fmt::format("{}: {}", where, e.what()));
      }
    }
  }
}

void CommandLine::read_options(const Arguments& arguments) {
  po::options_description accepted;
  const auto accept = [&](const std::string& name, bool is_flag) {
    accepted.add_options()(name.c_str(), new po::untyped_value(is_flag), "");
  };
  for (const Option& option : options_)
    if (find(option.name) == &option) {
      accept(option.name, option.flag);
      if (option.is_on()) accept("no-" + option.name, true);
    }
  for (const auto& [name, option] : aliases_) accept(name, find(option)->flag);
  const std::string kWord = " ";  // a name that nobody types
  accepted.add_options()(kWord.c_str(), po::value<Arguments>(), "");
  po::positional_options_description positions;
  positions.add(kWord.c_str(), -1);
  // Long options only, never abbreviated: "-30 - -34" is then a word.
  using namespace po::command_line_style;
  po::command_line_parser parser(arguments);
  parser.options(accepted).positional(positions).style(allow_long | long_allow_adjacent | long_allow_next);
  Arguments rest;
  try {
    for (const auto& given : parser.run().options) {
      if (given.string_key == kWord) {
        rest.insert(rest.end(), given.value.begin(), given.value.end());
        continue;
      }
      const Option& option = *find(given.string_key);
      const std::string value = given.value.empty() ? "" : given.value[0];
      const bool has_equals = given.original_tokens[0].find('=') != std::string::npos;
      if (this->given(option.name)) throw UsageError(fmt::format("--{}: is given twice", option.name));
      given_.push_back(option.name);
      if (option.flag) {
        *option.flag = given.string_key != "no-" + option.name;
        continue;
      }
      if (value.starts_with("--") && !has_equals)
        throw UsageError(fmt::format("--{}: its value is missing before '{}'", option.name, printable(value)));
      if (value.empty()) throw UsageError(fmt::format("--{}: its value is empty", option.name));
      if (!option.key.empty() && !is_utf8(value))
        throw UsageError(
            fmt::format("--{}: '{}' is not UTF-8, which config.json needs", option.name, printable(value)));
      option.set(value);
    }
  } catch (const po::unknown_option& e) {
    std::vector<std::string> names;
    for (const Option& option : options_)
      if (find(option.name) == &option) names.push_back(option.name);
    const std::string name = e.get_option_name(), near = nearest_option(name, names);
    throw UsageError(fmt::format("unrecognised option '{}'{}", printable(name),
                                 near.empty() ? "" : fmt::format("; did you mean --{}?", near)));
  } catch (const po::error& e) {
    throw UsageError(printable(e.what(), 160));
  }
  if (words_)
    *words_ = rest;
  else if (!rest.empty())
    throw UsageError(fmt::format("unexpected word '{}': options start with --", printable(rest.front())));
}

void CommandLine::check_rules() const {
  for (const std::string& name : paths_) {
    const Option* option = find(option_name(name));
    std::error_code error;
    if (given(option->name) && !std::filesystem::exists(*option->path, error))
      throw UsageError(
          fmt::format("--{}: there is no file or folder '{}'", option->name, printable(option->path->string(), 120)));
  }
  try {
    for (const auto& check : checks_) check();
  } catch (const seppo::ArgumentError& e) {
    // The library's rules name fields; who types options knows them by another name.
    std::string text;
    for (const std::string_view word : seppo::split_blanks(e.what())) {
      const auto option =
          std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.field == word; });
      text += (text.empty() ? "" : " ") + (option == options_.end() ? std::string(word) : "--" + option->name);
    }
    throw UsageError(text);
  }
}

std::string CommandLine::help() const {
  std::string text = "usage: " + usage_ + "\n\n" + wrapped_paragraphs(about_);
  std::vector<std::string> sections;
  for (const Option& option : options_)
    if (std::find(sections.begin(), sections.end(), option.section) == sections.end())
      sections.push_back(option.section);
  for (const std::string& section : sections) {
    text += "\n" + section + ":\n";
    for (const Option& option : options_) {
      if (option.section != section || option.help.empty()) continue;
      const std::string value = option.value ? option.value() : "";
      text += help_entry("--" + option.name + (option.what.empty() ? "" : " " + option.what),
                         option.help + (value.empty() ? "" : " [" + value + "]"));
      if (option.is_on()) text += help_entry("--no-" + option.name, "turn --" + option.name + " off");
    }
    if (section == "General")
      text += help_entry("--version", "print the version") + help_entry("-h, --help", "show this text");
  }
  return text;
}

std::string option_in(const Arguments& arguments, const std::string& name, const std::string& fallback) {
  const std::string option = "--" + name;
  std::string value = fallback;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == option && i + 1 < arguments.size()) value = arguments[i + 1];
    if (arguments[i].starts_with(option + "=")) value = arguments[i].substr(option.size() + 1);
  }
  return value;
}

void for_each_text(const Arguments& texts, const std::function<void(const std::string&)>& f) {
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
  seppo::check<seppo::FileError>(!std::cin.bad() && !std::ferror(stdin), "standard input: cannot read");
}

int guarded(const char* argv0, const std::function<int()>& f) {
  // A file opened while a standard stream is closed would become that stream.
  int spare = ::open("/dev/null", O_RDWR);
  while (spare >= 0 && spare <= STDERR_FILENO) spare = ::open("/dev/null", O_RDWR);
  if (spare >= 0) ::close(spare);
  const auto complain = [&](const std::string& what, int code) {
    std::cerr << std::filesystem::path(argv0).filename().string() << ": " << what << std::endl;
    return code;
  };
  try {
    const int code = f();
    return std::cout.flush().good() ? code : complain("standard output: cannot write", 1);
  } catch (const UsageError& e) {
    return complain(e.what(), 2);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", 1);
  } catch (const std::exception& e) {
    return complain(e.what(), 1);
  }
}

int run_commands(int argc, char** argv, const std::string& about, const std::vector<Command>& commands) {
  return guarded(argv[0], [&] {
    const std::string program = std::filesystem::path(argv[0]).filename().string();
    const std::string name = argc > 1 ? argv[1] : "";
    if (is_help(name) || name == "help") {
      std::cout << wrapped_paragraphs(about) << fmt::format("\nusage: {} COMMAND [options]\n\n", program);
      for (const Command& command : commands) std::cout << help_entry(command.name, command.summary);
      std::cout << fmt::format("\n`{} COMMAND --help` lists the options of a command.\n", program);
      return 0;
    }
    if (name == "--version") {
      print_version(program);
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
    return found->run(Arguments(argv + 2, argv + argc));
  });
}

}  // namespace examples

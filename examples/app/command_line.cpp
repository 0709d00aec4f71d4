// Turns the fields of configs into options, parses and checks them, and prints the help text.
#include "app/command_line.h"

#include "app/build_info.h"
#include "app/help_text.h"
#include "app/invocation.h"
#include "app/paths.h"
#include "app/words.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/utf8.h>
#include <seppo/nn/io/json.h>
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/train/ranks.h>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include <algorithm>
#include <iostream>

namespace examples {

namespace po = boost::program_options;
using nlohmann::json;
using seppo::printable;

namespace {

constexpr const char* kGeneral = "General";  // the section of what most programs have
constexpr const char* kNotOptions[] = {"program", "model", "vocabulary", "languages"};  // in a config.json
// Options that each rank may have for itself, besides paths: they change neither its work nor its messages.
constexpr const char* kOfOneRank[] = {"threads",    "rank-timeout", "overwrite", "log-interval",
                                      "log-format", "report",       "json",      "dump-config"};

// As it is typed; two numbers are typed as A,B.
std::string typed_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  const bool is_pair = value.is_array() && value.size() == 2;
  return is_pair ? value[0].dump() + "," + value[1].dump() : value.dump();
}

}  // namespace

CommandLine::CommandLine(std::string usage, std::string about)
    : ConfigVisitor([this](const seppo::Field& field) { add(field); }),
      program_(usage.substr(0, usage.find(' '))),
      usage_(std::move(usage)),
      about_(std::move(about)),
      section_(kGeneral) {}

const CommandLine::Option* CommandLine::find(const std::string& name) const {
  const auto alias = aliases_.find(name);
  const std::string& wanted = alias == aliases_.end() ? name : alias->second;
  for (const Option& option : options_)
    if (!option.is_set_by_data() && (option.name == wanted || (option.flag() && "no-" + option.name == wanted)))
      return &option;
  return nullptr;
}

void CommandLine::take_all_from(const std::string& option, std::function<json(const std::string&)> load,
                                std::vector<std::string> free) {
  source_ = {option, std::move(load), std::move(free)};
}

void CommandLine::needs(const std::string& option, const std::string& what) {
  check([this, option, what] {
    if (path(option).empty()) throw UsageError(fmt::format("--{}: {} is needed", option, what));
  });
}

std::vector<std::filesystem::path> CommandLine::inputs() const {
  std::vector<std::filesystem::path> files;
  for (const Option& option : options_)
    if (option.path() && !option.path()->empty() && std::ranges::find(paths_, option.field.name) != paths_.end())
      files.push_back(*option.path());
  return files;
}

bool CommandLine::typed(const std::string& option) const { return std::ranges::find(typed_, option) != typed_.end(); }

bool CommandLine::given(const std::string& option) const {
  return typed(option) || std::ranges::find(from_file_, option) != from_file_.end();
}

const std::filesystem::path& CommandLine::path(const std::string& option) const { return *find(option)->path(); }

json CommandLine::config() const {
  json all = {{"program", program_}};
  for (const auto& [key, part] : parts_) all[key] = part();
  return all;
}

bool CommandLine::parse(const Arguments& arguments) {
  const Arguments options(arguments.begin(), std::find(arguments.begin(), arguments.end(), "--"));
  bool dumps = false;
  section(kGeneral);
  if (!parts_.empty()) {
    (*this)("config", config_file_, "take the options of a config.json, or of what --dump-config printed, as defaults");
    (*this)("dump_config", dumps, "print all options that make up the run as JSON");
    const std::string file = option_in(options, "config", "");
    if (!file.empty()) read_config(file);
  }
  const std::string source = source_.load ? option_in(options, source_.option, "") : "";
  const bool shows_all = std::ranges::find(options, "--help-all") != options.end();
  if (shows_all || std::ranges::any_of(options, is_help)) {
    std::cout << help(shows_all);
    return false;
  }
  if (CommandText* const wanted = described_command()) {
    *wanted = {.about = about(), .words = usage_, .options = option_texts()};
    return false;
  }
  if (std::find(options.begin(), options.end(), "--version") != options.end()) {
    print_version(program_);
    return false;
  }
  if (std::find(options.begin(), options.end(), "--build-info") != options.end()) {
    std::cout << build_info(program_);
    return false;
  }
  if (!source.empty()) apply(source_.load(source), "--" + source_.option + ": " + printable(source, 120));
  read_options(arguments);
  compare_ranks();
  check_rules();
  if (settle_) settle_();
  if (dumps) {
    std::cout << config().dump(2, ' ', /*ensure_ascii=*/true) << "\n";
    return false;
  }
  run(last_checks_);
  return true;
}

void CommandLine::read_config(const std::string& file) {
  const std::string where = "--config: " + printable(file, 120);
  check_input("config", file);
  json all;
  try {
    all = seppo::parse_json(seppo::read_text(file), where);
  } catch (const seppo::FormatError& e) {
    throw UsageError(e.what());
  }
  if (!all.is_object()) throw UsageError(where + " is not a file with a JSON object");
  if (all.value("program", json(program_)) != program_)
    throw UsageError(fmt::format("{} is of {}, not of {}", where, seppo::printable_json(all["program"]), program_));
  for (const auto& [key, value] : all.items())  // a config.json also has what the data and the options determine
    if (!parts_.contains(key) && !other_parts_.contains(key) &&
        std::ranges::find(kNotOptions, key) == std::end(kNotOptions))
      throw UsageError(fmt::format("{}: '{}' is not known", where, printable(key)));
  apply(all, where);
}

void CommandLine::apply(const json& all, const std::string& where) {
  for (const auto& [key, part] : parts_) {
    const json fields = all.value(key, json::object());
    if (!fields.is_object()) throw UsageError(fmt::format("{}: '{}' is not an object of options", where, key));
    for (const auto& [field, value] : fields.items()) {
      const auto option = std::find_if(
          options_.begin(), options_.end(),
          [&, key = key, field = field](const Option& o) { return o.key == key && o.field.name == field; });
      if (option == options_.end())
        throw UsageError(fmt::format("{}: '{}' of '{}' is not known", where, printable(field), key));
      if (option->is_set_by_data()) continue;
      from_file_.push_back(option->name);
      if ((option->path() || option->kind() == "TEXT") && !value.is_string())
        throw UsageError(fmt::format("{}: '{}' of '{}' is not a text", where, printable(field), key));
      if (option->flag() && !value.is_boolean())
        throw UsageError(fmt::format("{}: '{}' of '{}' is neither true nor false", where, printable(field), key));
      try {
        option->set(typed_text(value));
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
      accept(option.name, option.flag());
      if (option.is_on()) accept("no-" + option.name, true);
    }
  for (const auto& [name, option] : aliases_) accept(name, find(option)->flag());
  const std::string kWord = " ";  // a name that nobody types
  accepted.add_options()(kWord.c_str(), po::value<Arguments>(), "");
  po::positional_options_description positions;
  positions.add(kWord.c_str(), -1);
  // Long options only, never abbreviated: "-30 - -34" is then a word.
  using namespace po::command_line_style;
  po::command_line_parser parser(arguments);
  parser.options(accepted).positional(positions).style(allow_long | long_allow_adjacent | long_allow_next);
  // Boost would expand this error message endlessly for a name such as %option%.
  for (auto word = arguments.begin(); word != arguments.end() && *word != "--"; ++word)
    if (word->starts_with("--") && word->find('=') == word->size() - 1)
      throw UsageError(printable(word->substr(0, word->size() - 1)) + ": its value is empty");
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
      if (typed(option.name)) throw UsageError(fmt::format("--{}: is given twice", option.name));
      typed_.push_back(option.name);
      if (option.flag()) {
        *option.flag() = given.string_key != "no-" + option.name;
        continue;
      }
      if (value.starts_with("--") && !has_equals)
        throw UsageError(fmt::format("--{}: its value is missing before '{}'", option.name, printable(value)));
      if (value.empty()) throw UsageError(fmt::format("--{}: its value is empty", option.name));
      if (!option.key.empty() && seppo::utf8_length(value) < value.size())
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

// Ranks that work with different options would send each other what does not fit, or train what is no model of either.
void CommandLine::compare_ranks() const {
  if (seppo::ranks() == 1) return;
  std::map<std::string, std::string> values;
  for (const Option& option : options_)
    if (!option.is_set_by_data() && !option.path() &&
        std::ranges::find(kOfOneRank, option.name) == std::end(kOfOneRank))
      values["--" + option.name] = option.flag() ? (option.is_on() ? "on" : "off") : option.value();
  seppo::set_rank_phase("the comparison of the options");
  seppo::check_equal_over_ranks(values);
}

// Names this option a file that may have moved since?
bool CommandLine::has_moved(const std::string& option) const { return find(option)->path() && option != "config"; }

void CommandLine::check_rules() const {
  if (source_.load && typed(source_.option))
    for (const std::string& name : typed_)
      if (std::ranges::find(source_.free, name) == source_.free.end() && !has_moved(name))
        throw UsageError(fmt::format("--{}: cannot be given with --{}, which takes it from there; these can: {}", name,
                                     source_.option, fmt::join(source_.free, ", ")));
  for (const Option& option : options_) {
    std::filesystem::path* const path = option.path();
    if (!path || !given(option.name) || path->empty()) continue;
    const bool is_input = std::ranges::find(paths_, option.field.name) != paths_.end();
    is_input ? check_input(option.name, *path) : check_not_special(option.name, *path);
  }
  run(checks_);
}

void CommandLine::run(const std::vector<std::function<void()>>& checks) const try {
  for (const auto& check : checks) check();
} catch (const seppo::ArgumentError& e) {
  // The library's messages name fields; users know these as options.
  std::string text;
  for (const std::string_view word : split_blanks(e.what())) {
    const auto option =
        std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.field.name == word; });
    text += (text.empty() ? "" : " ") + (option == options_.end() ? std::string(word) : "--" + option->name);
  }
  throw UsageError(text);
}

bool CommandLine::is_shown(const OptionText& option) const {
  const auto is_this = [&](const std::string& name) { return name == option.name || "no-" + name == option.name; };
  return shown_.empty() || option.section == kGeneral || std::ranges::any_of(shown_, is_this);
}

std::vector<OptionText> CommandLine::option_texts() const {
  std::vector<OptionText> texts;
  for (const Option& option : options_) {
    if (option.is_set_by_data()) continue;
    texts.push_back({option.name, option.kind(), option.help(), option.value(), option.names(), option.section});
    if (option.is_on())
      texts.push_back(
          {.name = "no-" + option.name, .help = "turn --" + option.name + " off", .section = option.section});
  }
  const auto general = [&](const char* name, const char* help) {
    texts.push_back({.name = name, .help = help, .section = kGeneral});
  };
  general("version", "print the version");
  general("build-info", "print what the program was built from and with, and computes with here");
  general("help", "show this text");
  if (!shown_.empty()) general("help-all", "show this text with all options");
  // By section, these in the order of their first options.
  const std::vector<OptionText> as_added = texts;
  const auto rank = [&](const OptionText& text) {
    return std::ranges::find(as_added, text.section, &OptionText::section) - as_added.begin();
  };
  std::ranges::stable_sort(texts, {}, rank);
  return texts;
}

std::string CommandLine::about() const {
  std::string text = about_;
  const std::string example = "\n  " + program_ + " ";  // a line that begins with the program's name
  for (std::size_t at = 0; (at = text.find(example, at)) != std::string::npos; ++at)
    text.replace(at + 3, program_.size(), program_file(program_));
  return text;
}

std::string CommandLine::help(bool shows_all) const {
  std::string text = "usage: " + program_file(program_) + usage_.substr(program_.size()) + "\n\n";
  text += wrapped_paragraphs(about());
  std::string section;
  for (const OptionText& option : option_texts()) {
    if (!shows_all && !is_shown(option)) continue;
    if (option.section != section) text += "\n" + option.section + ":\n";
    section = option.section;
    const std::string name = (option.name == "help" ? "-h, --" : "--") + option.name;
    text += help_entry(name + (option.kind.empty() ? "" : " " + option.kind),
                       option.help + (option.value.empty() ? "" : " [" + option.value + "]"));
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

}  // namespace examples

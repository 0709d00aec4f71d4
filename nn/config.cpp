// Reading, writing and checking the fields of a config: a visitor for each.
#include "config.h"

#include "../autograd/core/check.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

namespace seppo::inline SEPPO_ABI {
namespace {

using nlohmann::json;
using Names = std::span<const char* const>;
using Set = std::function<void(int)>;

std::string text_of(double number) {
  char text[32];
  const bool is_integral =
      number > -1e15 && number < 1e15 && number == static_cast<double>(static_cast<std::int64_t>(number));
  const auto end = is_integral ? std::to_chars(text, text + 32, static_cast<std::int64_t>(number)).ptr
                               : std::to_chars(text, text + 32, number).ptr;
  return {text, end};
}

std::string text_of(Range range) { return text_of(range.least) + ".." + text_of(range.most); }

std::string text_of(Names names) {
  std::string text = "one of";
  for (const char* name : names) text += (text.ends_with("one of") ? " " : ", ") + std::string(name);
  return text;
}

bool is_in(Range range, double value) { return value >= range.least && value <= range.most; }

class Writer : public ConfigVisitor {
 public:
  explicit Writer(json& object) : object_(object) { object_ = json::object(); }

 private:
  void integer(const char* name, int& value, Range, const char*) override { write(name, value); }
  void number(const char* name, double& value, Range, const char*) override { write(name, value); }
  void pair(const char* name, std::array<double, 2>& value, Range, const char*) override { write(name, value); }
  void flag(const char* name, bool& value, const char*) override { write(name, value); }
  void seed(const char* name, std::uint64_t& value, const char*) override { write(name, value); }
  void text(const char* name, std::string& value, const char*) override { write(name, value); }
  void path(const char* name, std::filesystem::path& value, const char*) override { write(name, value.string()); }
  void choice(const char* name, int value, const Set&, Names names, const char*) override {
    write(name, names[static_cast<std::size_t>(value)]);
  }

  void write(const char* name, const json& value) {
    check<ArgumentError>(!object_.contains(name), "config: two fields are called ", name);
    object_[name] = value;
  }

  json& object_;
};

class Reader : public ConfigVisitor {
 public:
  explicit Reader(const json& object) : object_(object) {
    check<FormatError>(object.is_object(), "config: ", shown(object), " is not an object");
  }

  void check_keys() const {
    for (const auto& [key, value] : object_.items())
      check<FormatError>(fields_.contains(key), "config: ", shown(key), " is not a known key");
  }

 private:
  void integer(const char* name, int& value, Range range, const char*) override {
    const json& found = find(name);
    require(found.is_number_integer() && is_in(range, found.get<double>()), name, "an integer in " + text_of(range));
    value = found.get<int>();
  }
  void number(const char* name, double& value, Range range, const char*) override {
    const json& found = find(name);
    require(is_number_in(range, found), name, "a number in " + text_of(range));
    value = found.get<double>();
  }
  void pair(const char* name, std::array<double, 2>& value, Range range, const char*) override {
    const json& found = find(name);
    require(found.is_array() && found.size() == 2 && is_number_in(range, found[0]) && is_number_in(range, found[1]),
            name, "two numbers in " + text_of(range));
    value = {found[0].get<double>(), found[1].get<double>()};
  }
  void flag(const char* name, bool& value, const char*) override {
    require(find(name).is_boolean(), name, "true or false");
    value = find(name).get<bool>();
  }
  void seed(const char* name, std::uint64_t& value, const char*) override {
    const json& found = find(name);
    require(found.is_number_integer() && (found.is_number_unsigned() || found.get<std::int64_t>() >= 0), name,
            "an integer in 0..2^64-1");
    value = found.get<std::uint64_t>();
  }
  void text(const char* name, std::string& value, const char*) override {
    require(find(name).is_string(), name, "text");
    value = find(name).get<std::string>();
  }
  void path(const char* name, std::filesystem::path& value, const char*) override {
    require(find(name).is_string(), name, "a path");
    value = find(name).get<std::string>();
  }
  void choice(const char* name, int, const Set& set, Names names, const char*) override {
    const json& found = find(name);
    const auto at = std::find_if(names.begin(), names.end(), [&](const char* known) { return found == known; });
    require(at != names.end(), name, text_of(names));
    set(static_cast<int>(at - names.begin()));
  }

  const json& find(const char* name) {
    check<FormatError>(object_.contains(name), "config: '", name, "' is missing");
    fields_.insert(name);
    return object_[name];
  }
  static bool is_number_in(Range range, const json& value) {
    return value.is_number() && is_in(range, value.get<double>());
  }
  void require(bool ok, const char* name, const std::string& rule) const {
    check<FormatError>(ok, "config: '", name, "' is ", shown(object_[name]), ", not ", rule);
  }
  // Safe on a terminal: escaped and short.
  static std::string shown(const json& value) {
    const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    return text.size() <= 60 ? text : text.substr(0, 60) + "...";
  }

  const json& object_;
  std::set<std::string, std::less<>> fields_;
};

class Checker : public ConfigVisitor {
 public:
  explicit Checker(const char* what) : what_(what) {}

 private:
  void integer(const char* name, int& value, Range range, const char*) override { require(name, value, range); }
  void number(const char* name, double& value, Range range, const char*) override { require(name, value, range); }
  void pair(const char* name, std::array<double, 2>& value, Range range, const char*) override {
    for (const double number : value) require(name, number, range);
  }
  void flag(const char*, bool&, const char*) override {}
  void seed(const char*, std::uint64_t&, const char*) override {}
  void text(const char*, std::string&, const char*) override {}
  void path(const char*, std::filesystem::path&, const char*) override {}
  void choice(const char* name, int value, const Set&, Names names, const char*) override {
    check<ArgumentError>(value >= 0 && static_cast<std::size_t>(value) < names.size(), what_, ": ", name, " ", value,
                         " is not ", text_of(names));
  }

  void require(const char* name, double value, Range range) const {
    if (!is_in(range, value))
      fail<ArgumentError>(what_, ": ", name, " ", text_of(value), " is not in ", text_of(range));
  }

  const char* what_;
};

}  // namespace

namespace detail {

void write_fields(json& object, Fields fields) {
  Writer writer(object);
  fields(writer);
}

void read_fields(const json& object, Fields fields) {
  Reader reader(object);
  fields(reader);
  reader.check_keys();
}

void check_fields(const char* what, Fields fields) {
  Checker checker(what);
  fields(checker);
}

}  // namespace detail
}  // namespace seppo::inline SEPPO_ABI

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
    const auto fits = [&](const json& j) { return j.is_number_integer() && is_in(range, j.get<double>()); };
    read(name, value, fits, "an integer in " + text_of(range));
  }
  void number(const char* name, double& value, Range range, const char*) override {
    read(
        name, value, [&](const json& j) { return is_number(range, j); }, "a number in " + text_of(range));
  }
  void pair(const char* name, std::array<double, 2>& value, Range range, const char*) override {
    const auto fits = [&](const json& j) {
      return j.is_array() && j.size() == 2 && is_number(range, j[0]) && is_number(range, j[1]);
    };
    read(name, value, fits, "two numbers in " + text_of(range));
  }
  void flag(const char* name, bool& value, const char*) override {
    read(
        name, value, [](const json& j) { return j.is_boolean(); }, "true or false");
  }
  void seed(const char* name, std::uint64_t& value, const char*) override {
    const auto fits = [](const json& j) {
      return j.is_number_unsigned() || (j.is_number_integer() && j.get<std::int64_t>() >= 0);
    };
    read(name, value, fits, "an integer in 0..2^64-1");
  }
  void text(const char* name, std::string& value, const char*) override {
    read(
        name, value, [](const json& j) { return j.is_string(); }, "text");
  }
  void path(const char* name, std::filesystem::path& value, const char*) override {
    std::string string;
    text(name, string, nullptr);
    value = string;
  }
  void choice(const char* name, int, const Set& set, Names names, const char*) override {
    std::string chosen;
    const auto at = [&](const json& j) { return std::find(names.begin(), names.end(), j); };
    read(
        name, chosen, [&](const json& j) { return at(j) != names.end(); }, text_of(names));
    set(static_cast<int>(at(chosen) - names.begin()));
  }

  template <class T, class Fits>
  void read(const char* name, T& value, const Fits& fits, const std::string& rule) {
    check<FormatError>(object_.contains(name), "config: '", name, "' is missing");
    fields_.insert(name);
    const json& found = object_[name];
    if (!fits(found)) fail<FormatError>("config: '", name, "' is ", shown(found), ", not ", rule);
    value = found.get<T>();
  }
  static bool is_number(Range range, const json& j) { return j.is_number() && is_in(range, j.get<double>()); }
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

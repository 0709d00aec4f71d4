// JSON: nlohmann's parser, which allows more than we do, watched event by event.
#include "json.h"

#include "../../autograd/core/check.h"
#include "../data/text.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

namespace seppo::inline SEPPO_ABI {
namespace {

using nlohmann::json;

// Tells how far the parser has come.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char& operator*() const { return *at; }
  Cursor& operator++() {
    ++at;
    ++*offset;
    return *this;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
  bool operator!=(const Cursor& other) const { return at != other.at; }

  const char* at;
  std::size_t* offset;
};

class Watch : public nlohmann::json_sax<json> {
 public:
  Watch(int depth, JsonEvents& events) : left_(depth), events_(events) {}

  bool null() override { return pass(nullptr); }
  bool boolean(bool value) override { return pass(value); }
  bool number_integer(number_integer_t value) override { return pass(value); }
  bool number_unsigned(number_unsigned_t value) override { return pass(value); }
  bool number_float(number_float_t value, const string_t&) override { return pass(value); }
  bool string(string_t& value) override { return pass(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return enter(), events_.begin_object(), true; }
  bool key(string_t& key) override { return events_.key(key), true; }
  bool end_object() override { return ++left_, events_.end_object(), true; }
  bool start_array(std::size_t) override { return enter(), events_.begin_array(), true; }
  bool end_array() override { return ++left_, events_.end_array(), true; }
  bool parse_error(std::size_t at, const std::string&, const json::exception& e) override {
    events_.offset = at;
    const std::string_view what = e.what();
    const std::size_t colon = what.find(": ");  // behind the library's own number, line and column
    events_.refuse(printable(what.substr(colon == what.npos ? 0 : colon + 2), 100));
    return false;
  }

 private:
  bool pass(json value) { return events_.value(std::move(value)), true; }
  void enter() {
    if (left_-- == 0) events_.refuse("nested too deeply");
  }

  int left_;
  JsonEvents& events_;
};

class Builder : public JsonEvents {
 public:
  Builder(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  void begin_object() override { open_.push_back(&add(json::object())); }
  void key(const std::string& key) override {
    if (open_.back()->contains(key)) refuse("the key '" + std::string(printable(key)) + "' is there twice");
    key_ = key;
  }
  void end_object() override { open_.pop_back(); }
  void begin_array() override { open_.push_back(&add(json::array())); }
  void end_array() override { open_.pop_back(); }
  void value(json&& value) override { add(std::move(value)); }
  [[noreturn]] void refuse(const std::string& why) override {
    const std::string_view before = text_.substr(0, std::max<std::size_t>(offset, 1) - 1);
    const std::size_t line = before.rfind('\n') + 1;  // 0 if there is none
    fail<FormatError>(name_, ":", 1 + std::count(before.begin(), before.end(), '\n'), ":", 1 + before.size() - line,
                      ": not valid JSON: ", why);
  }

  json& document() { return tree_.value; }

 private:
  json& add(json&& value) {
    if (open_.empty()) return tree_.value = std::move(value);
    json& parent = *open_.back();
    if (parent.is_object()) return parent[key_] = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }

  std::string_view text_, name_;
  JsonTree tree_;
  std::vector<json*> open_;
  std::string key_;
};

}  // namespace

void JsonTree::clear(json& tree) noexcept {
  if (!tree.is_structured()) return;
  for (json& child : tree) clear(child);
  tree.clear();
}

void read_json(std::string_view text, int depth, JsonEvents& events) {
  if (const std::size_t nul = text.find('\0'); nul != text.npos) {  // the parser would take it for the end
    events.offset = nul + 1;
    events.refuse("a NUL");
  }
  events.offset = 0;
  Watch watch(depth, events);
  json::sax_parse(Cursor{text.data(), &events.offset}, Cursor{text.data() + text.size(), &events.offset}, &watch);
}

json parse_json(std::string_view text, std::string_view name) {
  Builder builder(text, name);
  read_json(text, 16, builder);
  return std::move(builder.document());
}

}  // namespace seppo::inline SEPPO_ABI

// JSON: nlohmann's parser, which accepts more than we do, checked event by event.
#include "json.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

using nlohmann::json;

class Builder : public JsonEvents {
 public:
  Builder(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  bool start_object(std::size_t) override { return open(json::object()); }
  bool key(string_t& key) override {
    if (open_.back()->contains(key)) refuse("the key '" + std::string(printable(key)) + "' is there twice");
    key_ = key;
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }
  void value(json&& value) override { add(std::move(value)); }
  [[noreturn]] void refuse(const std::string& why) override {
    const std::string_view before = text_.substr(0, std::max<std::size_t>(offset(), 1) - 1);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t begin_of_line = before.rfind('\n') + 1;  // 0 if there is none
    const std::size_t column = 1 + before.size() - begin_of_line;
    fail<FormatError>(name_, ":", line, ":", column, ": not valid JSON: ", why);
  }

  json& document() { return tree_.value; }

 private:
  bool open(json&& value) {
    if (open_.size() == kMostNesting) refuse("nested too deeply");
    open_.push_back(&add(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  json& add(json&& value) {
    if (open_.empty()) return tree_.value = std::move(value);
    json& parent = *open_.back();
    if (parent.is_object()) return parent[key_] = std::move(value);
    return parent.emplace_back(std::move(value));
  }

  std::string_view text_, name_;
  JsonTree tree_;
  std::vector<json*> open_;
  std::string key_;
};

}  // namespace

bool is_nested_within(const json& value, int levels) {
  if (!value.is_structured()) return true;
  if (levels == 0) return false;
  for (const json& child : value)
    if (!is_nested_within(child, levels - 1)) return false;
  return true;
}

std::string printable_json(const json& value) {
  return printable(value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace));
}

void JsonTree::clear(json& tree) noexcept {
  if (!tree.is_structured()) return;
  for (json& child : tree) clear(child);
  tree.clear();
}

void JsonEvents::read(std::string_view text) {
  error_at_ = text.find('\0') + 1;  // 0 if there is none; the parser would take it for the end
  if (error_at_ > 0) refuse("a NUL");
  std::istringstream stream{std::string(text)};
  text_ = stream.rdbuf();
  json::sax_parse(stream, this);
}

std::size_t JsonEvents::offset() const {
  return error_at_ > 0 ? error_at_ : static_cast<std::size_t>(text_->pubseekoff(0, std::ios::cur, std::ios::in));
}

bool JsonEvents::parse_error(std::size_t at, const std::string&, const json::exception& e) {
  error_at_ = at;
  const std::string_view what = e.what();
  const std::size_t colon = what.find(": ");  // after the library's own number, line and column
  refuse(printable(what.substr(colon == what.npos ? 0 : colon + 2), 100));
  return false;
}

json parse_json(std::string_view text, std::string_view name) {
  Builder builder(text, name);
  builder.read(text);
  return std::move(builder.document());
}

}  // namespace SEPPO_ABI
}  // namespace seppo
